"""Change VPCs, peerings and the border: a change is applied whole, or refused with its reasons."""

from dataclasses import replace

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.networks.changes import Wanted, apply_change, refuse
from heddle.controller.brain.networks.checks import of_vpc, whole_of
from heddle.controller.brain.networks.gateways import MAX_NAMED, changed
from heddle.controller.brain.state import State
from heddle.controller.brain.tenants import owns, visible_vpcs
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import InUseError, NotFoundError
from heddle.controller.model.network_event import (
    ApplyBorder,
    ApplyNetwork,
    ApplyPeering,
    ApplyVpc,
    DeletePeering,
    DeleteVpc,
)
from heddle.dataplane.config.check import neighbours_of
from heddle.dataplane.config.check_change import NetworkChange, left_claims


def apply_vpc(state: State, event: ApplyVpc, now: int) -> Outcome:
    """Create or replace a VPC whose own fields are valid; an equal VPC changes nothing."""
    wanted = Wanted(
        reply=event.reply,
        change=NetworkChange(vpcs=(event.vpc,)),
        vteps={event.vpc.id: event.vteps},
        tenant=event.tenant,
        more=event.more,
    )
    return apply_change(state, wanted, now)


def apply_network(state: State, event: ApplyNetwork, now: int) -> Outcome:
    """Create or replace all objects of a network file together, or none of them."""
    change = NetworkChange(
        vpcs=event.vpcs, peerings=event.peerings, load_balancers=event.load_balancers, border=event.border
    )
    return apply_change(state, Wanted(reply=event.reply, change=change, vteps=event.vteps, tenant=event.tenant), now)


def delete_vpc(state: State, event: DeleteVpc, now: int) -> Outcome:
    """Delete a VPC that no peering and no border rule refers to."""
    networks, name = state.networks, event.vpc_id
    known = networks.vpcs.get(name)
    if known is None or not owns(event.tenant, known.tenant):
        return refuse(state, event.reply, NotFoundError(f"id: there is no vpc {quoted(name)}"))
    if networks.peers.get(name):
        peers = ", ".join(sorted(networks.peers[name]))
        return refuse(state, event.reply, InUseError(f"vpc {name} is peered with {peers}; delete its peerings first"))
    if any(rule.vpc == name for rule in networks.border):
        return refuse(state, event.reply, InUseError(f"vpc {name} is named by a border rule; take it out first"))
    if mine := of_vpc(networks, name):
        ids = ", ".join(sorted(each.id for each in mine)[:MAX_NAMED])
        return refuse(state, event.reply, InUseError(f"vpc {name} has load balancers, {ids}; delete them first"))
    vpcs = {other: vpc for other, vpc in networks.vpcs.items() if other != name}
    after = replace(
        networks,
        vpcs=vpcs,
        vteps={other: vteps for other, vteps in networks.vteps.items() if other != name},
        claims=left_claims(whole_of(networks), {name}),
        endpoints=networks.endpoints - len(known.endpoints),
    )
    return changed(state, after, event.reply, now, networks.vteps[name])


def apply_peering(state: State, event: ApplyPeering, now: int) -> Outcome:
    """Peer two VPCs."""
    change = NetworkChange(peerings=frozenset({event.peering}))
    wanted = Wanted(reply=event.reply, change=change, vteps={}, tenant=event.tenant, more=event.more)
    return apply_change(state, wanted, now)


def delete_peering(state: State, event: DeletePeering, now: int) -> Outcome:
    """End a peering."""
    networks, peering = state.networks, event.peering
    mine = visible_vpcs(networks, event.tenant)
    if peering not in networks.peerings or not {peering.a, peering.b} <= mine.keys():
        return refuse(
            state, event.reply, NotFoundError(f"{quoted(peering.a)} and {quoted(peering.b)} are no peers of each other")
        )
    peerings = networks.peerings - {peering}
    after = replace(networks, peerings=peerings, peers=neighbours_of(peerings))
    return changed(state, after, event.reply, now, None)


def apply_border(state: State, event: ApplyBorder, now: int) -> Outcome:
    """Replace the list of provider networks that VPCs may reach."""
    change = NetworkChange(border=event.rules)
    return apply_change(state, Wanted(reply=event.reply, change=change, vteps={}, more=event.more), now)
