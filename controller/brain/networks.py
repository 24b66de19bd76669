"""What the brain knows of virtual networks: what is wanted, who has been told, who waits for whom. Frozen.

Wanted is one generation at a time. What a gateway was sent and what it runs is its session's; the brain keeps only the
newest generation that each acknowledged. This is what a store has to keep over a restart: `vpcs`, `peerings`, `border`
and `generation`; all else follows or comes back by itself when gateways attach.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from dataplane.config.desired import Desired, for_host
from dataplane.config.network import BorderRule, NetworkConfig, Peering, Vpc


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway, or a host's VTEP agent, as last heard; `session` is None while it is not attached."""

    vtep: IPv4Address
    is_host: bool = False
    session: int | None = None
    acknowledged: int = 0
    """In this session."""
    refused: str = ""
    """Why it could not apply the newest generation that it answered; empty where it did."""
    host_vtep: IPv4Address | None = None
    """Where hosts send, if not to its VTEP: a standby's own VTEP serves nobody."""

    def hears_of(self, vteps: Iterable[IPv4Address] | None) -> bool:
        """Say whether a change that touches these VTEPs (None: no host's) is told to it."""
        return not self.is_host or (vteps is not None and self.vtep in vteps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A caller who is answered when every gateway of `missing` runs `generation`, or at the deadline."""

    reply: int
    generation: int
    deadline_unix_ms: int
    missing: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """All virtual networks.

    `generation` is 0 until the first word about them since the start: before that nothing is told to anybody, so that
    gateways that outlived a controller go on as they are. Later ones grow with Unix time in milliseconds at least, so
    that they grow over restarts as well.
    """

    vpcs: Mapping[str, Vpc] = field(default_factory=dict)
    vteps: Mapping[str, frozenset[IPv4Address]] = field(default_factory=dict)
    """By VPC: where its endpoints are."""
    claims: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """`dataplane.config.check.Claims`."""
    peerings: frozenset[Peering] = frozenset()
    peers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    border: tuple[BorderRule, ...] = ()
    endpoints: int = 0
    generation: int = 0
    gateways: Mapping[str, Gateway] = field(default_factory=dict)
    """By id: all that are attached, and gateways (not hosts) that once were."""
    waiting: tuple[Waiting, ...] = ()


def desired_of(networks: Networks) -> Desired:
    """Return what there is to tell."""
    network = NetworkConfig(
        generation=networks.generation,
        vpcs=tuple(networks.vpcs.values()),
        peerings=networks.peerings,
        border=networks.border,
    )
    gateways = {name: gateway.vtep for name, gateway in networks.gateways.items() if not gateway.is_host}
    return Desired(network=network, gateways=gateways)


def news_for(networks: Networks, name: str, sent: Desired | None) -> Desired | None:
    """Return what a gateway or host that was `sent` this is to be told now; None for nothing new."""
    known = networks.gateways.get(name)
    if known is None or not networks.generation:
        return None
    if sent is not None and sent.network.generation >= networks.generation:
        return None
    newest = desired_of(networks)
    if not known.is_host:
        return newest
    newest = for_host(newest, known.vtep, networks.vteps)
    ways = {each: networks.gateways[each].host_vtep or vtep for each, vtep in newest.gateways.items()}
    newest = replace(newest, gateways=ways)
    if sent is not None and (newest.network.vpcs, newest.gateways) == (sent.network.vpcs, sent.gateways):
        return None
    return newest
