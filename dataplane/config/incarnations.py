"""Distinguish a VPC, peering, direct connect or floating IP that was made again from the one that was removed.

Connections belong to an incarnation, not to a VNI, a VLAN or an address: whatever takes these over gets none of them.
The incarnation of something new is `ended`, the generation that last removed anything, 0 before. So a number differs
from all that its predecessors had, and the first networks of a controller without a journal have the same numbers
after its restart. What something is, apart from its number:

- a VPC: its id, tenant and VNI;
- a peering: its two VPCs;
- a direct connect: its VPC, VLAN and customer's prefix (another router continues it);
- a floating IP: its VPC, public address and endpoint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from heddle.dataplane.config.network import DirectConnect, FloatingIp, NetworkConfig, Peering, Vpc


class Incarnated(NamedTuple):
    """VPCs and peerings with their incarnations, and the generation that last removed any."""

    vpcs: Mapping[str, Vpc]
    peerings: frozenset[Peering]
    ended: int = 0


def succeeding(
    before: Incarnated, vpcs: Mapping[str, Vpc], peerings: frozenset[Peering], generation: int
) -> Incarnated:
    """Return what is wanted next with incarnations: those of `before` for what goes on, `ended` for what is new.

    Values that need no change are the same objects. The incarnations that `vpcs` and `peerings` have are ignored.
    """
    changed = [name for name, vpc in vpcs.items() if before.vpcs.get(name) is not vpc]
    is_ending = any(_ends(vpc, vpcs.get(name)) for name, vpc in before.vpcs.items() if vpcs.get(name) is not vpc)
    is_ending = is_ending or not before.peerings <= peerings
    ended = max(generation, before.ended + 1) if is_ending else before.ended
    stamped = {name: _stamped(vpcs[name], before.vpcs.get(name), ended) for name in changed}
    renewed = {name for name in changed if not _is_same_vpc(stamped[name], before.vpcs.get(name))}
    if peerings is not before.peerings or renewed:
        peerings = frozenset(_peered(peerings, before.peerings, renewed, ended))
    is_stamped = any(stamped[name] is not vpcs[name] for name in changed)
    return Incarnated({**vpcs, **stamped} if is_stamped else vpcs, peerings, ended)


def is_unchanged(before: Vpc | None, vpc: Vpc) -> bool:
    """Return whether a VPC is equal to what it was before, its incarnations included."""
    return before is vpc or (before is not None and before == vpc and numbers_of(before) == numbers_of(vpc))


def are_same_peerings(some: Iterable[Peering], others: Iterable[Peering]) -> bool:
    """Return whether two sets of peerings are equal, their incarnations included."""
    one, other = ({(each.a, each.b, each.incarnation) for each in peerings} for peerings in (some, others))
    return one == other


def carried(before: NetworkConfig, after: NetworkConfig) -> NetworkConfig:
    """Return what a controller sends, in which what it has no number for has the one of before.

    Numbers only grow, but a controller that has lost its state begins with 0 again.
    """
    had = {vpc.id: vpc for vpc in before.vpcs}
    vpcs = tuple(_carried(had.get(vpc.id), vpc) for vpc in after.vpcs)
    known = {(each.a, each.b): each.incarnation for each in before.peerings}
    peerings = (replace(p, incarnation=p.incarnation or known.get((p.a, p.b), 0)) for p in after.peerings)
    return replace(after, vpcs=vpcs, peerings=frozenset(peerings))


def numbers_of(vpc: Vpc) -> tuple[int, ...]:
    """Return the incarnations of a VPC, its floating IPs and its direct connects, in order."""
    return (vpc.incarnation, *(part.incarnation for part in _parts(vpc)))


def with_numbers(vpc: Vpc, numbers: Iterable[int]) -> Vpc:
    """Return a VPC with the incarnations that `numbers_of` returned; raises ValueError for another number of them."""
    own, *parts = numbers
    count = len(vpc.floating_ips)
    return replace(
        vpc,
        incarnation=own,
        floating_ips=tuple(
            replace(each, incarnation=number) for each, number in zip(vpc.floating_ips, parts[:count], strict=True)
        ),
        direct_connects=tuple(
            replace(each, incarnation=number) for each, number in zip(vpc.direct_connects, parts[count:], strict=True)
        ),
    )


def _is_same_vpc(vpc: Vpc, before: Vpc | None) -> bool:
    """Return whether a VPC is the one of before, whatever else of it has changed."""
    return before is not None and (vpc.tenant, vpc.vni) == (before.tenant, before.vni)


def _parts(vpc: Vpc) -> tuple[DirectConnect | FloatingIp, ...]:
    return (*vpc.floating_ips, *vpc.direct_connects)


def _name(part: DirectConnect | FloatingIp) -> tuple[object, ...]:
    if isinstance(part, FloatingIp):
        return part.public, part.endpoint
    return part.vlan, part.customer


def _ends(before: Vpc, after: Vpc | None) -> bool:
    """Return whether a VPC, or one of its floating IPs or direct connects, is there no more."""
    if after is None or not _is_same_vpc(after, before):
        return True
    kept = {_name(part) for part in _parts(after)}
    return any(_name(part) not in kept for part in _parts(before))


def _stamped(vpc: Vpc, before: Vpc | None, ended: int) -> Vpc:
    if before is None or not _is_same_vpc(vpc, before):
        numbers: tuple[int, ...] = (ended,) * (1 + len(_parts(vpc)))
    else:
        known = {_name(part): part.incarnation for part in _parts(before)}
        numbers = (before.incarnation, *(known.get(_name(part), ended) for part in _parts(vpc)))
    return vpc if numbers == numbers_of(vpc) else with_numbers(vpc, numbers)


def _carried(before: Vpc | None, vpc: Vpc) -> Vpc:
    if before is None or before is vpc or not _is_same_vpc(vpc, before) or all(numbers_of(vpc)):
        return vpc
    same = _stamped(vpc, before, 0)
    return with_numbers(vpc, (own or former for own, former in zip(numbers_of(vpc), numbers_of(same), strict=True)))


def _peered(
    peerings: frozenset[Peering], before: frozenset[Peering], renewed: set[str], ended: int
) -> Iterable[Peering]:
    known = {(each.a, each.b): each.incarnation for each in before if renewed.isdisjoint((each.a, each.b))}
    return (replace(each, incarnation=known.get((each.a, each.b), ended)) for each in peerings)
