"""Handle gateways and hosts: attach, acknowledge, detach; and callers that wait for acknowledgements."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.networks.checks import pool_problems
from heddle.controller.brain.state import State
from heddle.controller.brain.virtual_networks import Gateway, Networks, Waiting
from heddle.controller.model.effect import Effect, EndSession, NetworksChanged, Note, Reply
from heddle.controller.model.error import BudgetExceededError, InputError, InUseError, NotFoundError, UnavailableError
from heddle.controller.model.event import ForgetGateway, GatewayAcked, GatewayDown, GatewayUp
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.incarnations import Incarnated, succeeding
from heddle.dataplane.config.refusal import shown

MAX_NAMED = 10
_NOTHING_PUBLISHED = (
    "this controller has restarted, and publishes nothing until the whole network is applied (heddle vpc apply)"
)


def next_generation(state: State, now: int) -> int:
    """Return a generation above all before; without a journal, which has a counter, also above those of a restart."""
    return max(state.networks.generation + 1, state.settings.generation_floor or now)


def changed(
    state: State, networks: Networks, reply: int, now: int, vteps: Iterable[IPv4Address] | None, *, more: bool = False
) -> Outcome:
    """Publish changed networks as a new generation; the caller waits for the gateways and hosts that receive it.

    Where nothing is published since the start and `more` changes follow, the last of them publishes all: gateways that
    outlived a controller would drop the rest of a network of which they get a part.
    """
    networks = _with_incarnations(state, networks, now)
    if more and not networks.generation:
        return replace(state, networks=networks), (Reply(reply=reply, outcome=networks.generation),)
    networks = replace(networks, generation=next_generation(state, now))
    state, effects = confirmed(replace(state, networks=networks), reply, now, vteps)
    return state, (NetworksChanged(generation=networks.generation), *effects)


def _with_incarnations(state: State, networks: Networks, now: int) -> Networks:
    """Return changed networks in which what is new differs by its incarnation from what was there before."""
    before = Incarnated(state.networks.vpcs, state.networks.peerings, state.networks.ended)
    found = succeeding(before, networks.vpcs, networks.peerings, next_generation(state, now))
    return replace(networks, vpcs=found.vpcs, peerings=found.peerings, ended=found.ended)


def unchanged(
    state: State, reply: int, now: int, vteps: Iterable[IPv4Address] | None, *, more: bool = False
) -> Outcome:
    """Let the caller wait for the current generation; publish it where that is pending."""
    if more or state.networks.generation:
        return confirmed(state, reply, now, vteps)
    return changed(state, state.networks, reply, now, vteps)


def confirmed(state: State, reply: int, now: int, vteps: Iterable[IPv4Address] | None) -> Outcome:
    """Reply with the generation once every gateway and host concerned has acknowledged it; at once where all have."""
    networks = state.networks
    touched = frozenset(vteps) if vteps is not None else None
    waiting = Waiting(
        reply=reply,
        generation=networks.generation,
        deadline_unix_ms=now + state.settings.gateway_timeout_ms,
        missing=frozenset(
            name
            for name, gateway in networks.gateways.items()
            if gateway.session is not None and gateway.receives(touched) and gateway.acknowledged < networks.generation
        ),
    )
    return _settled(replace(state, networks=replace(networks, waiting=(*networks.waiting, waiting))))


def gateway_up(state: State, event: GatewayUp, now: int) -> Outcome:
    """Record a new session; an older one of the same gateway ends, and its acknowledgements are void."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None and len(networks.gateways) >= state.settings.max_gateways:
        full = f"{len(networks.gateways)} gateways and hosts are known already, the maximum"
        return state, (Reply(reply=event.reply, outcome=BudgetExceededError(full)),)
    if found := list(pool_problems(networks, event)):
        return state, (Reply(reply=event.reply, outcome=InputError(*found[:MAX_NAMED])),)
    gateway = Gateway(
        vtep=event.vtep, kind=event.kind, session=event.session, host_vtep=event.host_vtep, pools=event.pools
    )
    before = networks
    networks = replace(networks, gateways={**networks.gateways, name: gateway})
    effects: list[Effect] = [Reply(reply=event.reply, outcome=networks.generation)]
    effects.append(Note(severity="info", subject=name, text=f"attached, VTEP {event.vtep}"))
    if event.generation and not networks.generation:
        effects.append(
            Note(severity="warning", subject=name, text=f"runs generation {event.generation}; {_NOTHING_PUBLISHED}")
        )
    if known is not None and known.session is not None:
        effects.append(EndSession(gateway_id=name, session=known.session))
    is_ahead = 0 < networks.generation < event.generation  # by a change that a controller published and did not write
    if is_ahead or _moves_traffic(before, networks, name):
        networks = replace(networks, generation=max(next_generation(state, now), event.generation + 1))
        effects.append(NetworksChanged(generation=networks.generation))
    return replace(state, networks=networks), tuple(effects)


def _moves_traffic(before: Networks, after: Networks, name: str) -> bool:
    """Return whether others must know that this one attached or left: hosts send to gateways and to balancers.

    Balancers matter while they are attached: hosts spread flows over those. Gateways matter as long as they are known.
    """
    if not after.generation:
        return False
    old, new = before.gateways.get(name), after.gateways.get(name)
    kinds = {each.kind for each in (old, new) if each is not None}
    if Kind.BALANCER in kinds and after.load_balancers:
        return _is_attached(old) != _is_attached(new) or _place(old) != _place(new)
    return Kind.GATEWAY in kinds and _place(old) != _place(new)


def _is_attached(gateway: Gateway | None) -> bool:
    return gateway is not None and gateway.session is not None


def _place(gateway: Gateway | None) -> tuple[object, ...]:
    return () if gateway is None else (gateway.kind, gateway.vtep, gateway.host_vtep, gateway.pools)


def gateway_down(state: State, event: GatewayDown, now: int) -> Outcome:
    """Record the end of a session; no caller waits for it any more. A host is removed, a gateway's address is kept."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None or known.session != event.session:
        return state, ()
    rest = {other: gateway for other, gateway in networks.gateways.items() if other != name}
    away = replace(known, session=None, health={})
    gateways = rest if known.kind is Kind.HOST else {**networks.gateways, name: away}
    waiting = tuple(replace(each, missing=each.missing - {name}) for each in networks.waiting)
    after = replace(networks, gateways=gateways, waiting=waiting)
    lost: tuple[Effect, ...] = ()
    if known.kind is Kind.BALANCER and _moves_traffic(networks, after, name):
        after = replace(after, generation=next_generation(state, now))
        lost = (NetworksChanged(generation=after.generation),)
    state, effects = _settled(replace(state, networks=after))
    return state, (
        Note(severity="warning", subject=name, text="its session ended; it keeps its configuration"),
        *lost,
        *effects,
    )


def forget_gateway(state: State, event: ForgetGateway, now: int) -> Outcome:
    """Remove a gateway that is not attached: hosts no longer send to its address."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None:
        return state, (
            Reply(reply=event.reply, outcome=NotFoundError(f"gateway_id: there is no gateway {shown(name)}")),
        )
    if known.session is not None:
        attached = InUseError(f"gateway {name} is attached; end it first, or it would be known again at once")
        return state, (Reply(reply=event.reply, outcome=attached),)
    rest = {other: gateway for other, gateway in networks.gateways.items() if other != name}
    after = replace(networks, gateways=rest)
    if not networks.generation:  # nothing is published yet
        return confirmed(replace(state, networks=after), event.reply, now, None)
    return changed(state, after, event.reply, now, None)


def gateway_acked(state: State, event: GatewayAcked, now: int) -> Outcome:
    """Record that a gateway runs or refuses a generation; acknowledgements of an older session are ignored."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None or known.session != event.session or event.generation > networks.generation:
        return state, ()
    if event.refused:
        return _refused(state, known, event)
    runs = max(known.acknowledged, event.generation)
    gateways = {**networks.gateways, name: replace(known, acknowledged=runs, refused="")}
    waiting = tuple(
        replace(each, missing=each.missing - {name}) if each.generation <= runs else each for each in networks.waiting
    )
    return _settled(replace(state, networks=replace(networks, gateways=gateways, waiting=waiting)))


def _refused(state: State, known: Gateway, event: GatewayAcked) -> Outcome:
    """Fail the callers that wait for this gateway to run the generation; the generation stays wanted."""
    networks, name = state.networks, event.gateway_id
    gateways = {**networks.gateways, name: replace(known, refused=event.refused)}
    effects: list[Effect] = [Note(severity="error", subject=name, text=f"generation refused: {event.refused}")]
    left = []
    for each in networks.waiting:
        if name in each.missing and each.generation <= event.generation:
            effects.append(Reply(reply=each.reply, outcome=_kept(f"gateway {name} refused it: {event.refused}")))
        else:
            left.append(each)
    return replace(state, networks=replace(networks, gateways=gateways, waiting=tuple(left))), tuple(effects)


def tick(state: State, now: int) -> Outcome:
    """Fail the callers whose deadline has passed."""
    networks = state.networks
    late = [each for each in networks.waiting if each.deadline_unix_ms <= now]
    if not late:
        return state, ()
    left = tuple(each for each in networks.waiting if each.deadline_unix_ms > now)
    effects = tuple(Reply(reply=each.reply, outcome=_late(each)) for each in late)
    return replace(state, networks=replace(networks, waiting=left)), effects


def _settled(state: State) -> Outcome:
    """Reply to the callers for whom no acknowledgement is missing."""
    networks = state.networks
    done = [each for each in networks.waiting if not each.missing]
    if not done:
        return state, ()
    left = tuple(each for each in networks.waiting if each.missing)
    effects = tuple(Reply(reply=each.reply, outcome=each.generation) for each in done)
    return replace(state, networks=replace(networks, waiting=left)), effects


def _late(waiting: Waiting) -> UnavailableError:
    names = sorted(waiting.missing)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return _kept(f"not acknowledged in time by {', '.join(names[:MAX_NAMED])}{more}")


def _kept(why: str) -> UnavailableError:
    return UnavailableError(
        f"the change is kept (generation not everywhere yet): {why}; the same call again waits again"
    )
