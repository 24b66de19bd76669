"""Handle gateways and hosts: attach, acknowledge, detach; and callers that wait for acknowledgements."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.networks.checks import pool_problems
from heddle.controller.brain.state import State
from heddle.controller.brain.virtual_networks import Gateway, Networks, Waiting
from heddle.controller.model.effect import Effect, EndSession, NetworksChanged, Note, Reply
from heddle.controller.model.error import BudgetExceededError, InputError, InUseError, NotFoundError, UnavailableError
from heddle.controller.model.network_event import DropUnknownVpcs, ForgetGateway, GatewayAcked, GatewayDown, GatewayUp
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.incarnations import Incarnated, succeeding
from heddle.dataplane.config.refusal import shown

MAX_NAMED = 10
EVER = 1
"""As `Networks.known_since`: no generation is earlier, but what a gateway already keeps as unknown stays in force."""
MAX_NOTES = 20
"""VPCs named in the event log for one acknowledgement."""
_NOTHING_PUBLISHED = (
    "this controller has restarted without its state, and publishes nothing until a network file is applied "
    "(heddle vpc apply); VPCs that the file does not name stay as they are"
)
_UNKNOWN = "apply a file that names them, or end them with heddle vpc apply FILE --drop-unknown"


def next_generation(state: State, now: int) -> int:
    """Return a generation above all before; without a journal, which has a counter, also above those of a restart."""
    return max(state.networks.generation + 1, state.settings.generation_floor or now)


def changed(
    state: State, networks: Networks, reply: int, now: int, vteps: Iterable[IPv4Address] | None, *,
    vpcs: Iterable[str] = (), more: bool = False,
) -> Outcome:  # fmt: skip
    """Publish changed networks as a new generation; the caller waits for the gateways and hosts that receive it.

    `vpcs` are those that the caller has changed: it fails where a gateway cannot serve one of them as wanted.

    Where nothing is published since the start, or gateways serve VPCs that this state does not know, and `more` changes
    follow, the last of them publishes all: what gateways serve already is not named without its peerings and load
    balancers, which are still to come.
    """
    networks = _with_incarnations(state, networks, now)
    if more and (not networks.generation or networks.is_pending or _is_incomplete(state.networks)):
        after = replace(state, networks=replace(networks, is_pending=True))
        return after, (Reply(reply=reply, outcome=networks.generation),)
    generation = next_generation(state, now)
    if not networks.generation:
        networks = replace(networks, known_since=generation)
    networks = replace(networks, generation=generation, is_pending=False)
    state, effects = confirmed(replace(state, networks=networks), reply, now, vteps, vpcs)
    return state, (NetworksChanged(generation=networks.generation), *effects)


def _with_incarnations(state: State, networks: Networks, now: int) -> Networks:
    """Return changed networks in which what is new differs by its incarnation from what was there before."""
    before = Incarnated(state.networks.vpcs, state.networks.peerings, state.networks.ended)
    found = succeeding(before, networks.vpcs, networks.peerings, next_generation(state, now))
    return replace(networks, vpcs=found.vpcs, peerings=found.peerings, ended=found.ended)


def _is_incomplete(networks: Networks) -> bool:
    return any(networks.unknown_at(each) for each in networks.gateways.values() if each.session is not None)


def unchanged(
    state: State, reply: int, now: int, vteps: Iterable[IPv4Address] | None, *,
    vpcs: Iterable[str] = (), more: bool = False,
) -> Outcome:  # fmt: skip
    """Let the caller wait for the current generation; publish it where that is pending."""
    if more or (state.networks.generation and not state.networks.is_pending):
        return confirmed(state, reply, now, vteps, vpcs)
    return changed(state, state.networks, reply, now, vteps, vpcs=vpcs)


def confirmed(
    state: State, reply: int, now: int, vteps: Iterable[IPv4Address] | None, vpcs: Iterable[str] = ()
) -> Outcome:
    """Reply with the generation once every gateway and host concerned has acknowledged it; at once where all have."""
    networks, mine = state.networks, frozenset(vpcs)
    for name, gateway in sorted(networks.gateways.items()):
        if gateway.session is not None and gateway.acknowledged == networks.generation and mine & gateway.kept.keys():
            return state, (Reply(reply=reply, outcome=_not_served(name, gateway.kept, mine)),)
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
        vpcs=mine,
    )
    return _settled(replace(state, networks=replace(networks, waiting=(*networks.waiting, waiting))))


def away(networks: Networks, vteps: Collection[IPv4Address] | None) -> list[tuple[str, Gateway]]:
    """Return those that are not attached and would receive a change that concerns the hosts at these VTEPs."""
    known = sorted(networks.gateways.items())
    return [(name, each) for name, each in known if each.session is None and each.receives(vteps)]


def gateway_up(state: State, event: GatewayUp, now: int) -> Outcome:
    """Record a new session; an older one of the same gateway ends, and its acknowledgements are void."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    networks = _without_stale_hosts(networks, event, state.settings.max_gateways)
    if known is None and len(networks.gateways) >= state.settings.max_gateways:
        full = f"{len(networks.gateways)} gateways and hosts are known already, the maximum"
        return state, (Reply(reply=event.reply, outcome=BudgetExceededError(full)),)
    if found := list(pool_problems(networks, event)):
        return state, (Reply(reply=event.reply, outcome=InputError(*found[:MAX_NAMED])),)
    gateway = Gateway(
        vtep=event.vtep, kind=event.kind, session=event.session, host_vtep=event.host_vtep, pools=event.pools,
        ports=event.ports,
    )  # fmt: skip
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
        newest = max(next_generation(state, now), event.generation + 1)
        networks = replace(networks, generation=newest)
        if is_ahead:
            gateways = {**networks.gateways, name: replace(gateway, known_since=newest)}
            networks = replace(networks, gateways=gateways, known_since=networks.known_since or EVER)
        effects.append(NetworksChanged(generation=networks.generation))
    return replace(state, networks=networks), tuple(effects)


def _without_stale_hosts(networks: Networks, event: GatewayUp, most: int) -> Networks:
    """Forget a host that is away where another has its VTEP now, and one where there is no room for the new one."""
    hosts = [
        name
        for name, each in networks.gateways.items()
        if each.is_host and each.session is None and name != event.gateway_id
    ]
    gone = [name for name in hosts if event.kind is Kind.HOST and networks.gateways[name].vtep == event.vtep]
    is_full = event.gateway_id not in networks.gateways and len(networks.gateways) - len(gone) >= most
    gone += [name for name in hosts if is_full and name not in gone][:1]
    if not gone:
        return networks
    return replace(networks, gateways={name: each for name, each in networks.gateways.items() if name not in gone})


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
    """Record the end of a session; no caller waits for it any more.

    A gateway's address is kept, and so is that of a host where a VPC has endpoints: it lacks what changes meanwhile.
    """
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None or known.session != event.session:
        return state, ()
    gateways = {**networks.gateways, name: replace(known, session=None, health={})}
    if known.is_host and not any(known.vtep in vteps for vteps in networks.vteps.values()):
        del gateways[name]
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
    if known.is_host or not networks.generation:  # no other is sent a host's address; or nothing is published yet
        return confirmed(replace(state, networks=after), event.reply, now, None)
    return changed(state, after, event.reply, now, None)


def drop_unknown_vpcs(state: State, event: DropUnknownVpcs, now: int) -> Outcome:
    """Have gateways, hosts and balancers serve nothing but what this controller knows."""
    networks = state.networks
    if not networks.generation:
        nothing = InputError("nothing is applied: apply the network first, or every VPC would end")
        return state, (Reply(reply=event.reply, outcome=nothing),)
    gateways = {name: replace(gateway, known_since=0) for name, gateway in networks.gateways.items()}
    vteps = {gateway.vtep for gateway in gateways.values()}
    return changed(state, replace(networks, gateways=gateways, known_since=0), event.reply, now, vteps)


def gateway_acked(state: State, event: GatewayAcked, now: int) -> Outcome:
    """Record that a gateway runs or refuses a generation; acknowledgements of an older session are ignored."""
    networks, name = state.networks, event.gateway_id
    known = networks.gateways.get(name)
    if known is None or known.session != event.session or event.generation > networks.generation:
        return state, ()
    if event.refused:
        return _refused(state, known, event)
    if event.generation < known.acknowledged:
        return state, ()
    runs = replace(known, acknowledged=event.generation, refused="", kept=event.kept, unknown=event.unknown)
    waiting: list[Waiting] = []
    failed: list[Effect] = []
    for each in networks.waiting:
        if each.generation > event.generation or name not in each.missing:
            waiting.append(each)
        elif each.vpcs & event.kept.keys():
            failed.append(Reply(reply=each.reply, outcome=_not_served(name, event.kept, each.vpcs)))
        else:
            waiting.append(replace(each, missing=each.missing - {name}))
    gateways = {**networks.gateways, name: runs}
    after = replace(state, networks=replace(networks, gateways=gateways, waiting=tuple(waiting)))
    state, effects = _settled(after)
    return state, (*_notes(networks, name, known, runs), *failed, *effects)


def _notes(networks: Networks, name: str, before: Gateway, after: Gateway) -> list[Effect]:
    """Return the lines for the event log: VPCs that are not served as wanted, and those that are again."""
    turned = sorted(
        vpc for vpc in before.kept.keys() | after.kept.keys() if before.kept.get(vpc) != after.kept.get(vpc)
    )
    found: list[Effect] = []
    for vpc in turned[:MAX_NOTES]:
        if vpc in after.kept:
            found.append(Note(severity="error", subject=vpc, text=f"at {name} {after.kept[vpc]}"))
        elif vpc in networks.vpcs:
            found.append(Note(severity="info", subject=vpc, text=f"at {name} its newest state is in force"))
    if len(turned) > MAX_NOTES:
        text = f"{len(turned) - MAX_NOTES} more VPCs are not served as wanted, or are again"
        found.append(Note(severity="warning", subject=name, text=text))
    if networks.unknown_at(after) - before.unknown:
        ids = sorted(networks.unknown_at(after))
        more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
        what = f"keeps VPCs in force that this controller does not know: {', '.join(ids[:MAX_NAMED])}{more}"
        found.append(Note(severity="warning", subject=name, text=f"{what}; {_UNKNOWN}"))
    return found


def _not_served(name: str, kept: Mapping[str, str], vpcs: frozenset[str]) -> UnavailableError:
    """Return the error of a caller whose VPC a gateway does not serve as wanted."""
    vpc = min(vpcs & kept.keys())
    return UnavailableError(f"the change is kept, but not in force: vpc {vpc} at gateway {name}: {kept[vpc]}")


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
