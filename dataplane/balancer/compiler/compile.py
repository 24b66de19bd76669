"""Compile what a balancer serves into the tables that its data process reads. Pure: the same input, the same arrays.

`tables.compiler` makes the tables that a gateway has as well, from the same VPCs with other addresses of their own:
virtual IPs and pool addresses take the place of the subnets' gateways, so the slow path answers ARP for them. The MAC
of all of them is `balancer_mac`. The Maglev slots are no part of a generation (`tables.schema`): `Compiled.slots` are
the wanted ones, by row, and the control process writes those that differ once the generation is in use.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, NamedTuple

import numpy as np

from heddle.dataplane.balancer.compiler.numbering import (
    MAX_BACK_ENDS,
    BackEndName,
    Numbering,
    ServiceName,
    numbered,
    service_name,
)
from heddle.dataplane.balancer.maglev import Slots, maglev_table
from heddle.dataplane.balancer.memory import connections as states
from heddle.dataplane.balancer.tables import schema
from heddle.dataplane.cache_lines import at_a_line
from heddle.dataplane.config.addresses import gateway_mac, wide
from heddle.dataplane.config.balancers import BackEnd, BalancerConfig, LoadBalancer, Mode, Service, balancer_mac
from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.config.network import Address, Endpoint, NetworkConfig, Subnet, Vpc
from heddle.dataplane.elements.memory.rounds import SECOND_NS
from heddle.dataplane.jit import Grid, Ints
from heddle.dataplane.packet.transport import TCP, UDP
from heddle.dataplane.tables import schema as gateway
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.tables.compiler.hops import row_of, words_of
from heddle.dataplane.tables.compiler.index import indexed
from heddle.dataplane.tables.compiler.links import Adjacency, Links, address_words
from heddle.dataplane.tables.compiler.outside import grid


@dataclass(frozen=True, slots=True)
class Compiled:
    """One generation; `tables` lacks the slots (its field is empty)."""

    tables: Any
    slots: Mapping[int, Slots]
    numbering: Numbering


def compile_services(
    local: LocalConfig,
    config: BalancerConfig,
    *,
    down: Set[BackEndName],
    before: Numbering,
    neighbours: Mapping[tuple[int, Address], int],
    generation: int,
) -> Compiled:
    """Return one generation of tables, and the wanted slots.

    Args:
        local: the balancer itself.
        config: what it serves; valid (`config.check_balancers`).
        down: back ends whose probes fail, or have not succeeded yet.
        before: the numbering of the generation before.
        neighbours: MACs by link and address.
        generation: the number that the data process reports while it uses the tables.

    Raises:
        ValueError: `local` is not valid, or there are too many back ends; one line for each reason.
    """
    if any(interface.side is not Side.UNDERLAY for interface in local.interfaces):
        raise ValueError("interfaces: all of a balancer's are of the underlay")
    found = compile_tables(local, seen_network(config), neighbours=neighbours, generation=generation)
    numbering = numbered(before, config.balancers)
    hops = _Hops(local, neighbours, found)
    pools, ranges = _pools(config)
    keys, services, end_keys, end_rows = [], [], [], []
    back_ends = np.zeros(MAX_BACK_ENDS, dtype=schema.BACK_END)
    back_ends["number"] = -1
    slots: dict[int, Slots] = {}
    vnis = {vpc.id: vpc.vni for vpc in config.network.vpcs}
    for row, each in enumerate(config.balancers):
        vni, health = vnis[each.vpc], weighed(each, down, numbering)
        mode = schema.FULL_NAT if each.mode is Mode.FULL_NAT else schema.DIRECT
        for end, number, is_up in zip(each.back_ends, health.numbers, health.up, strict=True):
            hi, lo = _words(end.ip)
            hop = hops.of(each, vni, end)
            back_ends[number % MAX_BACK_ENDS] = (number, is_up, hop, hi, lo, end.port, mode, row)
            end_keys.append((row << 16 | end.port, hi, lo))
            end_rows.append(number % MAX_BACK_ENDS)
        slots[health.row] = health.slots
        keys.append(_key(each, vni))
        first, count = ranges.get((each.vpc, each.vip.version), (0, 0))
        services.append((vni, health.row, int(health.is_open), mode, first, count))
    tables = schema.Tables(
        *_with_own_macs(hops.tables()),
        services=indexed(grid(keys, 3), np.arange(len(keys))),
        service_rows=np.array(services, dtype=schema.SERVICE),
        back_ends=back_ends,
        back_end_rows=indexed(grid(end_keys, 3), np.array(end_rows, dtype=np.int64)),
        pools=pools,
        own_addresses=_own_addresses(config, vnis),
        timeouts=_timeouts(local),
        slots=np.zeros((1, 1), dtype=np.int32),
    )
    return Compiled(schema.Tables(*(at_a_line(array) for array in tables)), slots, numbering)


def _key(each: LoadBalancer, vni: int) -> tuple[int, int, int]:
    """Return a service's key in `services`."""
    protocol = TCP if each.protocol is Service.TCP else UDP
    return schema.service_key(vni, each.port, protocol), *_words(each.vip)


def seen_network(config: BalancerConfig) -> NetworkConfig:
    """Return the VPCs as the balancer's slow path and `tables.compiler` see them."""
    own: dict[str, list[Address]] = {vpc.id: [] for vpc in config.network.vpcs}
    for each in config.balancers:
        own[each.vpc].append(each.vip)
    for site in config.sites:
        own[site.vpc].extend(site.pool)
    return NetworkConfig(
        generation=config.network.generation,
        vpcs=tuple(_seen(vpc, list(dict.fromkeys(own[vpc.id])), config.gateways) for vpc in config.network.vpcs),
    )


def _seen(vpc: Vpc, own: list[Address], gateways: tuple[IPv4Address, ...]) -> Vpc:
    """Return a VPC with the balancer's addresses in place of its gateways', and its gateways as endpoints."""
    beyond = tuple(Endpoint(ip=IPv6Address(int(vtep)), mac=gateway_mac(vpc.vni), vtep=vtep) for vtep in gateways)
    return Vpc(
        id=vpc.id,
        vni=vpc.vni,
        subnets=tuple(Subnet(prefix=ip_network(address), gateway=address) for address in own),
        endpoints=vpc.endpoints + beyond,
    )


class Weighed(NamedTuple):
    """What the health of a service's back ends decides."""

    row: int
    """Of the service in `slots`."""
    numbers: list[int]
    up: list[bool]
    is_open: bool
    slots: Slots


def weighed(each: LoadBalancer, down: Set[BackEndName], numbering: Numbering) -> Weighed:
    """Return which back ends of a numbered service are used while some are down."""
    name = service_name(each)
    weights, up = _weights(each, name, down)
    numbers = [numbering.back_ends[BackEndName(name, end.ip, end.port)] for end in each.back_ends]
    return Weighed(numbering.services[name], numbers, up, any(weights), _slots(each.back_ends, weights, numbers))


def mark(tables: Any, row: int, health: Weighed, *, rising: bool) -> None:
    """Write into tables in use which back ends of the service in `row` are up: those that rise, or all others.

    Each is one word, which a data process reads as it was or as it is. To be called for the rising ones before the
    slots are written, and for the others afterwards: no slot names a back end that is not used.
    """
    for number, is_up in zip(health.numbers, health.up, strict=True):
        if is_up == rising:
            tables.back_ends["up"][number % MAX_BACK_ENDS] = is_up
    if not rising:
        tables.service_rows["open"][row] = health.is_open


def _weights(each: LoadBalancer, name: ServiceName, down: Set[BackEndName]) -> tuple[list[int], list[bool]]:
    """Return each back end's weight for new connections, and whether it counts as up."""
    up = [each.health is None or BackEndName(name, end.ip, end.port) not in down for end in each.back_ends]
    if each.panic_when_all_down and not any(up):
        up = [True] * len(up)
    weights = [end.weight if is_up and not end.draining else 0 for end, is_up in zip(each.back_ends, up, strict=True)]
    return weights, up


def _slots(back_ends: tuple[BackEnd, ...], weights: list[int], numbers: list[int]) -> Slots:
    """Return the rows of `back_ends` that the slots name."""
    positions = maglev_table([(end.ip, end.port, weight) for end, weight in zip(back_ends, weights, strict=True)])
    rows = np.array([*(number % MAX_BACK_ENDS for number in numbers), -1], dtype=np.int32)
    return rows[positions]  # position -1 is the last entry: no back end


class _Hops:
    """The next hops of compiled tables, with those to back ends by IP-in-IP behind them."""

    def __init__(
        self, local: LocalConfig, neighbours: Mapping[tuple[int, Address], int], found: gateway.Tables
    ) -> None:
        self._local, self._links, self._found = local, Links(local, neighbours), found
        self._in_ip: dict[tuple[int, ...], int] = {}
        endpoints = found.endpoints[found.endpoints[:, 3] != gateway.EMPTY].tolist()
        self._rows = {(vni, hi, lo): row for vni, hi, lo, row in endpoints}

    def of(self, each: LoadBalancer, vni: int, end: BackEnd) -> int:
        """Return the row of the next hop to a back end."""
        if each.mode is not Mode.IP_IN_IP:
            return self._rows[vni, *_words(end.ip)]
        assert isinstance(end.ip, IPv4Address)
        fields = self._fields(self._links.to_vtep(end.ip), int(end.ip))
        return len(self._found.next_hops) + self._in_ip.setdefault(fields, len(self._in_ip))

    def _fields(self, adjacency: Adjacency, target: int) -> tuple[int, ...]:
        """Return a row of NEXT_HOP; `spare_0` is the target of the outer header."""
        interface = self._local.interfaces[adjacency.port]
        high, low = address_words(adjacency.address)
        return row_of(
            gateway.EXTERNAL,
            port=adjacency.port,
            mtu_bytes=interface.mtu_bytes,
            target_mac=adjacency.mac,
            source_mac=interface.mac,
            resolved=int(adjacency.mac != 0),
            address=low,
            address_hi=high,
            spare_0=target,
        )

    def tables(self) -> gateway.Tables:
        """Return the tables with all next hops."""
        more = np.array(list(self._in_ip), dtype=gateway.NEXT_HOP)
        return self._found._replace(
            next_hops=np.concatenate([self._found.next_hops, more]),
            endpoint_vteps=np.concatenate([self._found.endpoint_vteps, np.zeros(len(more), dtype=np.int64)]),
        )


def _with_own_macs(found: gateway.Tables) -> gateway.Tables:
    """Replace the gateways' MAC by the balancers' where frames are received and sent."""
    vpcs, hops = found.vpcs.copy(), found.next_hops.copy()
    base = balancer_mac(0)
    vpcs["gateway_mac"] = base | vpcs["vni"]
    tunnels = hops["kind"] == gateway.TUNNEL
    hops["source_mac"] = np.where(tunnels, base | hops["vni"], hops["source_mac"])
    return found._replace(vpcs=vpcs, next_hops=hops)


def _pools(config: BalancerConfig) -> tuple[Grid, dict[tuple[str, int], tuple[int, int]]]:
    """Return the pool addresses, and the rows of each VPC's by IP version: the first and their number."""
    rows: list[tuple[int, int]] = []
    ranges = {}
    for site in config.sites:
        for version in (4, 6):
            mine = [_words(address) for address in site.pool if address.version == version]
            ranges[site.vpc, version] = (len(rows), len(mine))
            rows += mine
    return grid(rows or [(0, 0)], 2), ranges


def _own_addresses(config: BalancerConfig, vnis: Mapping[str, int]) -> Grid:
    virtual = [(vnis[each.vpc], *_words(each.vip)) for each in config.balancers]
    pool = [(vnis[site.vpc], *_words(address)) for site in config.sites for address in site.pool]
    kinds = [schema.VIRTUAL] * len(virtual) + [schema.POOL] * len(pool)
    return indexed(grid(virtual + pool, 3), np.array(kinds, dtype=np.int64))


def _timeouts(local: LocalConfig) -> Ints:
    """Return `Tables.timeouts`."""
    timeouts = local.timeouts
    by_state = {
        states.HALF_OPEN: timeouts.tcp_transitory_s,
        states.ESTABLISHED: timeouts.tcp_established_s,
        states.CLOSING: timeouts.tcp_transitory_s,
        states.FIRST: timeouts.udp_unanswered_s,
        states.STREAM: timeouts.udp_s,
    }
    found = np.zeros(8, dtype=np.int64)
    for state, seconds in by_state.items():
        found[state] = -(-seconds * SECOND_NS >> states.TICK_SHIFT)
    return found


def _words(address: Address) -> tuple[int, int]:
    high, low = words_of([wide(address)])
    return int(high[0]), int(low[0])
