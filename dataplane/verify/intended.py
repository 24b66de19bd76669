"""Derive the intended view directly from the configuration, without the compiler's code.

Every open path needs an intent: endpoints of one VPC reach each other and their peers' subnets; rules, the border,
direct connects, floating IPs and NAT open other paths; everything else is closed.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network

from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.config.network import Address, NetworkConfig, Prefix, Protocol, Vpc
from heddle.dataplane.verify.view import Delivery, Route, Rule, Span, View, VpcView
from heddle.foundation.network import Network

NETWORKS = tuple(Network)
LAST_PORT = 65_535


def number(address: Address) -> int:
    """Return an address as a 128-bit number, IPv4 as IPv4-mapped."""
    return int(address) | (0xFFFF << 32 if address.version == 4 else 0)


def span(prefix: Prefix) -> Span:
    """Return a prefix in 128-bit addresses."""
    return Span(number(prefix.network_address), prefix.prefixlen + (96 if prefix.version == 4 else 0))


def provider_spans(local: LocalConfig) -> dict[int, list[Span]]:
    """Return the provider's prefixes by realm."""
    found: dict[int, list[Span]] = {}
    for network in local.provider_networks:
        found.setdefault(NETWORKS.index(network.realm), []).extend(map(span, network.prefixes))
    return found


def intended(
    local: LocalConfig,
    network: NetworkConfig,
    partners: Sequence[IPv4Address] = (),
    virtual_ips: Sequence[VirtualIp] = (),
) -> View:
    """Return the view that the configuration intends; `partners` are VTEPs of other gateways."""
    sides = {interface.side for interface in local.interfaces}
    by_id = {vpc.id: vpc for vpc in network.vpcs}
    peers: dict[str, list[Vpc]] = {vpc.id: [] for vpc in network.vpcs}
    for peering in network.peerings:
        peers[peering.a].append(by_id[peering.b])
        peers[peering.b].append(by_id[peering.a])
    found = View()
    for vpc in network.vpcs:
        found.vpcs[vpc.vni] = _vpc(local, network, vpc, peers[vpc.id], sides, partners)
        found.floating_in |= {int(each.public): (vpc.vni, int(each.endpoint)) for each in vpc.floating_ips}
        if Side.CUSTOMER in sides:
            found.customers |= _customers(vpc)
    for each in virtual_ips:
        vteps = {endpoint.ip: int(endpoint.vtep) for endpoint in by_id[each.vpc].endpoints}
        if each.ip in vteps:
            answering = frozenset(vteps[ip] for ip in each.back_ends if ip in vteps)
            found.vpcs[by_id[each.vpc].vni].replying[number(each.ip)] = answering
    found.nat_in = frozenset(int(vpc.nat) for vpc in network.vpcs if vpc.nat is not None)
    return found


def _customers(vpc: Vpc) -> dict[tuple[int, int], tuple[int, Span]]:
    """Return VNI and prefix by VLAN and family; a family without a connection has that of the other one."""
    found: dict[tuple[int, int], tuple[int, Span]] = {}
    for family in (4, 6):
        for each in sorted(vpc.direct_connects, key=lambda each: each.customer.version != family):
            found.setdefault((each.vlan, family), (vpc.vni, span(each.customer)))
    return found


def _vpc(
    local: LocalConfig,
    network: NetworkConfig,
    vpc: Vpc,
    peers: Sequence[Vpc],
    sides: set[Side],
    partners: Sequence[IPv4Address],
) -> VpcView:
    vteps = {endpoint.ip: int(endpoint.vtep) for endpoint in vpc.endpoints}
    found = VpcView(
        vni=vpc.vni,
        realm=NETWORKS.index(vpc.realm),
        routes=_routes(local, vpc, peers, sides),
        deliveries={number(e.ip): Delivery(vpc.vni, int(e.vtep), e.mac) for e in vpc.endpoints},
        homes={number(ip): vtep for ip, vtep in vteps.items()},
        speakers=frozenset(vteps.values()) | frozenset(map(int, partners)),
        inward=_rules(vpc, "in"),
        outward=_rules(vpc, "out"),
        border={
            realm: tuple(
                _rule(rule.allow, rule.protocol, rule.remote, rule.port_min, rule.port_max)
                for rule in network.border
                if rule.vpc in ("*", vpc.id) and NETWORKS.index(rule.realm) == realm
            )
            for realm in provider_spans(local)
        },
        nat=int(vpc.nat) if vpc.nat is not None else 0,
        floating={int(each.endpoint): int(each.public) for each in vpc.floating_ips},
    )
    found.settle()
    return found


def _rules(vpc: Vpc, direction: str) -> tuple[Rule, ...]:
    return tuple(
        _rule(rule.allow, rule.protocol, rule.remote, rule.port_min, rule.port_max)
        for rule in vpc.rules
        if rule.direction.value == direction
    )


def _rule(allow: bool, protocol: Protocol, remote: Prefix, low: int, high: int) -> Rule:
    if protocol is Protocol.ICMP:
        low, high = 0, LAST_PORT
    return Rule(allow, protocol.value, remote.version, span(remote), low, high)


def _routes(local: LocalConfig, vpc: Vpc, peers: Sequence[Vpc], sides: set[Side]) -> dict[Span, Route]:
    """Return the routes of a VPC; of several for one prefix the first in this order counts."""
    routes: list[tuple[Span, Route]] = [(span(subnet.prefix), Route("discard")) for subnet in vpc.subnets]
    if Side.CUSTOMER in sides:
        routes += [(span(each.customer), Route("customer", each.vlan)) for each in vpc.direct_connects]
    routes += [(span(subnet.prefix), Route("vpc", peer.vni)) for peer in peers for subnet in peer.subnets]
    mine = [subnet.prefix for each in (vpc, *peers) for subnet in each.subnets]
    mine += [each.customer for each in vpc.direct_connects]
    if Side.PROVIDER in sides:
        for network in local.provider_networks:
            route = Route("network", NETWORKS.index(network.realm))
            routes += [
                (span(prefix), route) for prefix in network.prefixes if not any(within(prefix, one) for one in mine)
            ]
    if Side.EXTERNAL in sides and (vpc.nat is not None or vpc.floating_ips):
        routes.append((span(IPv4Network("0.0.0.0/0")), Route("internet")))
    found: dict[Span, Route] = {}
    for prefix, route in routes:
        found.setdefault(prefix, route)
    return found


def within(inner: Prefix, outer: Prefix) -> bool:
    """Return whether a prefix is equal to another or within it."""
    return (
        span(inner).length >= span(outer).length
        and span(outer).holds(number(inner.network_address))
        and (inner.version == outer.version)
    )
