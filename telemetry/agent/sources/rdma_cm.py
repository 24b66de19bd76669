"""Read which queue pairs the RDMA connection manager has connected, from `rdma -j resource show cm_id` (iproute2).

    [{"ifindex": 0, "ifname": "rxe0", "port": 1, "lqpn": 18, "qp-type": "RC", "state": "CONNECT", "ps": "TCP", "pid": 9,
      "cm-idn": 3, "src-addr": "10.0.0.1:45021", "dst-addr": "10.0.0.2:4420"},
     {"ifindex": 0, "ifname": "rxe0", "state": "LISTEN", "ps": "TCP", "pid": 9, "src-addr": "0.0.0.0:4420"}]

A connection whose own port has a listener is the passive end: the other end has connected to that port. Of a service
that has closed its listener (`ib_write_bw -R` does), the ports decide: those of programs that connect are ephemeral.
"""

import json
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NamedTuple

from heddle.foundation.kernel_port import cm_source_port
from heddle.telemetry.agent.sources.rdma_queue_pairs import MAX_NUMBER

EPHEMERAL_PORTS = range(32_768, 61_000)
"""Linux's default `ip_local_port_range`, from which the CM takes the port of a program that connects and names none."""


class CmConnection(NamedTuple):
    """The addresses of a connected queue pair, and the UDP source port it sends from (0: that of its numbers)."""

    src_ip: str
    dst_ip: str
    udp_source_port: int


class NotCmIdsError(Exception):
    """The text is not what `rdma -j resource show cm_id` prints."""


class _End(NamedTuple):
    """An address and port of an RDMA port space (`ps`)."""

    space: str
    address: IPv4Address | IPv6Address
    port: int


def cm_connections(text: str) -> dict[tuple[str, int], CmConnection | None]:
    """Return the connections by device and queue pair number, None for those over IPv6; raises NotCmIdsError."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotCmIdsError(f"no JSON: {error}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise NotCmIdsError("no list of connections")
    listeners = {_end(entry, "src-addr") for entry in entries if entry.get("state") == "LISTEN"}
    return {
        _queue_pair(entry): _connection(_end(entry, "src-addr"), _end(entry, "dst-addr"), listeners)
        for entry in entries
        if entry.get("state") == "CONNECT" and "lqpn" in entry
    }


def _connection(own: _End, peer: _End, listeners: set[_End]) -> CmConnection | None:
    if not isinstance(own.address, IPv4Address) or not isinstance(peer.address, IPv4Address):
        return None
    anywhere = (own.address, IPv4Address(0), IPv6Address(0))  # a listener of IPv6 takes connections of IPv4 as well
    listens = any(own._replace(address=address) in listeners for address in anywhere)
    served = own.port not in EPHEMERAL_PORTS and peer.port in EPHEMERAL_PORTS
    ports = (peer.port, own.port) if listens or served else (own.port, peer.port)
    return CmConnection(str(own.address), str(peer.address), cm_source_port(*ports))


def _queue_pair(entry: Mapping[str, Any]) -> tuple[str, int]:
    device, number = entry.get("ifname"), entry["lqpn"]
    if not isinstance(device, str) or type(number) is not int or not 0 < number <= MAX_NUMBER:
        raise NotCmIdsError("an entry has no ifname or lqpn")
    return device, number


def _end(entry: Mapping[str, Any], name: str) -> _End:
    """Return an end, which is written as ADDRESS:PORT for IPv6 too."""
    text = entry.get(name)
    address, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    try:
        found = ip_address(address)
    except ValueError:
        raise NotCmIdsError(f"an entry has no {name}") from None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 0xFFFF):
        raise NotCmIdsError(f"an entry has no port in {name}")
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return _End(str(entry.get("ps")), mapped or found, int(port))
