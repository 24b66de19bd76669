"""Change load balancers, and record the health of their back ends, as balancers report it."""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.networks.changes import Wanted, apply_change, refuse
from heddle.controller.brain.networks.checks import lost_floating_ips
from heddle.controller.brain.networks.gateways import changed
from heddle.controller.brain.state import State
from heddle.controller.brain.tenants import owns
from heddle.controller.brain.virtual_networks import BackEndKey, Gateway, Networks
from heddle.controller.model.admission import quoted
from heddle.controller.model.effect import Effect, Note
from heddle.controller.model.error import InUseError, NotFoundError
from heddle.controller.model.network_event import ApplyLoadBalancer, BackEndsReported, DeleteLoadBalancer
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check_change import NetworkChange
from heddle.dataplane.config.desired import Kind

MAX_NOTES = 20
"""Back ends named in the event log for one report."""


def apply_load_balancer(state: State, event: ApplyLoadBalancer, now: int) -> Outcome:
    """Create or replace a load balancer; an equal one changes nothing."""
    change = NetworkChange(load_balancers=(event.balancer,))
    wanted = Wanted(reply=event.reply, change=change, vteps={}, tenant=event.tenant, more=event.more)
    return apply_change(state, wanted, now)


def delete_load_balancer(state: State, event: DeleteLoadBalancer, now: int) -> Outcome:
    """Delete a load balancer; its connections end."""
    networks, name = state.networks, event.balancer_id
    known = networks.load_balancers.get(name)
    if known is None or not owns(event.tenant, known.tenant):
        return refuse(state, event.reply, NotFoundError(f"id: there is no load balancer {quoted(name)}"))
    after = {other: each for other, each in networks.load_balancers.items() if other != name}
    if lost := lost_floating_ips(replace(networks, load_balancers=after), known.vpc):
        return refuse(state, event.reply, InUseError(f"load balancer {name} is needed: {lost[0]}"))
    return changed(state, replace(networks, load_balancers=after), event.reply, now, networks.vteps[known.vpc])


def back_ends_reported(state: State, event: BackEndsReported, now: int) -> Outcome:
    """Record the health of back ends that a balancer reports, and log what changed."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None or known.session != event.session or known.kind is not Kind.BALANCER:
        return state, ()
    health = {(each.balancer, each.ip, each.port): each.is_up for each in event.states}
    after = replace(networks, gateways={**networks.gateways, name: replace(known, health=health)})
    return replace(state, networks=after), tuple(_notes(networks, name, known, health))


def _notes(networks: Networks, name: str, known: Gateway, health: Mapping[BackEndKey, bool]) -> list[Effect]:
    """Return the lines for the event log. A back end that was never up is down by default, and no news."""
    turned = [key for key, is_up in health.items() if is_up != known.health.get(key, False)]
    found: list[Effect] = []
    for balancer, ip, port in turned[:MAX_NOTES]:
        what = "up" if health[balancer, ip, port] else "down"
        severity = "info" if what == "up" else "warning"
        found.append(Note(severity=severity, subject=balancer, text=f"back end {ip} port {port} is {what} at {name}"))
    if len(turned) > MAX_NOTES:
        text = f"{len(turned) - MAX_NOTES} more back ends went up or down"
        found.append(Note(severity="warning", subject=name, text=text))
    for balancer in dict.fromkeys(key[0] for key in turned):
        each = networks.load_balancers.get(balancer)
        if each is not None and _all_down(each, health) and not _all_down(each, known.health):
            what = "all of them are used" if each.panic_when_all_down else "new connections are refused"
            text = f"all back ends are down at {name}; {what}"
            found.append(Note(severity="error", subject=balancer, text=text))
    return found


def _all_down(each: LoadBalancer, health: Mapping[BackEndKey, bool]) -> bool:
    return not any(health.get((each.id, end.ip, end.port), False) for end in each.back_ends)
