"""Validate a change of virtual networks by the state that it leads to, not by its steps. Pure.

A change is what one call, or a whole network file, creates or replaces together. The state before it is valid, so only
what the change touches is checked: its own objects, the load balancers of its VPCs, the VPCs of its load balancers, and
the peers of its VPCs. So two VPCs may swap a VNI, a VLAN, a subnet or an address in one change. Every function yields
one line per problem, with the object and the field.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import NamedTuple

from heddle.dataplane.config import limit
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import (
    Claims,
    Known,
    border_problems,
    claim_problems,
    claims_of,
    floating_problems,
    neighbours_of,
    ring_problems,
    vpc_problems,
)
from heddle.dataplane.config.check_balancers import (
    Served,
    load_balancer_problems,
    served_by,
    taken_text,
    total_problems,
)
from heddle.dataplane.config.check_served import (
    Reserved,
    back_end_reserved_problems,
    border_reserved_problems,
    public_addresses,
    reserved_problems,
)
from heddle.dataplane.config.network import Address, BorderRule, NetworkConfig, Peering, Vpc
from heddle.dataplane.config.refusal import shown

Pools = Sequence[Mapping[str, Collection[Address]]]
"""Of each known balancer: its source addresses by VPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkChange:
    """Objects to create, or to put in place of those with their ids, together; what it does not name stays."""

    vpcs: tuple[Vpc, ...] = ()
    peerings: frozenset[Peering] = frozenset()
    load_balancers: tuple[LoadBalancer, ...] = ()
    border: tuple[BorderRule, ...] | None = None
    """All rules of the border; None: as they are."""

    def vpc_ids(self) -> frozenset[str]:
        """Return the VPCs that the objects of the change belong to; border rules belong to none."""
        both = (name for each in self.peerings for name in (each.a, each.b))
        return frozenset([*(vpc.id for vpc in self.vpcs), *both, *(each.vpc for each in self.load_balancers)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """All virtual networks, as far as they are judged together."""

    vpcs: Mapping[str, Vpc] = field(default_factory=dict)
    claims: Claims = field(default_factory=dict)
    endpoints: int = 0
    """Of all VPCs."""
    peerings: frozenset[Peering] = frozenset()
    peers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    load_balancers: Mapping[str, LoadBalancer] = field(default_factory=dict)
    border: tuple[BorderRule, ...] = ()


class View(NamedTuple):
    """What a change is judged by, beside the objects themselves."""

    hidden: Collection[str] = ()
    """VPCs that do not exist for the caller."""
    pools: Pools | None = None
    """None where no balancer is known."""
    reserved: Reserved = MappingProxyType({})
    """The addresses in use on the networks of all known gateways."""
    vteps: Collection[IPv4Address] = frozenset()
    """Those of all endpoints after the change."""


_PUBLIC = ("nat", "floating")
"""The kinds of claims that are public addresses."""
EVERYTHING = View()


def changed(before: Whole, change: NetworkChange, view: View = EVERYTHING) -> Whole:
    """Return the state after a change. Peerings of VPCs that are not there, or hidden, are left out."""
    vpcs = {**before.vpcs, **{vpc.id: vpc for vpc in change.vpcs}}
    known = vpcs.keys() - set(view.hidden)
    new = {each for each in change.peerings if each.a != each.b and {each.a, each.b} <= known}
    peerings = before.peerings | new
    claims = left_claims(before, {vpc.id for vpc in change.vpcs})
    for vpc in change.vpcs:
        for claim, _ in claims_of(vpc):
            if claim[0] == "nat":
                claims[claim] = vpc.id  # the last of those that share it
            else:
                claims.setdefault(claim, vpc.id)
    named = {vpc.id for vpc in change.vpcs}
    gone = sum(len(before.vpcs[name].endpoints) for name in named & before.vpcs.keys())
    return Whole(
        vpcs=vpcs,
        claims=claims,
        endpoints=before.endpoints - gone + sum(len(vpcs[name].endpoints) for name in named),
        peerings=peerings,
        peers=before.peers if peerings == before.peerings else neighbours_of(peerings),
        load_balancers={**before.load_balancers, **{each.id: each for each in change.load_balancers}},
        border=before.border if change.border is None else change.border,
    )


def left_claims(before: Whole, names: Collection[str]) -> dict[tuple[str, int], str]:
    """Return the claims of all VPCs but those in `names`; a NAT address that others share is claimed by one of them."""
    left = dict(before.claims)
    nats = set[int]()
    for vpc in (before.vpcs[name] for name in names if name in before.vpcs):
        for claim, _ in claims_of(vpc):
            left.pop(claim, None)
        if vpc.nat is not None:
            nats.add(int(vpc.nat))
    if nats:
        for other in before.vpcs.values():
            if other.nat is not None and int(other.nat) in nats and other.id not in names:
                left["nat", int(other.nat)] = other.id
    return left


def named_twice(change: NetworkChange) -> Iterator[str]:
    """Check that a change names no object twice, also where one of the two is there already."""
    yield from _twice("vpc", (vpc.id for vpc in change.vpcs))
    yield from _twice("load balancer", (each.id for each in change.load_balancers))


def change_problems(before: Whole, change: NetworkChange, after: Whole, view: View = EVERYTHING) -> Iterator[str]:
    """Check the state after a change that names no object twice; `check.vpc_problems` checks each VPC by itself."""
    if change.vpcs and len(after.vpcs) > limit.MAX_VPCS:
        yield f"vpcs: {len(after.vpcs)}; at most {limit.MAX_VPCS}"
    if change.vpcs and after.endpoints > limit.MAX_ENDPOINTS:
        yield f"endpoints: {after.endpoints} of all VPCs; at most {limit.MAX_ENDPOINTS}"
    for vpc in change.vpcs:
        yield from claim_problems(vpc, after.claims)
    yield from _peerings(change, after, view)
    yield from _load_balancers(change, after, view)
    yield from _pools(change, view)
    yield from _floating(before, change, after)
    if change.border is not None:
        yield from border_problems(change.border, after.vpcs)
    yield from _reserved(change, after, view)


def network_problems(
    network: NetworkConfig, load_balancers: Sequence[LoadBalancer] = (), is_vtep: Known | None = None
) -> Iterator[str]:
    """Check a whole configuration; `is_vtep` returns whether a VTEP exists, None accepts all."""
    for vpc in network.vpcs:
        yield from vpc_problems(vpc, is_vtep)
    change = NetworkChange(
        vpcs=network.vpcs, peerings=network.peerings, load_balancers=tuple(load_balancers), border=network.border
    )
    yield from named_twice(change)
    view = View(vteps={endpoint.vtep for vpc in network.vpcs for endpoint in vpc.endpoints})
    yield from change_problems(Whole(), change, changed(Whole(), change), view)


def pool_problems(pool: Collection[Address], vpc: Vpc) -> Iterator[str]:
    """Check a balancer's source addresses in a VPC: nothing else there may have them."""
    if not pool:
        return
    for i, endpoint in enumerate(vpc.endpoints):
        if endpoint.ip in pool:
            yield f"endpoints[{i}].ip: {endpoint.ip} is an address of the pool of a balancer"
    for i, subnet in enumerate(vpc.subnets):
        if subnet.gateway in pool:
            yield f"subnets[{i}].gateway_ip: {subnet.gateway} is an address of the pool of a balancer"


def _twice(kind: str, ids: Iterable[str]) -> Iterator[str]:
    seen, named = set[str](), set[str]()
    for name in ids:
        if name in seen and name not in named:
            named.add(name)
            yield f"{kind} {shown(name)[1:-1]}: id: used twice"
        seen.add(name)


def _peerings(change: NetworkChange, after: Whole, view: View) -> Iterator[str]:
    """Check new peerings, and that the VPCs that the change touches, and their peers, reach no address twice."""
    full, judged = set[str](), set[str]()
    for peering in sorted(change.peerings):
        name = f"peering {shown(peering.a)[1:-1]} with {shown(peering.b)[1:-1]}"
        for place, vpc in (("vpc_a", peering.a), ("vpc_b", peering.b)):
            if vpc not in after.vpcs or vpc in view.hidden:
                yield f"{name}: {place}: there is no vpc {shown(vpc)}"
            elif len(after.peers.get(vpc, ())) > limit.MAX_PEERINGS_OF_A_VPC and vpc not in full:
                full.add(vpc)
                yield f"{name}: {place}: {vpc} has {limit.MAX_PEERINGS_OF_A_VPC} peerings already, the most that may be"
        if peering.a == peering.b:
            yield f"{name}: vpc_b: a VPC is not its own peer"
        elif peering in after.peerings:
            yield from (f"{name}: {line}" for line in _rings((peering.a, peering.b), after, judged))
    for one in change.vpcs:
        centres = (one.id, *sorted(after.peers.get(one.id, ())))
        yield from (f"vpc {one.id}: {line}" for line in _rings(centres, after, judged))


def _rings(centres: Iterable[str], after: Whole, judged: set[str]) -> Iterator[str]:
    """Check VPCs with their peers, each once: those in `judged` are left out."""
    for centre in centres:
        if centre not in judged:
            judged.add(centre)
            yield from ring_problems(centre, after.vpcs, after.peers)


def _load_balancers(change: NetworkChange, after: Whole, view: View) -> Iterator[str]:
    """Check the change's load balancers, and the others of its VPCs."""
    new, named = {each.id for each in change.load_balancers}, {vpc.id for vpc in change.vpcs}
    if new:
        yield from total_problems(after.load_balancers.values())
    others = [each for each in after.load_balancers.values() if each.id not in new]
    places: dict[Served, str] = {served_by(each): each.id for each in others}
    for each in change.load_balancers:
        vpc = None if each.vpc in view.hidden else after.vpcs.get(each.vpc)
        yield from load_balancer_problems(each, vpc, _pools_in(view.pools, each.vpc))
        if vpc is not None and places.setdefault(served_by(each), each.id) != each.id:
            yield taken_text(each, places[served_by(each)])
    for each in others:
        if each.vpc in named:
            lines = load_balancer_problems(each, after.vpcs[each.vpc], _pools_in(view.pools, each.vpc))
            yield from (f"vpc {each.vpc}: {line}" for line in lines)


def _pools_in(pools: Pools | None, vpc: str) -> list[tuple[Address, ...]] | None:
    return None if pools is None else [tuple(each.get(vpc, ())) for each in pools]


def _pools(change: NetworkChange, view: View) -> Iterator[str]:
    for vpc in change.vpcs:
        for each in view.pools or ():
            yield from (f"vpc {vpc.id}: {line}" for line in pool_problems(frozenset(each.get(vpc.id, ())), vpc))


def _floating(before: Whole, change: NetworkChange, after: Whole) -> Iterator[str]:
    """Check the floating IPs of the change's VPCs, and of those whose virtual IPs may be gone."""
    known = [before.load_balancers.get(each.id) for each in change.load_balancers]
    touched = [*(vpc.id for vpc in change.vpcs), *(each.vpc for each in known if each is not None)]
    for name in dict.fromkeys(touched):
        vpc = after.vpcs.get(name)
        if vpc is not None and vpc.floating_ips:
            virtual = {each.vip for each in after.load_balancers.values() if each.vpc == name}
            yield from floating_problems(vpc, virtual)


def _reserved(change: NetworkChange, after: Whole, view: View) -> Iterator[str]:
    """Check that the change has no address of a gateway, a router or a VTEP, and no public address twice."""
    new = {each.id for each in change.load_balancers}
    for vpc in change.vpcs:
        mine: Reserved = {address: "a public address of the VPC" for _, address in public_addresses(vpc)}
        lines = [*reserved_problems(vpc, view.reserved)]
        if change.border is None:
            lines += border_reserved_problems(after.border, {vpc.id: vpc}, mine)
        for each in after.load_balancers.values():
            lines += back_end_reserved_problems(each, mine) if each.id not in new else ()
        yield from (f"vpc {vpc.id}: {line}" for line in lines)
    if not new and change.border is None:
        return
    public: Reserved = {IPv4Address(at): "a public address of a VPC" for kind, at in after.claims if kind in _PUBLIC}
    taken = {**public, **view.reserved}
    for each in change.load_balancers:
        yield from back_end_reserved_problems(each, taken)
    if change.border is not None:
        vteps: Reserved = dict.fromkeys(view.vteps, "a VTEP's")
        yield from border_reserved_problems(change.border, after.vpcs, {**vteps, **taken})
