"""Compute the VXLAN state of a host from the network configuration: forwarding and neighbour entries per VPC.

No learning, no flooding: each MAC of a VPC has an entry with its VTEP, each address one with its MAC. All other frames
go to the VPC's gateway, which answers or drops them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import NamedTuple

from dataplane.config.addresses import gateway_mac
from dataplane.config.network import Address, NetworkConfig, Vpc

ANY_MAC = 0
"""The default entry, in place of a MAC: unknown unicast and broadcast."""
VXLAN_OVERHEAD_BYTES = 50


class Forward(NamedTuple):
    """Forwarding entry: frames of a VPC to a MAC are sent to a VTEP."""

    vni: int
    mac: int
    vtep: IPv4Address


class Neighbour(NamedTuple):
    """Neighbour entry: address and MAC of an endpoint or gateway; the host answers requests for it."""

    vni: int
    ip: Address
    mac: int


class Local(NamedTuple):
    """An endpoint on this host."""

    vni: int
    ip: Address
    mac: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The VXLAN state of a host."""

    vnis: frozenset[int] = frozenset()
    forwards: frozenset[Forward] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()
    locals: frozenset[Local] = frozenset()


def wanted(network: NetworkConfig, vtep: IPv4Address, gateways: Mapping[int, IPv4Address]) -> HostState:
    """Return the desired state of the host with this VTEP; `gateways` maps VNIs to the VTEP of the VPC's gateway.

    A VPC without an endpoint on the host has no entries there.
    """
    here = [vpc for vpc in network.vpcs if any(endpoint.vtep == vtep for endpoint in vpc.endpoints)]
    forwards: set[Forward] = set()
    neighbours: set[Neighbour] = set()
    for vpc in here:
        gateway = gateways.get(vpc.vni)
        forwards.update(Forward(vpc.vni, e.mac, e.vtep) for e in vpc.endpoints if e.vtep != vtep)
        neighbours.update(Neighbour(vpc.vni, e.ip, e.mac) for e in vpc.endpoints)
        if gateway is not None:
            forwards.update(Forward(vpc.vni, mac, gateway) for mac in (gateway_mac(vpc.vni), ANY_MAC))
            neighbours.update(_gateways_of(vpc))
    return HostState(
        vnis=frozenset(vpc.vni for vpc in here),
        forwards=frozenset(forwards),
        neighbours=frozenset(neighbours),
        locals=frozenset(Local(v.vni, e.ip, e.mac) for v in here for e in v.endpoints if e.vtep == vtep),
    )


def _gateways_of(vpc: Vpc) -> set[Neighbour]:
    return {Neighbour(vpc.vni, subnet.gateway, gateway_mac(vpc.vni)) for subnet in vpc.subnets}
