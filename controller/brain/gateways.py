"""Gateways and hosts come, acknowledge and go; and callers wait for them, but not for ever."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address

from controller.brain.networks import Gateway, Networks, Waiting
from controller.brain.state import State
from controller.brain.transact import Outcome
from controller.model.effect import Effect, EndSession, NetworksChanged, Note, Reply
from controller.model.error import BudgetExceededError, InUseError, NotFoundError, UnavailableError
from controller.model.event import ForgetGateway, GatewayAnswered, GatewayDown, GatewayUp
from dataplane.config.refusal import shown

MAX_NAMED = 10
_NOTHING_TOLD = (
    "this controller was started anew, and tells nothing until the whole network is applied (heddle vpc apply)"
)


def changed(
    state: State, networks: Networks, reply: int, now: int, vteps: Iterable[IPv4Address] | None, *, more: bool = False
) -> Outcome:
    """Make a new generation of changed networks, tell it, and let the caller wait for those that hear of it.

    Where nothing was told since the start and `more` follows, it is told with the last of it: to gateways that outlived
    a controller half a network is the loss of the other half.
    """
    if more and not networks.generation:
        return replace(state, networks=networks), (Reply(reply=reply, outcome=networks.generation),)
    networks = replace(networks, generation=max(networks.generation + 1, now))
    state, effects = confirmed(replace(state, networks=networks), reply, now, vteps)
    return state, (NetworksChanged(generation=networks.generation), *effects)


def unchanged(
    state: State, reply: int, now: int, vteps: Iterable[IPv4Address] | None, *, more: bool = False
) -> Outcome:
    """Let the caller wait for what is wanted already; it is told now where that was still to be done."""
    if more or state.networks.generation:
        return confirmed(state, reply, now, vteps)
    return changed(state, state.networks, reply, now, vteps)


def confirmed(state: State, reply: int, now: int, vteps: Iterable[IPv4Address] | None) -> Outcome:
    """Answer the caller with the generation once everybody concerned runs it; at once where all do."""
    networks = state.networks
    touched = frozenset(vteps) if vteps is not None else None
    waiting = Waiting(
        reply=reply,
        generation=networks.generation,
        deadline_unix_ms=now + state.settings.gateway_timeout_ms,
        missing=frozenset(
            name
            for name, gateway in networks.gateways.items()
            if gateway.session is not None and gateway.hears_of(touched) and gateway.acknowledged < networks.generation
        ),
    )
    return _settled(replace(state, networks=replace(networks, waiting=(*networks.waiting, waiting))))


def gateway_up(state: State, event: GatewayUp, now: int) -> Outcome:
    """Take note of a session; an older one of the same gateway ends, and what it acknowledged counts no more."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None and len(networks.gateways) >= state.settings.max_gateways:
        full = f"{len(networks.gateways)} gateways and hosts are known already, the most that may be"
        return state, (Reply(reply=event.reply, outcome=BudgetExceededError(full)),)
    gateway = Gateway(vtep=event.vtep, is_host=event.is_host, session=event.session, host_vtep=event.host_vtep)
    networks = replace(networks, gateways={**networks.gateways, name: gateway})
    effects: list[Effect] = [Reply(reply=event.reply, outcome=networks.generation)]
    effects.append(Note(severity="info", subject=name, text=f"attached, VTEP {event.vtep}"))
    if event.generation and not networks.generation:
        effects.append(
            Note(severity="warning", subject=name, text=f"runs generation {event.generation}; {_NOTHING_TOLD}")
        )
    if known is not None and known.session is not None:
        effects.append(EndSession(gateway_id=name, session=known.session))
    addresses = (known.vtep, known.host_vtep) if known is not None and not known.is_host else ()
    is_new_address = not event.is_host and addresses != (event.vtep, event.host_vtep)
    if is_new_address and networks.generation:  # hosts send what is for nobody of their VPC to a gateway
        networks = replace(networks, generation=max(networks.generation + 1, now))
        effects.append(NetworksChanged(generation=networks.generation))
    return replace(state, networks=networks), tuple(effects)


def gateway_down(state: State, event: GatewayDown, now: int) -> Outcome:
    """Take note of a session's end; nobody waits for it any more. A host is forgotten, a gateway's address is not."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None or known.session != event.session:
        return state, ()
    rest = {other: gateway for other, gateway in networks.gateways.items() if other != name}
    gateways = rest if known.is_host else {**networks.gateways, name: replace(known, session=None)}
    waiting = tuple(replace(each, missing=each.missing - {name}) for each in networks.waiting)
    state, effects = _settled(replace(state, networks=replace(networks, gateways=gateways, waiting=waiting)))
    return state, (Note(severity="warning", subject=name, text="its session ended; it goes on as it is"), *effects)


def forget_gateway(state: State, event: ForgetGateway, now: int) -> Outcome:
    """Remember a gateway no more, once it is not attached: its address is told to nobody then."""
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
    if not networks.generation:  # nothing was told to anybody yet
        return confirmed(replace(state, networks=after), event.reply, now, None)
    return changed(state, after, event.reply, now, None)


def gateway_answered(state: State, event: GatewayAnswered, now: int) -> Outcome:
    """Take note of a generation that runs, or that was refused; words of an older session are of no account."""
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


def _refused(state: State, known: Gateway, event: GatewayAnswered) -> Outcome:
    """Answer who waits for this generation of this gateway: it is wanted all the same."""
    networks, name = state.networks, event.gateway_id
    gateways = {**networks.gateways, name: replace(known, refused=event.refused)}
    told: list[Effect] = [Note(severity="error", subject=name, text=f"generation refused: {event.refused}")]
    left = []
    for each in networks.waiting:
        if name in each.missing and each.generation <= event.generation:
            told.append(Reply(reply=each.reply, outcome=_kept(f"gateway {name} refused it: {event.refused}")))
        else:
            left.append(each)
    return replace(state, networks=replace(networks, gateways=gateways, waiting=tuple(left))), tuple(told)


def tick(state: State, now: int) -> Outcome:
    """Answer those who waited too long."""
    networks = state.networks
    late = [each for each in networks.waiting if each.deadline_unix_ms <= now]
    if not late:
        return state, ()
    left = tuple(each for each in networks.waiting if each.deadline_unix_ms > now)
    effects = tuple(Reply(reply=each.reply, outcome=_late(each)) for each in late)
    return replace(state, networks=replace(networks, waiting=left)), effects


def _settled(state: State) -> Outcome:
    """Answer those for whom nobody is missing any more."""
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
