"""What a host should hold for the endpoints that live on it, computed from the network's configuration alone.

Nothing is learned and nothing is flooded: each MAC of a VPC has its VTEP, each address its MAC, and whatever else an
endpoint asks for goes to the VPC's gateway, which answers or drops it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import NamedTuple

from dataplane.config.addresses import gateway_mac
from dataplane.config.network import Address, NetworkConfig, Vpc

ANY_MAC = 0
"""In place of a MAC: what no other entry knows, broadcasts included."""
VXLAN_OVERHEAD_BYTES = 50


class Forward(NamedTuple):
    """Frames of a VPC to a MAC go to a VTEP."""

    vni: int
    mac: int
    vtep: IPv4Address


class Neighbour(NamedTuple):
    """An address of a VPC that lives elsewhere, and its MAC: requests for it are answered on the host."""

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
    """All that a host holds."""

    vnis: frozenset[int] = frozenset()
    forwards: frozenset[Forward] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()
    locals: frozenset[Local] = frozenset()


def wanted(network: NetworkConfig, vtep: IPv4Address, gateways: Mapping[int, IPv4Address]) -> HostState:
    """Return what the host with this VTEP should hold; `gateways` gives by VNI the VTEP of the VPC's gateway, if any.

    A VPC without an endpoint on the host leaves nothing there, so a host never learns of VPCs that it does not serve.
    """
    here = [vpc for vpc in network.vpcs if any(endpoint.vtep == vtep for endpoint in vpc.endpoints)]
    forwards: set[Forward] = set()
    neighbours: set[Neighbour] = set()
    for vpc in here:
        gateway = gateways.get(vpc.vni)
        forwards.update(Forward(vpc.vni, e.mac, e.vtep) for e in vpc.endpoints if e.vtep != vtep)
        neighbours.update(Neighbour(vpc.vni, e.ip, e.mac) for e in vpc.endpoints if e.vtep != vtep)
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
