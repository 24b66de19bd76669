"""Change VPCs, peerings and the border: a change is applied whole, or refused with its reasons."""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.networks.checks import of_vpc, reserved_border_problems, vpc_problems
from heddle.controller.brain.networks.gateways import MAX_NAMED, changed, unchanged
from heddle.controller.brain.state import State
from heddle.controller.brain.tenants import owns, taken, visible_vpcs, vpc_quota_refusal
from heddle.controller.model.admission import quoted
from heddle.controller.model.effect import Reply
from heddle.controller.model.error import HeddleError, InputError, InUseError, NotFoundError
from heddle.controller.model.event import ApplyBorder, ApplyPeering, ApplyVpc, DeletePeering, DeleteVpc
from heddle.dataplane.config import limit
from heddle.dataplane.config.check import (
    border_problems,
    claim_problems,
    claims_of,
    neighbours_of,
    new_peering_problems,
    peers_problems,
)
from heddle.dataplane.config.network import Vpc


def apply_vpc(state: State, event: ApplyVpc, now: int) -> Outcome:
    """Create or replace a VPC whose own fields are valid; an equal VPC changes nothing."""
    networks, vpc = state.networks, event.vpc
    known = networks.vpcs.get(vpc.id)
    if known is not None and not owns(event.tenant, known.tenant):
        return _refuse(state, event.reply, taken("vpc", vpc.id))
    if known is vpc or known == vpc:
        return unchanged(state, event.reply, now, event.vteps, vpcs=(vpc.id,), more=event.more)
    endpoints = networks.endpoints + len(vpc.endpoints) - (len(known.endpoints) if known else 0)
    vpcs = {**networks.vpcs, vpc.id: vpc}
    found = [*_too_many(len(vpcs), endpoints), *claim_problems(vpc, networks.claims)]
    found += [*peers_problems(vpc.id, vpcs, networks.peers), *vpc_problems(networks, vpc)]
    if found:
        return _refuse(state, event.reply, InputError(*found))
    if (passed := vpc_quota_refusal(networks, event.tenant, vpc.id)) is not None:
        return _refuse(state, event.reply, passed)
    after = replace(
        networks,
        vpcs=vpcs,
        endpoints=endpoints,
        vteps={**networks.vteps, vpc.id: event.vteps},
        claims=_without(networks.claims, known, vpcs) | {claim: vpc.id for claim, _ in claims_of(vpc)},
    )
    touched = event.vteps | networks.vteps.get(vpc.id, frozenset())
    return changed(state, after, event.reply, now, touched, vpcs=(vpc.id,), more=event.more)


def delete_vpc(state: State, event: DeleteVpc, now: int) -> Outcome:
    """Delete a VPC that no peering and no border rule refers to."""
    networks, name = state.networks, event.vpc_id
    known = networks.vpcs.get(name)
    if known is None or not owns(event.tenant, known.tenant):
        return _refuse(state, event.reply, NotFoundError(f"id: there is no vpc {quoted(name)}"))
    if networks.peers.get(name):
        peers = ", ".join(sorted(networks.peers[name]))
        return _refuse(state, event.reply, InUseError(f"vpc {name} is peered with {peers}; delete its peerings first"))
    if any(rule.vpc == name for rule in networks.border):
        return _refuse(state, event.reply, InUseError(f"vpc {name} is named by a border rule; take it out first"))
    if mine := of_vpc(networks, name):
        ids = ", ".join(sorted(each.id for each in mine)[:MAX_NAMED])
        return _refuse(state, event.reply, InUseError(f"vpc {name} has load balancers, {ids}; delete them first"))
    vpcs = {other: vpc for other, vpc in networks.vpcs.items() if other != name}
    after = replace(
        networks,
        vpcs=vpcs,
        vteps={other: vteps for other, vteps in networks.vteps.items() if other != name},
        claims=_without(networks.claims, known, vpcs),
        endpoints=networks.endpoints - len(known.endpoints),
    )
    return changed(state, after, event.reply, now, networks.vteps[name])


def apply_peering(state: State, event: ApplyPeering, now: int) -> Outcome:
    """Peer two VPCs."""
    networks = state.networks
    mine = visible_vpcs(networks, event.tenant)
    both = (event.peering.a, event.peering.b)
    has_both = mine.keys() >= {*both}
    if event.peering in networks.peerings and has_both:
        return unchanged(state, event.reply, now, None, vpcs=both, more=event.more)
    peerings = networks.peerings | {event.peering}
    peers = neighbours_of(peerings)
    found = list(dict.fromkeys(new_peering_problems(event.peering, networks.vpcs if has_both else mine, peers)))
    if found:
        return _refuse(state, event.reply, InputError(*found))
    after = replace(networks, peerings=peerings, peers=peers)
    return changed(state, after, event.reply, now, None, vpcs=both, more=event.more)


def delete_peering(state: State, event: DeletePeering, now: int) -> Outcome:
    """End a peering."""
    networks, peering = state.networks, event.peering
    mine = visible_vpcs(networks, event.tenant)
    if peering not in networks.peerings or not {peering.a, peering.b} <= mine.keys():
        return _refuse(
            state, event.reply, NotFoundError(f"{quoted(peering.a)} and {quoted(peering.b)} are no peers of each other")
        )
    peerings = networks.peerings - {peering}
    after = replace(networks, peerings=peerings, peers=neighbours_of(peerings))
    return changed(state, after, event.reply, now, None)


def apply_border(state: State, event: ApplyBorder, now: int) -> Outcome:
    """Replace the list of provider networks that VPCs may reach."""
    networks = state.networks
    if networks.border == event.rules and networks.has_border:
        return unchanged(state, event.reply, now, None, more=event.more)
    found = [*border_problems(event.rules, networks.vpcs), *reserved_border_problems(networks, event.rules)]
    if found:
        return _refuse(state, event.reply, InputError(*found))
    after = replace(networks, border=event.rules, has_border=True)
    return changed(state, after, event.reply, now, None, more=event.more)


def _refuse(state: State, reply: int, why: HeddleError) -> Outcome:
    return state, (Reply(reply=reply, outcome=why),)


def _too_many(vpcs: int, endpoints: int) -> list[str]:
    found = []
    if vpcs > limit.MAX_VPCS:
        found.append(f"vpcs: {limit.MAX_VPCS} are there already, the most that may be")
    if endpoints > limit.MAX_ENDPOINTS:
        found.append(f"endpoints: {endpoints} of all VPCs; at most {limit.MAX_ENDPOINTS}")
    return found


def _without(
    claims: Mapping[tuple[str, int], str], vpc: Vpc | None, vpcs: Mapping[str, Vpc]
) -> dict[tuple[str, int], str]:
    """Return the claims without those of a VPC; a NAT address shared with other VPCs is claimed by one of them."""
    left = dict(claims)
    if vpc is None:
        return left
    for claim, _ in claims_of(vpc):
        left.pop(claim, None)
    if vpc.nat is not None:
        heir = next((other.id for other in vpcs.values() if other.id != vpc.id and other.nat == vpc.nat), None)
        if heir is not None:
            left["nat", int(vpc.nat)] = heir
    return left
