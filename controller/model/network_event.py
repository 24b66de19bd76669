"""Define the events of virtual networks, gateways, balancers and hosts (`event` has the others, and what they share).

`more`: more changes of the same network follow; a controller that has published nothing yet waits for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import ClassVar

from heddle.controller.model import lines
from heddle.controller.model.tenant import Tenant
from heddle.controller.model.traits import Change, Printed, Wording
from heddle.dataplane.config.balancers import BackEndState, LoadBalancer
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import Address, BorderRule, GatewayPort, Peering, Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyVpc(Change):
    """Create or replace a VPC whose own fields are valid; `vteps` are those of its endpoints."""

    reply: int
    vpc: Vpc
    vteps: frozenset[IPv4Address]
    more: bool = False
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVpc(Change):
    """Delete a VPC."""

    reply: int
    vpc_id: str
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPeering(Change):
    """Peer two VPCs."""

    reply: int
    peering: Peering
    more: bool = False
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePeering(Change):
    """End a peering."""

    reply: int
    peering: Peering
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBorder(Change):
    """Replace the list of provider networks that VPCs may reach."""

    reply: int
    rules: tuple[BorderRule, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLoadBalancer(Change):
    """Create or replace a load balancer."""

    reply: int
    balancer: LoadBalancer
    more: bool = False
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyNetwork(Change):
    """Create or replace the objects of a network file together; `vteps` by VPC, `border` None: as it is."""

    line: ClassVar[Wording] = lines.network
    reply: int
    vpcs: tuple[Vpc, ...] = ()
    vteps: Mapping[str, frozenset[IPv4Address]] = field(default_factory=dict)
    peerings: frozenset[Peering] = frozenset()
    load_balancers: tuple[LoadBalancer, ...] = ()
    border: tuple[BorderRule, ...] | None = None
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLoadBalancer(Change):
    """Delete a load balancer."""

    reply: int
    balancer_id: str
    tenant: Tenant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayUp(Printed):
    """A gateway, balancer or host's VTEP agent has attached; `session` is the session's number."""

    reply: int
    session: int
    gateway_id: str
    vtep: IPv4Address
    kind: Kind = Kind.GATEWAY
    generation: int = 0
    """The generation that it reports to run; 0 for none."""
    host_vtep: IPv4Address | None = None
    """The VTEP address that hosts send to, where it is not `vtep`."""
    pools: Mapping[str, tuple[Address, ...]] = field(default_factory=dict)
    """By VPC: a balancer's source addresses."""
    partner: str = ""
    """The other member of its pair."""
    ports: tuple[GatewayPort, ...] = ()
    """Its ports, with the addresses that are in use on their networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEndsReported(Printed):
    """A balancer reports the health of all back ends that it probes."""

    session: int
    gateway_id: str
    states: tuple[BackEndState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDown(Printed):
    """A session has ended; the gateway keeps its configuration (fail-static)."""

    session: int
    gateway_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetGateway(Change):
    """Remove a detached gateway that will not attach again."""

    reply: int
    gateway_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropUnknownVpcs(Change):
    """End the VPCs that gateways, hosts and balancers serve and the controller does not know."""

    reply: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAcked(Printed):
    """A gateway runs a generation, or refuses it; `refused` is its reason."""

    session: int
    gateway_id: str
    generation: int
    refused: str = ""
    kept: Mapping[str, str] = field(default_factory=dict)
    """By VPC that it does not serve as wanted: what it serves instead, and why."""
    unknown: frozenset[str] = frozenset()
    """VPCs that it serves and the generation does not name."""
