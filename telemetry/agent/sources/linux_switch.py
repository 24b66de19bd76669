"""Read the ports of a Linux router by rtnetlink: counters, carrier, and what their queues have dropped.

    RTM_GETLINK dump     IFLA_IFNAME, IFLA_STATS64, IFLA_CARRIER_DOWN_COUNT, and IFF_LOWER_UP for carrier
                         (rtnetlink(7), <linux/if_link.h>)
    RTM_GETQDISC dump    TCA_STATS2 with TCA_STATS_QUEUE of each root qdisc           (<linux/gen_stats.h>)

Two requests for all ports, without any privilege. A port that is set down has no carrier either.
"""

import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from heddle.foundation.network_namespace import network_namespace
from heddle.telemetry.agent.restart import Restarts
from heddle.telemetry.agent.source import DeviceSamples, SourceError
from heddle.telemetry.samples.sample import PortSample
from heddle.telemetry.samples.topic import Source

RTM_NEWLINK, RTM_GETLINK, RTM_NEWQDISC, RTM_GETQDISC = 16, 18, 36, 38
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
IFLA_IFNAME, IFLA_STATS64, IFLA_CARRIER_DOWN_COUNT, TCA_STATS2, TCA_STATS_QUEUE = 3, 23, 48, 7, 3
_RX_CRC_ERRORS = 12
"""Its place in rtnl_link_stats64."""
IFF_LOWER_UP = 1 << 16
TC_H_ROOT = 0xFFFFFFFF
NLA_TYPE_MASK = 0x3FFF
MAX_DATAGRAM_BYTES = 1 << 20
TIMEOUT_S = 1.0
_COUNT = struct.Struct("=I")
_HEADER, _LINK, _QDISC = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=BxxxiIII")
_ATTRIBUTE, _TRAFFIC, _QUEUE = struct.Struct("=HH"), struct.Struct("=13Q"), struct.Struct("=3I")


class _Link(NamedTuple):
    number: int
    name: str
    has_carrier: bool
    traffic: tuple[int, ...]
    """The first of rtnl_link_stats64: packets, bytes, errors and drops, each received and sent, ..., CRC errors."""
    flaps: int | None


class LinuxSwitch:
    """The ports of a router that runs Linux; `number_of` has the fabric's number of a port by interface."""

    reads_per_period = 1

    def __init__(self, switch: str, number_of: Mapping[str, int], pid: int | None = None) -> None:
        """Open a socket in this network namespace, or in that of process `pid`; raises OSError."""
        self.name = f"Linux router {switch}"
        self._switch, self._number_of = switch, dict(number_of)
        self._restarts, self._sequence = Restarts(), 0
        self._boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        with network_namespace(pid or os.getpid()):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(TIMEOUT_S)

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the counters and carrier of every port that exists; raises SourceError if none does."""
        try:
            links = [link for link in self._links() if link.name in self._number_of]
            dropped = dict(self._dropped())
        except (OSError, struct.error) as fault:
            raise SourceError(f"rtnetlink: {fault}") from None
        if not links:
            raise SourceError(f"no interface of these: {', '.join(self._number_of)}")
        samples = [self._sample(link, dropped.get(link.number, 0), now_unix_ns) for link in links]
        return [DeviceSamples(Source.SWITCH, self._switch, samples)]

    async def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _sample(self, link: _Link, dropped: int, now_unix_ns: int) -> PortSample:
        rx_packets, tx_packets, rx_bytes, tx_bytes, _, _, rx_drops, tx_drops = link.traffic[:8]
        sample = PortSample(
            port=f"{self._switch}:{self._number_of[link.name]}",
            timestamp_unix_ns=now_unix_ns,
            rx_packets=rx_packets,
            tx_packets=tx_packets,
            rx_bytes=rx_bytes,
            tx_bytes=tx_bytes,
            drops=rx_drops + tx_drops + dropped,
            carrier=link.has_carrier,
            rx_crc_errors=link.traffic[_RX_CRC_ERRORS],
            flaps=link.flaps,
        )
        return self._restarts.identified(sample, f"{self._boot} {link.number}")

    def _links(self) -> Iterator[_Link]:
        for body in self._dump(RTM_GETLINK, RTM_NEWLINK, _LINK.pack(0, 0, 0, 0, 0)):
            _, _, index, flags, _ = _LINK.unpack_from(body)
            found = dict(_attributes(body[_LINK.size :]))
            if IFLA_IFNAME in found and IFLA_STATS64 in found:
                name = found[IFLA_IFNAME].rstrip(b"\0").decode("ascii", "replace")
                traffic, downs = _TRAFFIC.unpack_from(found[IFLA_STATS64]), found.get(IFLA_CARRIER_DOWN_COUNT)
                flaps = _COUNT.unpack_from(downs)[0] if downs else None
                yield _Link(index, name, bool(flags & IFF_LOWER_UP), traffic, flaps)

    def _dropped(self) -> Iterator[tuple[int, int]]:
        """Yield interface index and drops of each root qdisc, which counts those of its children too."""
        for body in self._dump(RTM_GETQDISC, RTM_NEWQDISC, _QDISC.pack(0, 0, 0, 0, 0)):
            _, index, _, parent, _ = _QDISC.unpack_from(body)
            statistics = dict(_attributes(dict(_attributes(body[_QDISC.size :])).get(TCA_STATS2, b"")))
            if parent == TC_H_ROOT and TCA_STATS_QUEUE in statistics:
                _, _, drops = _QUEUE.unpack_from(statistics[TCA_STATS_QUEUE])
                yield index, drops

    def _dump(self, request: int, reply: int, body: bytes) -> Iterator[bytes]:
        """Send a dump request and yield the bodies of its replies; raises OSError."""
        self._sequence += 1
        size = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(size, request, NLM_F_REQUEST | NLM_F_DUMP, self._sequence, 0) + body)
        while True:
            data = self._socket.recv(MAX_DATAGRAM_BYTES)
            at = 0
            while at < len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
                message = data[at + _HEADER.size : at + length]
                at += max(-(-length // 4) * 4, _HEADER.size)
                if sequence != self._sequence:
                    continue  # of a request before that was not read to its end
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    number = -struct.unpack_from("=i", message)[0]
                    raise OSError(number, os.strerror(number))
                if kind == reply:
                    yield message


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of each attribute: length 16 | kind 16 | content, padded to 4 bytes."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & NLA_TYPE_MASK, data[at + _ATTRIBUTE.size : at + length]
        at += -(-length // 4) * 4
