"""Apply a change of virtual networks whole, or refuse it with its reasons: one decision, and one generation.

The state that a change leads to is judged (`dataplane.config.check_change`), also where the change is a single object.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from itertools import islice

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.networks.checks import pools_of, problems, reserved_of, whole_of
from heddle.controller.brain.networks.gateways import changed, confirmed, unchanged
from heddle.controller.brain.state import State
from heddle.controller.brain.tenants import owns, taken, vpc_quota_refusal
from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.effect import Reply
from heddle.controller.model.error import AlreadyExistsError, HeddleError, InputError
from heddle.controller.model.tenant import Tenant
from heddle.dataplane.config import check_change
from heddle.dataplane.config.check_change import NetworkChange, View

MAX_PROBLEMS = 1_000
"""Problems of one change after which no more are looked for; a reply has the first of them and their number."""
NOTHING = NetworkChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A change, and its caller; `more` is as in `model.event`."""

    reply: int
    change: NetworkChange
    vteps: Mapping[str, frozenset[IPv4Address]]
    """By VPC of the change: the VTEPs of its endpoints."""
    tenant: Tenant | None = None
    more: bool = False


def apply_change(state: State, wanted: Wanted, now: int) -> Outcome:
    """Create or replace objects together; those that are equal already change nothing."""
    networks, change = state.networks, wanted.change
    if (theirs := _taken(networks, change, wanted.tenant)) is not None:
        return refuse(state, wanted.reply, theirs)
    if twice := list(check_change.named_twice(change)):
        return refuse(state, wanted.reply, InputError(*twice))
    touched = touched_vteps(networks, change, wanted.vteps)
    if change == NOTHING:
        return confirmed(state, wanted.reply, now, touched)
    view, mine = _view(networks, wanted), change.vpc_ids()
    new = _differing(networks, change, view)
    if new == NOTHING:
        return unchanged(state, wanted.reply, now, touched, vpcs=mine, more=wanted.more)
    after = _after(networks, new, wanted.vteps, view)
    if found := list(islice(problems(networks, new, after, view), MAX_PROBLEMS)):
        return refuse(state, wanted.reply, InputError(*found))
    names = {vpc.id for vpc in new.vpcs}
    if names and (passed := vpc_quota_refusal(networks, wanted.tenant, names)) is not None:
        return refuse(state, wanted.reply, passed)
    return changed(state, after, wanted.reply, now, touched, vpcs=mine, more=wanted.more)


def refuse(state: State, reply: int, why: HeddleError) -> Outcome:
    """Reply with an error; nothing changes."""
    return state, (Reply(reply=reply, outcome=why),)


def touched_vteps(
    networks: Networks, change: NetworkChange, vteps: Mapping[str, frozenset[IPv4Address]]
) -> frozenset[IPv4Address] | None:
    """Return the VTEPs of the hosts that a change concerns, before it and after it; None where it concerns no host."""
    if not change.vpcs and not change.load_balancers:
        return None
    known = [networks.load_balancers.get(each.id) for each in change.load_balancers]
    names = {vpc.id for vpc in change.vpcs} | {each.vpc for each in (*change.load_balancers, *known) if each}
    none = frozenset[IPv4Address]()
    return none.union(*vteps.values(), *(networks.vteps.get(name, none) for name in names))


def _after(
    networks: Networks, change: NetworkChange, vteps: Mapping[str, frozenset[IPv4Address]], view: View
) -> Networks:
    """Return the state that a change leads to."""
    after = check_change.changed(whole_of(networks), change, view)
    return replace(
        networks,
        vpcs=after.vpcs,
        vteps={**networks.vteps, **{vpc.id: vteps[vpc.id] for vpc in change.vpcs}},
        claims=after.claims,
        endpoints=after.endpoints,
        peerings=after.peerings,
        peers=after.peers,
        load_balancers=after.load_balancers,
        border=after.border,
        has_border=networks.has_border or change.border is not None,
    )


def _taken(networks: Networks, change: NetworkChange, tenant: Tenant | None) -> AlreadyExistsError | None:
    """Return the refusal of a change that names another tenant's VPC or load balancer."""
    for vpc in change.vpcs:
        if (known := networks.vpcs.get(vpc.id)) is not None and not owns(tenant, known.tenant):
            return taken("vpc", vpc.id)
    for each in change.load_balancers:
        if (service := networks.load_balancers.get(each.id)) is not None and not owns(tenant, service.tenant):
            return taken("load balancer", each.id)
    return None


def _view(networks: Networks, wanted: Wanted) -> View:
    """Return what a change is judged by; addresses in use matter to a change of an object that has some."""
    vteps = {**networks.vteps, **wanted.vteps} if wanted.change.border is not None else {}
    return View(
        hidden=_hidden(networks, wanted.tenant),
        pools=pools_of(networks),
        reserved=reserved_of(networks),
        vteps=frozenset[IPv4Address]().union(*vteps.values()),
    )


def _hidden(networks: Networks, tenant: Tenant | None) -> frozenset[str]:
    """Return the VPCs that do not exist for a tenant."""
    if tenant is None:
        return frozenset()
    return frozenset(vpc.id for vpc in networks.vpcs.values() if not owns(tenant, vpc.tenant))


def _differing(networks: Networks, change: NetworkChange, view: View) -> NetworkChange:
    """Return the part of a change that is not there already."""
    same = change.border is None or (change.border == networks.border and networks.has_border)
    return NetworkChange(
        vpcs=tuple(vpc for vpc in change.vpcs if networks.vpcs.get(vpc.id) != vpc),
        peerings=frozenset(
            each for each in change.peerings if each not in networks.peerings or {each.a, each.b} & set(view.hidden)
        ),
        load_balancers=tuple(each for each in change.load_balancers if networks.load_balancers.get(each.id) != each),
        border=None if same else change.border,
    )
