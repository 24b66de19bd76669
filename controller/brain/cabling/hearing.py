"""Record what ports hear, have it judged beside the loop, and leave wrong cables out of use.

One verdict is under way at a time. The next waits as long as several such verdicts take, and at least PAUSE_MS:
plugs that move one after the other are heard one after the other.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome, changed_topology, take_token
from heddle.controller.brain.state import ReplanWork, State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions.replan import enqueue_replan
from heddle.controller.model.cabling import Cabling, CablingPolicy, Verdict
from heddle.controller.model.effect import Condition, Diagnose, Effect, Wake
from heddle.controller.model.event import Diagnosed, Heard
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.moves import Cause
from heddle.controller.model.steering_traits import traits_of

KIND = "cabling"
SETTLE_MS = 100
"""A verdict waits so long after the first change: the other end of a cable hears a little later."""
PAUSE_MS = 300
MAX_PAUSE_MS = 10_000
PAUSE_FACTOR = 3
"""The pause after a verdict, in times of what it took: plain Python in a thread slows the loop."""
MAX_NAMED = 3
MAX_CONDITIONS = 64
"""The conditions of one verdict that are published: more are one more."""


def heard(state: State, event: Heard, now: int) -> Outcome:
    """Record what ports hear; those of unknown switches do not count."""
    cabling = state.cabling
    known, before = dict(cabling.heard), dict(cabling.before)
    for port, peer in event.changes.items():
        if port.switch not in state.switches:
            continue
        if peer is not None:
            known[port] = peer
            before.pop(port, None)
        elif port in known:
            before[port] = known.pop(port)
    if known == cabling.heard:
        return state, ()
    return replace(state, cabling=replace(_stale(cabling, now), heard=known, before=before)), ()


def _stale(cabling: Cabling, now: int) -> Cabling:
    """Return the cabling with a verdict that does not know all; the next one waits for what comes right after."""
    if cabling.stale:
        return cabling
    return replace(cabling, stale=True, pause_until_unix_ms=max(cabling.pause_until_unix_ms, now + SETTLE_MS))


def start_diagnosis(before: State, state: State, now: int) -> Outcome:
    """Begin a verdict where what it depends on has changed since the last one began."""
    cabling = state.cabling
    if not cabling.heard and not cabling.conditions:
        return state, ()
    if not cabling.stale and (state.health != before.health or state.drained != before.drained):
        cabling = _stale(cabling, now)
        state = replace(state, cabling=cabling)
    if not cabling.stale or cabling.token is not None:
        return state, ()
    wait_ms = cabling.pause_until_unix_ms - now
    if 0 < wait_ms <= MAX_PAUSE_MS:
        wakes = before.cabling.pause_until_unix_ms != cabling.pause_until_unix_ms
        return state, (Wake(after_ms=wait_ms + 1),) if wakes else ()
    state, token = take_token(state)
    cabling, settings = replace(cabling, token=token, since_unix_ms=now, stale=False), state.settings
    work = Diagnose(
        token=token, heard=cabling.heard, before=cabling.before, down=_down(state), health=state.without_cabling,
        left_out=cabling.verdict.left_out, policy=policy_of(state), max_percent=settings.cabling_max_percent,
    )  # fmt: skip
    return replace(state, cabling=cabling), (work,)


def policy_of(state: State) -> CablingPolicy:
    """Return what follows from a verdict: nothing where all is heard by agents, and telemetry raises alarms only."""
    is_trusted = traits_of(state.fabric).has_sessions or state.settings.acts_on_telemetry
    return state.settings.cabling if is_trusted else CablingPolicy.IGNORE


def _down(state: State) -> frozenset[PortRef]:
    """Return the ports that are down; one that is up again and waits for its hold time is not."""
    holds = state.holds
    return frozenset(port for port in state.down_ports if port not in holds or holds[port].until_unix_ms is None)


def diagnosed(state: State, event: Diagnosed, now: int) -> Outcome:
    """Use a verdict: raise and clear conditions, and plan anew where other cables are left out."""
    cabling = state.cabling
    if cabling.token != event.token:
        return state, ()
    took_ms = max(0, now - cabling.since_unix_ms)
    pause_ms = min(MAX_PAUSE_MS, max(PAUSE_MS, PAUSE_FACTOR * took_ms))
    cabling = replace(cabling, token=None, pause_until_unix_ms=now + pause_ms)
    was, verdict = cabling.verdict, event.verdict
    if verdict is None or verdict == was:
        return replace(state, cabling=cabling), _wake(state, pause_ms)
    before, cabling = cabling, replace(cabling, verdict=verdict)
    if cabling.following is None:  # else they are of the fabric that is to be in force
        cabling = replace(cabling, joining=cabling.joining & verdict.left_out)
    if verdict.found != was.found:
        cabling = replace(cabling, found_unix_ms=now, unfollowed="")
    state, effects = _planned_around(replace(state, cabling=cabling), was, now)
    state, changed = changed_topology(state)
    return state, (*changed_conditions(before, cabling), *effects, *changed, *_wake(state, pause_ms))


def _wake(state: State, pause_ms: int) -> tuple[Effect, ...]:
    return (Wake(after_ms=pause_ms + 1),) if state.cabling.stale else ()


def _planned_around(state: State, was: Verdict, now: int) -> Outcome:
    """Plan running jobs anew where the cables that are left out have changed."""
    out, before = state.cabling.verdict.left_out, was.left_out
    if out == before:
        return state, ()
    words = [f"{name} {'is wrong' if name in out else 'is right'}" for name in sorted(out ^ before)]
    more = f" (+{len(words) - MAX_NAMED} more)" if len(words) > MAX_NAMED else ""
    reason = f"cabling: {', '.join(words[:MAX_NAMED])}{more}"
    cause = Cause.FAILURE if out - before else Cause.RECOVERY
    state = enqueue_replan(state, ReplanWork(cause=cause, reason=reason))
    return steering_of(state.fabric).after_change(state, now)


def changed_conditions(was: Cabling, now: Cabling) -> tuple[Condition, ...]:
    """Return the conditions that are raised and cleared between two values of what is known."""
    before, after = (dict.fromkeys(_published(each)) for each in (was, now))
    cleared = [_condition(text, raised=False) for text in before if text not in after]
    return (*cleared, *(_condition(text, raised=True) for text in after if text not in before))


def _published(cabling: Cabling) -> tuple[str, ...]:
    found = cabling.conditions
    if len(found) <= MAX_CONDITIONS:
        return found
    return (*found[:MAX_CONDITIONS], "more causes than are listed here; heddle check cabling lists all")


def _condition(text: str, *, raised: bool) -> Condition:
    return Condition(kind=KIND, subject="cabling", text=text, raised=raised)
