"""Hold the brain's state of virtual networks: the wanted configuration, gateways, and waiting callers. Frozen.

One generation is wanted at a time. The session of a gateway knows what it was sent; the brain keeps only the newest
generation that each gateway acknowledged. A store has to keep `vpcs`, `peerings`, `border` and `generation` over a
restart; the rest is derived from them or restored when gateways attach.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from dataplane.config.desired import Desired, for_host
from dataplane.config.network import BorderRule, NetworkConfig, Peering, Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The last known state of a gateway or a host's VTEP agent; `session` is None while it is not attached."""

    vtep: IPv4Address
    is_host: bool = False
    session: int | None = None
    acknowledged: int = 0
    """The newest generation acknowledged in this session."""
    refused: str = ""
    """Its reason for refusing the newest generation that it acknowledged; empty where it runs it."""
    host_vtep: IPv4Address | None = None
    """The VTEP address that hosts send to, where it is not `vtep`: a standby's own VTEP serves no host."""

    def receives(self, vteps: Iterable[IPv4Address] | None) -> bool:
        """Return whether a change that concerns the hosts at these VTEPs (None: no host) is sent to it."""
        return not self.is_host or (vteps is not None and self.vtep in vteps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A caller that gets its reply when every gateway in `missing` runs `generation`, or at the deadline."""

    reply: int
    generation: int
    deadline_unix_ms: int
    missing: frozenset[str]


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
    endpoints: int = 0
    generation: int = 0
    gateways: Mapping[str, Gateway] = field(default_factory=dict)
    """By id: all attached gateways and hosts, and gateways (not hosts) that were attached before."""
    waiting: tuple[Waiting, ...] = ()


def desired_of(networks: Networks) -> Desired:
    """Return the whole wanted configuration."""
    network = NetworkConfig(
        generation=networks.generation,
        vpcs=tuple(networks.vpcs.values()),
        peerings=networks.peerings,
        border=networks.border,
    )
    gateways = {name: gateway.vtep for name, gateway in networks.gateways.items() if not gateway.is_host}
    return Desired(network=network, gateways=gateways)


def update_for(networks: Networks, name: str, sent: Desired | None) -> Desired | None:
    """Return the configuration to send to a gateway or host that was last `sent` another; None for no change."""
    known = networks.gateways.get(name)
    if known is None or not networks.generation:
        return None
    if sent is not None and sent.network.generation >= networks.generation:
        return None
    newest = desired_of(networks)
    if not known.is_host:
        return newest
    newest = for_host(newest, known.vtep, networks.vteps)
    targets = {each: networks.gateways[each].host_vtep or vtep for each, vtep in newest.gateways.items()}
    newest = replace(newest, gateways=targets)
    if sent is not None and (newest.network.vpcs, newest.gateways) == (sent.network.vpcs, sent.gateways):
        return None
    return newest
