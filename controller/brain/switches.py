"""Handle switch sessions, port status and the underlay: what is out of use, and the rules that follow from it.

A port that goes down counts at once. A port that comes up is used again after a hold time, which doubles with each of
its failures in the last minute, so a flapping cable does not move flows to and fro.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from heddle.controller.brain.install import (
    MAX_LOST,
    Outcome,
    changed_topology,
    out_of_installation,
    with_older_pins,
    within_grace,
)
from heddle.controller.brain.lacking import absent, judged_by_reading
from heddle.controller.brain.state import Hold, ReplanWork, State, SwitchState, wanted
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions.replan import enqueue_replan
from heddle.controller.model.effect import Effect, Note, ReadRules, Wake
from heddle.controller.model.event import PortStatus, RulesRead, SwitchDown, SwitchUp
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.health import Health
from heddle.controller.model.moves import Cause
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.rules.diff import diff, shared
from heddle.foundation.backoff import doubled_ms

FAILURES_MEMORY_MS = 60_000
MAX_NAMED = 5
AUDIT_TICK_MS = 900
MAX_AUDITS = 8
"""The switches whose rules are read in one tick."""


def switch_up(state: State, event: SwitchUp, now: int) -> Outcome:
    """Record a new session and the rules that the switch holds already; only the difference will be sent.

    Where the fabric is steered without sessions, switches are not ours to change.
    """
    if event.switch not in state.switches or not traits_of(state.fabric).has_sessions:
        return state, ()
    state = with_older_pins(out_of_installation(state, event.switch), event.switch, event.installed)
    installed = shared(event.installed, wanted(state, event.switch))
    known = state.switches[event.switch]
    fresh = SwitchState(connected=True, installed=installed, refusal=known.refusal, lost=known.lost)
    state = replace(state, switches={**state.switches, event.switch: fresh}, dirty=state.dirty | {event.switch})
    ports = ((PortRef(event.switch, number), up) for number, up in event.ports.items())
    state, effects = _ports(state, ports, now)
    state, changed = changed_topology(state)
    text = f"connected with {len(event.installed.rules)} rules installed"
    note = Note(severity="info", subject=event.switch, text=text)
    return state, (note, *effects, *changed)


def switch_down(state: State, event: SwitchDown, now: int) -> Outcome:
    """Record the end of a session; the switch keeps forwarding by its installed rules (fail-static)."""
    if event.switch not in state.switches:
        return state, ()
    state = out_of_installation(state, event.switch)
    known = state.switches[event.switch]
    gone = SwitchState(refusal=known.refusal, lost=known.lost)
    state = replace(state, switches={**state.switches, event.switch: gone})
    state, changed = changed_topology(state)
    return state, (Note(severity="warning", subject=event.switch, text=f"session ended: {event.reason}"), *changed)


def rules_read(state: State, event: RulesRead, now: int) -> Outcome:
    """Record the rules read from a switch; what an audit finds to differ is reported, and repaired."""
    known = state.switches.get(event.switch)
    if known is None or not known.connected or known.lagging:
        return state, ()
    effects: tuple[Effect, ...] = ()
    if event.audit:
        busy = state.installing is not None and event.switch in state.installing.target
        if busy or known.installed is None or known.changed >= event.audit:
            return state, ()  # the rules have changed since they were read
        found, lost = diff(event.installed, known.installed), known.lost
        if lost < MAX_LOST:
            lost = lost + 1 if absent(event.installed, known.installed) else 0
        known = replace(known, lost=lost)
        if not found and lost < MAX_LOST:
            return replace(state, switches={**state.switches, event.switch: known}), ()
        if found:
            text = f"audit: {len(found)} rules or groups differ from what was installed; repaired"
            effects = (Note(severity="warning", subject=event.switch, text=text),)
    fresh = replace(known, installed=shared(event.installed, wanted(state, event.switch)))
    fresh = judged_by_reading(fresh, wanted(state, event.switch), audited=event.audit > 0)
    return (
        replace(state, switches={**state.switches, event.switch: fresh}, dirty=state.dirty | {event.switch}),
        effects,
    )


def tick(state: State, now: int) -> Outcome:
    """Read the rules of switches whose turn it is; after the grace time, also remove pins from before the start."""
    effects: tuple[Effect, ...] = ()
    if state.started_unix_ms is not None and not within_grace(state, now):
        state = replace(state, started_unix_ms=None, older_pins={}, dirty=frozenset(state.switches))
    elapsed_ms = now - state.audited_unix_ms
    if elapsed_ms >= AUDIT_TICK_MS:
        state, effects = _audit(replace(state, audited_unix_ms=now), min(elapsed_ms, state.settings.audit_ms))
    return state, effects


def _audit(state: State, elapsed_ms: int) -> Outcome:
    """Read the rules of some switches, so that each is read once in `audit_ms`, as far as MAX_AUDITS allows."""
    names = [name for name, switch in state.switches.items() if switch.connected and switch.installed is not None]
    if not names:
        return state, ()
    count = min(MAX_AUDITS, len(names), -(-len(names) * elapsed_ms // state.settings.audit_ms))
    turn = [names[(state.audited + step) % len(names)] for step in range(count)]
    state = replace(state, audited=(state.audited + count) % len(names))
    return state, tuple(ReadRules(switch=name, audit=state.next_token) for name in turn)


def port_statuses(state: State, events: Sequence[PortStatus], now: int) -> Outcome:
    """Record the states of ports: their cables or NICs go out of use, or back in after their hold times.

    Events that arrive together are handled together: each alone would cost a copy of what is known of all ports.
    """
    before = state.health
    state, effects = _ports(state, [(PortRef(event.switch, event.port), event.up) for event in events], now)
    if state.health == before:
        return state, effects
    state, changed = changed_topology(state)
    return state, (*effects, *changed)


def held_ports(state: State, now: int) -> Outcome:
    """Return the ports to use whose hold time has ended."""
    over = {port for port, hold in state.holds.items() if hold.until_unix_ms is not None and hold.until_unix_ms <= now}
    if not over:
        return state, ()
    kept = {port: replace(hold, until_unix_ms=None) for port, hold in state.holds.items() if port in over}
    state = replace(state, holds={**state.holds, **kept}, down_ports=state.down_ports - over)
    state, effects = _with_health(state, now)
    state, changed = changed_topology(state)
    return state, (*effects, *changed)


def _ports(state: State, ports: Iterable[tuple[PortRef, bool]], now: int) -> Outcome:
    """Record port states; failures in the fabric file remain."""
    holds, effects, down, unused = dict(state.holds), list[Effect](), set(state.down_ports), False
    for port, up in ports:
        if port not in state.fabric.cable_by_port and port not in state.fabric.nic_by_port:
            continue
        hold = holds.get(port)
        if not up and (port not in down or (hold is not None and hold.until_unix_ms is not None)):
            lately = hold is not None and now - hold.failed_unix_ms < FAILURES_MEMORY_MS
            unused = unused or port in down
            failures = hold.failures + 1 if hold is not None and lately else 1
            holds[port] = Hold(failures=failures, failed_unix_ms=now)
            down.add(port)
        elif up and port in down and (hold is None or hold.until_unix_ms is None):
            wait = doubled_ms(state.settings.hold_ms, hold.failures - 1 if hold is not None else 0)
            holds[port] = Hold(failures=hold.failures if hold else 1, failed_unix_ms=now, until_unix_ms=now + wait)
            effects.append(Wake(after_ms=wait))
    state = replace(state, holds=holds, down_ports=frozenset(down))
    state, more = _with_health(state, now)
    if unused and not more and (work := steering_of(state.fabric).after_unused_failure()) is not None:
        state = enqueue_replan(state, work)
    return state, (*effects, *more)


def _with_health(state: State, now: int) -> Outcome:
    """Derive what has failed from the ports that are down; where it has changed, running jobs are planned again."""
    health = health_of(state)
    was, down = state.health.down_cables | state.health.down_nics, health.down_cables | health.down_nics
    changed = sorted(was ^ down)
    if not changed:
        return state, ()
    words = [f"{name} {'down' if name in down else 'up'}" for name in changed]
    more = f" (+{len(words) - MAX_NAMED} more)" if len(words) > MAX_NAMED else ""
    text = ", ".join(words[:MAX_NAMED]) + more
    cause = Cause.FAILURE if down - was else Cause.RECOVERY
    state = enqueue_replan(replace(state, health=health), ReplanWork(cause=cause, reason=f"link {text}"))
    note = Note(severity="warning", subject="fabric", text=text)
    state, effects = steering_of(state.fabric).after_change(state, now)
    return state, (note, *effects)


def health_of(state: State) -> Health:
    """Return what has failed: what the fabric file says, and the ports that are down."""
    fabric = state.fabric
    cables = {fabric.cable_by_port[port].id for port in state.down_ports if port in fabric.cable_by_port}
    nics = {fabric.nic_by_port[port].id for port in state.down_ports if port in fabric.nic_by_port}
    return fabric.failed.union(Health(down_cables=frozenset(cables), down_nics=frozenset(nics)))
