"""Hold the brain's state of virtual networks: the wanted configuration, gateways, and waiting callers. Frozen.

One generation is wanted at a time. The session of a gateway knows what it was sent; the brain keeps only the newest
generation that each gateway acknowledged. `durable.py` restores it after a restart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import Address, BorderRule, GatewayPort, Peering, Vpc

BackEndKey = tuple[str, Address, int]
"""A back end: id of the load balancer, address and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The last known state of a gateway, balancer or host's VTEP agent; `session` is None while it is not attached."""

    vtep: IPv4Address
    kind: Kind = Kind.GATEWAY
    session: int | None = None
    acknowledged: int = 0
    """The newest generation acknowledged in this session."""
    refused: str = ""
    """Its reason for refusing the newest generation that it acknowledged; empty where it runs it."""
    host_vtep: IPv4Address | None = None
    """The VTEP address that hosts send to, where it is not `vtep`: a standby's own VTEP serves no host."""
    pools: Mapping[str, tuple[Address, ...]] = field(default_factory=dict)
    """By VPC: a balancer's own addresses there, from which it translates."""
    health: Mapping[BackEndKey, bool] = field(default_factory=dict)
    """The back ends that a balancer probes, and whether they are up, as it reported in this session."""
    ports: tuple[GatewayPort, ...] = ()
    """Its ports, with the addresses that are in use on their networks: no VPC may have these."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """By VPC that it does not serve as wanted, as it acknowledged last: what it serves instead, and why."""
    unknown: frozenset[str] = frozenset()
    """VPCs that it serves and was not sent, as it acknowledged last. In those that the controller knows, a host or
    balancer has no part; the others are `Networks.unknown_at`."""
    known_since: int = 0
    """What it runs of generations before this one is not all known; 0: as `Networks.known_since` says."""

    @property
    def served_vtep(self) -> IPv4Address:
        """The VTEP address that hosts send to."""
        return self.host_vtep or self.vtep

    @property
    def is_host(self) -> bool:
        """Whether it is a host's agent."""
        return self.kind is Kind.HOST

    def receives(self, vteps: Iterable[IPv4Address] | None) -> bool:
        """Return whether a change that concerns the hosts at these VTEPs (None: no host) is sent to it."""
        return not self.is_host or (vteps is not None and self.vtep in vteps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A caller that gets its reply when every gateway in `missing` runs `generation`, or at the deadline.

    It fails where a gateway does not serve one of `vpcs`, which it has changed, as wanted.
    """

    reply: int
    generation: int
    deadline_unix_ms: int
    missing: frozenset[str]
    vpcs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """All virtual networks.

    `generation` is 0 until the first change since the start: before that nothing is published, so that gateways that
    outlived a controller keep their configuration. Later generations are at least the Unix time in milliseconds, so
    that they grow across restarts.
    """

    vpcs: Mapping[str, Vpc] = field(default_factory=dict)
    vteps: Mapping[str, frozenset[IPv4Address]] = field(default_factory=dict)
    """By VPC: the VTEPs of its endpoints' hosts."""
    claims: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """`dataplane.config.check.Claims`."""
    peerings: frozenset[Peering] = frozenset()
    peers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    border: tuple[BorderRule, ...] = ()
    load_balancers: Mapping[str, LoadBalancer] = field(default_factory=dict)
    endpoints: int = 0
    generation: int = 0
    gateways: Mapping[str, Gateway] = field(default_factory=dict)
    """By id: all that are attached, and those that were before: gateways, balancers, and hosts with endpoints."""
    waiting: tuple[Waiting, ...] = ()
    known_since: int = 0
    """The generation with which this state began: it does not know what gateways run of earlier ones. 0: it knows."""
    has_border: bool = False
    """Whether the border was ever applied; where not, gateways with an earlier generation keep theirs."""
    ended: int = 0
    """The generation that last removed a VPC, peering, direct connect or floating IP (`incarnations`)."""
    is_pending: bool = False
    """Whether changes are not published yet, because more of the same file follow."""

    def unknown_at(self, gateway: Gateway) -> frozenset[str]:
        """Return the VPCs that a gateway serves and this state does not know."""
        return gateway.unknown - self.vpcs.keys()
