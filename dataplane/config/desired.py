"""Desired state of gateways and hosts, and the part of it that one host needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from dataplane.config.network import NetworkConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """Desired state that the controller sends to gateways and hosts."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    gateways: Mapping[str, IPv4Address] = field(default_factory=dict)
    """VTEPs by gateway id."""


def for_host(desired: Desired, vtep: IPv4Address, serves: Mapping[str, frozenset[IPv4Address]]) -> Desired:
    """Return the desired state of the host with a VTEP: the VPCs with an endpoint there.

    `serves` maps VPC ids to the VTEPs of their endpoints.
    """
    vpcs = tuple(vpc for vpc in desired.network.vpcs if vtep in serves[vpc.id])
    return Desired(network=NetworkConfig(generation=desired.network.generation, vpcs=vpcs), gateways=desired.gateways)
