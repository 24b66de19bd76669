"""Desired state of gateways, hosts and balancers, and the part of it that one host needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import IPv4Address

from heddle.dataplane.config.balancers import LoadBalancer, VirtualIp
from heddle.dataplane.config.network import NetworkConfig


class Kind(StrEnum):
    """What attaches to a controller."""

    GATEWAY = "gateway"
    HOST = "host"
    """The VTEP agent of a host."""
    BALANCER = "balancer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """Desired state that the controller sends to gateways, hosts and balancers."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    gateways: Mapping[str, IPv4Address] = field(default_factory=dict)
    """VTEPs by gateway id."""
    load_balancers: tuple[LoadBalancer, ...] = ()
    """What a balancer serves."""
    virtual_ips: tuple[VirtualIp, ...] = ()
    """Where hosts send packets to virtual IPs; for gateways, the back ends that reply from them."""
    known_since: int = 0
    """The generation with which the controller's state began: it does not know what earlier ones had. 0: it knows."""
    has_border: bool = True
    """Whether the controller knows the border; where not, the one in force stays."""
    ended: frozenset[str] = frozenset()
    """VPCs that the controller knows and a host or balancer has no part in, which it serves nevertheless."""
    unknown: frozenset[str] = frozenset()
    """At the receiver: VPCs in `network` that the controller does not know, and that stay in force."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """At the receiver: by VPC whose newest state could not be decoded, what is in `network` instead, and why."""


def for_host(desired: Desired, vtep: IPv4Address, serves: Mapping[str, frozenset[IPv4Address]]) -> Desired:
    """Return the desired state of the host with a VTEP: the VPCs with an endpoint there.

    `serves` maps VPC ids to the VTEPs of their endpoints.
    """
    vpcs = tuple(vpc for vpc in desired.network.vpcs if vtep in serves[vpc.id])
    here = {vpc.id for vpc in vpcs}
    return replace(
        desired,
        network=NetworkConfig(generation=desired.network.generation, vpcs=vpcs),
        virtual_ips=tuple(each for each in desired.virtual_ips if each.vpc in here),
    )
