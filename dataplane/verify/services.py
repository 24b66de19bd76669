"""A balancer's tables: which back end a new flow gets and why, and whether virtual IPs lead exactly where intended.

Independent of the compiler and the kernels but for the table schema: entries are decoded, and hashes computed by plain
integers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

import numpy as np

from heddle.dataplane.balancer.tables.schema import FULL_NAT, ROCE_PORT
from heddle.dataplane.config.balancers import LoadBalancer, Mode, Service
from heddle.dataplane.config.network import Address, NetworkConfig, Vpc
from heddle.dataplane.tables.schema import TUNNEL
from heddle.dataplane.verify.compare import Finding
from heddle.dataplane.verify.search import entries, unsigned128

WORD = (1 << 64) - 1
GOLDEN, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
V4_MAPPED = 0xFFFF << 32
UDP, TCP = 17, 6
LEAK, MISSING = "leak", "missing"
NAMES = {TCP: "TCP", UDP: "UDP"}


class Flow(NamedTuple):
    """A flow from a client to a virtual IP."""

    vni: int
    vip: Address
    port: int
    protocol: int
    client: Address
    client_port: int


class BackEndAt(NamedTuple):
    """A back end as the tables have it."""

    ip: Address
    port: int
    is_up: bool
    slots: int
    """Number of the service's slots that name it: its share of new flows."""
    vni: int
    """Of the tunnel to it; 0 for IP-in-IP."""
    mac: int
    translated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAt:
    """A service as the tables have it."""

    vni: int
    vip: Address
    port: int
    protocol: int
    is_open: bool
    back_ends: dict[int, BackEndAt]
    """By row of the tables."""
    slots: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Why a flow gets its back end, None where it is refused."""

    service: ServiceAt
    slot: int
    tried: int
    """Slots after `slot` that named no back end of the service and were skipped."""
    back_end: BackEndAt | None


def services_of(tables: Any) -> list[ServiceAt]:
    """Return the services that a packet's look-up finds."""
    keys, rows = entries(tables.services)
    found = []
    for (first, hi, lo), row in zip(keys.tolist(), rows.tolist(), strict=True):
        service = tables.service_rows[row]
        slots = tables.slots[int(service["slots"])]
        counts = np.bincount(slots[slots >= 0], minlength=len(tables.back_ends))
        mine = np.flatnonzero((tables.back_ends["number"] >= 0) & (tables.back_ends["service"] == row)).tolist()
        found.append(
            ServiceAt(
                vni=first >> 24,
                vip=_address(hi, lo),
                port=first >> 8 & 0xFFFF,
                protocol=first & 0xFF,
                is_open=bool(service["open"]),
                back_ends={at: _back_end(tables, at, int(counts[at])) for at in mine},
                slots=slots,
            )
        )
    return found


def _back_end(tables: Any, row: int, slots: int) -> BackEndAt:
    end = tables.back_ends[row]
    hop = tables.next_hops[int(end["next_hop"])]
    is_tunnel = int(hop["kind"]) == TUNNEL
    return BackEndAt(
        ip=_address(int(end["hi"]), int(end["lo"])),
        port=int(end["port"]),
        is_up=bool(end["up"]),
        slots=slots,
        vni=int(hop["vni"]) if is_tunnel else 0,
        mac=int(hop["target_mac"]) if is_tunnel else 0,
        translated=int(end["mode"]) == FULL_NAT,
    )


def chosen(services: Sequence[ServiceAt], flow: Flow) -> Choice | None:
    """Return which back end a new flow gets; None if no service has its virtual IP and port."""
    wanted = (flow.vni, flow.vip, flow.port, flow.protocol)
    service = next((each for each in services if (each.vni, each.vip, each.port, each.protocol) == wanted), None)
    if service is None:
        return None
    source_port = 0 if flow.protocol == UDP and flow.port == ROCE_PORT else flow.client_port
    key = (source_port << 16 | flow.port) << 32 | flow.protocol << 24 | flow.vni
    slot = _hashed(*_words(flow.client), *_words(flow.vip), key) % len(service.slots)
    tried = 0
    while service.is_open and tried < len(service.slots):
        row = int(service.slots[(slot + tried) % len(service.slots)])
        if row in service.back_ends:
            return Choice(service=service, slot=slot, tried=tried, back_end=service.back_ends[row])
        tried += 1
    return Choice(service=service, slot=slot, tried=tried, back_end=None)


def service_findings(tables: Any, network: NetworkConfig, balancers: Sequence[LoadBalancer]) -> list[Finding]:
    """Return where the services differ from the intended ones: `leak` for what is open, `missing` for what is not."""
    vpcs = {vpc.id: vpc for vpc in network.vpcs}
    wanted = {}
    for each in balancers:
        protocol = TCP if each.protocol is Service.TCP else UDP
        wanted[vpcs[each.vpc].vni, each.vip, each.port, protocol] = each
    have = {(each.vni, each.vip, each.port, each.protocol): each for each in services_of(tables)}
    found = [_finding(MISSING, key, "no service is installed") for key in wanted.keys() - have.keys()]
    for key, service in have.items():
        intended = wanted.get(key)
        lines = (
            [(LEAK, "a service that no load balancer intends")]
            if intended is None
            else _differences(service, intended, vpcs[intended.vpc])
        )
        found += [_finding(kind, key, line) for kind, line in lines]
    return sorted(found, key=str)


def _differences(service: ServiceAt, intended: LoadBalancer, vpc: Vpc) -> Iterator[tuple[str, str]]:
    macs = {endpoint.ip: endpoint.mac for endpoint in vpc.endpoints}
    wanted = {(end.ip, end.port): end for end in intended.back_ends}
    have = {(end.ip, end.port): end for end in service.back_ends.values()}
    for place in wanted.keys() - have.keys():
        yield MISSING, f"back end {place[0]} port {place[1]} is not installed"
    for place, end in have.items():
        name = f"back end {end.ip} port {end.port}"
        if place not in wanted:
            yield LEAK, f"{name} is none of load balancer {intended.id}"
        elif intended.mode is not Mode.IP_IN_IP and (end.vni, end.mac) != (vpc.vni, macs.get(end.ip, 0)):
            yield LEAK, f"{name} is reached in VNI {end.vni} at another MAC"
        elif end.translated != (intended.mode is Mode.FULL_NAT):
            yield LEAK, f"{name} is reached in another mode than {intended.mode}"
        if end.slots and place in wanted and wanted[place].draining:
            yield LEAK, f"{name} is draining and gets new connections"
    if set(service.slots.tolist()) - {-1, *service.back_ends}:
        yield LEAK, "slots name back ends of other services"


def _finding(kind: str, key: tuple[int, Address, int, int], cause: str) -> Finding:
    vni, vip, port, protocol = key
    traffic = f"{NAMES.get(protocol, str(protocol))} port {port}"
    return Finding(kind, f"clients of VNI {vni}", f"virtual IP {vip}", traffic, cause)


def _words(address: Address) -> tuple[int, int]:
    wide = V4_MAPPED | int(address) if isinstance(address, IPv4Address) else int(address)
    return wide >> 64, wide & WORD


def _address(hi: int, lo: int) -> Address:
    wide = unsigned128(hi, lo)
    return IPv4Address(wide & 0xFFFF_FFFF) if wide >> 32 == 0xFFFF else IPv6Address(wide)


def _hashed(first: int, second: int, third: int, fourth: int, fifth: int) -> int:
    """Return `engine.hashing.mixed5` without a seed."""
    x = first * GOLDEN & WORD ^ second * MIX & WORD
    y = third * MIX & WORD ^ fourth * GOLDEN & WORD
    x = (x ^ x >> 29) * GOLDEN & WORD
    y = (y ^ y >> 32) * MIX & WORD
    z = x + y + fifth * GOLDEN & WORD
    z = (z ^ z >> 32) * MIX & WORD
    return (z ^ z >> 29) >> 1
