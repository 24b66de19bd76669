"""Compute the VXLAN state of a host from the network configuration: forwarding and neighbour entries per VPC.

No learning, no flooding: each MAC of a VPC has an entry with its VTEP, each address one with its MAC. All other frames
go to the VPC's gateway, which answers or drops them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import NamedTuple

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.config.balancers import VirtualIp, balancer_mac
from heddle.dataplane.config.network import Address, NetworkConfig, Vpc

ANY_MAC = 0
"""The default entry, in place of a MAC: unknown unicast and broadcast."""
VXLAN_OVERHEAD_BYTES = 50


class Forward(NamedTuple):
    """Forwarding entry: frames of a VPC to a MAC are sent to a VTEP."""

    vni: int
    mac: int
    vtep: IPv4Address


class NeighbourEntry(NamedTuple):
    """Neighbour entry: address and MAC of an endpoint or gateway; the host answers requests for it."""

    vni: int
    ip: Address
    mac: int


class Local(NamedTuple):
    """An endpoint on this host."""

    vni: int
    ip: Address
    mac: int


class Spread(NamedTuple):
    """Frames of a VPC to its balancers' MAC are spread over VTEPs, in order, by flow."""

    vni: int
    vteps: tuple[IPv4Address, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The VXLAN state of a host."""

    vnis: frozenset[int] = frozenset()
    spreads: frozenset[Spread] = frozenset()
    forwards: frozenset[Forward] = frozenset()
    neighbours: frozenset[NeighbourEntry] = frozenset()
    locals: frozenset[Local] = frozenset()
    virtual: frozenset[Local] = frozenset()
    """Virtual IPs from which endpoints on this host send: back ends of direct return. They reply to no ARP for them."""


def wanted(
    network: NetworkConfig,
    vtep: IPv4Address,
    gateways: Mapping[int, IPv4Address],
    virtual_ips: Sequence[VirtualIp] = (),
) -> HostState:
    """Return the desired state of the host with this VTEP; `gateways` maps VNIs to the VTEP of the VPC's gateway.

    A VPC without an endpoint on the host has no entries there.
    """
    here = [vpc for vpc in network.vpcs if any(endpoint.vtep == vtep for endpoint in vpc.endpoints)]
    forwards: set[Forward] = set()
    neighbours: set[NeighbourEntry] = set()
    for vpc in here:
        gateway = gateways.get(vpc.vni)
        forwards.update(Forward(vpc.vni, e.mac, e.vtep) for e in vpc.endpoints if e.vtep != vtep)
        neighbours.update(NeighbourEntry(vpc.vni, e.ip, e.mac) for e in vpc.endpoints)
        if gateway is not None:
            forwards.update(Forward(vpc.vni, mac, gateway) for mac in (gateway_mac(vpc.vni), ANY_MAC))
            neighbours.update(_gateways_of(vpc))
    vnis = {vpc.id: vpc.vni for vpc in here}
    served = [each for each in virtual_ips if each.vpc in vnis and each.vteps]
    neighbours.update(NeighbourEntry(vnis[v.vpc], v.ip, balancer_mac(vnis[v.vpc])) for v in served)
    return HostState(
        vnis=frozenset(vpc.vni for vpc in here),
        forwards=frozenset(forwards),
        neighbours=frozenset(neighbours),
        locals=frozenset(Local(v.vni, e.ip, e.mac) for v in here for e in v.endpoints if e.vtep == vtep),
        spreads=frozenset(Spread(vnis[each.vpc], each.vteps) for each in served),
        virtual=frozenset(_virtual(here, vtep, virtual_ips)),
    )


def _virtual(here: Sequence[Vpc], vtep: IPv4Address, virtual_ips: Sequence[VirtualIp]) -> set[Local]:
    by_id = {vpc.id: vpc for vpc in here}
    found = set()
    for each in virtual_ips:
        ends = set(each.back_ends)
        for end in by_id[each.vpc].endpoints if each.vpc in by_id and ends else ():
            if end.vtep == vtep and end.ip in ends:
                found.add(Local(by_id[each.vpc].vni, each.ip, end.mac))
    return found


def _gateways_of(vpc: Vpc) -> set[NeighbourEntry]:
    return {NeighbourEntry(vpc.vni, subnet.gateway, gateway_mac(vpc.vni)) for subnet in vpc.subnets}
