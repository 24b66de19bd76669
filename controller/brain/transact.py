"""Run one transaction at a time: send each switch its rule differences, and record which acknowledged or failed.

An `Installed`, `InstallFailed` or `Solved` event carries the token of its transaction; any other token is stale.
"""

from collections.abc import Iterable
from dataclasses import replace

from controller.brain.lifecycle import WorkKind
from controller.brain.state import Active, PlanWork, State, SwitchState, SyncWork, Work, wanted
from controller.model.effect import Effect, Install, Note, ReadRules, TopologyChanged
from controller.model.event import Installed, InstallFailed
from controller.model.rule import Change, Step
from controller.rules.diff import diff
from controller.rules.order import order

Outcome = tuple[State, tuple[Effect, ...]]
"""The next state, and the effects to perform in this order."""


def enqueue(state: State, work: Work) -> State:
    """Append work to the queue.

    A SYNC is dropped if one waits already, and a RESTATE replaces the one that waits: each uses the state at its start.
    """
    if work.kind is WorkKind.SYNC and any(waiting.kind is WorkKind.SYNC for waiting in state.queue):
        return state
    if work.kind is WorkKind.RESTATE:
        state = replace(state, queue=tuple(other for other in state.queue if other.kind is not WorkKind.RESTATE))
    return replace(state, queue=(*state.queue, work))


def take_token(state: State) -> tuple[State, int]:
    """Return the state after taking a token, and the token: a number that no effect has carried yet."""
    return replace(state, next_token=state.next_token + 1), state.next_token


def differences(state: State) -> dict[str, tuple[Change, ...]]:
    """Return, by connected switch, the changes from its installed to its wanted rules."""
    found = {}
    for switch in sorted(state.dirty):
        known = state.switches[switch]
        if known.connected and known.installed is not None:
            changes = diff(known.installed, wanted(state, switch))
            if changes:
                found[switch] = changes
    return found


def install(state: State, work: Work, barriers: frozenset[str] = frozenset()) -> Outcome:
    """Send every difference, and at least a barrier request to each switch in `barriers`."""
    changes = differences(state)
    steps = order(changes, state.fabric)
    silent: dict[str, tuple[Change, ...]] = dict.fromkeys(sorted(barriers - changes.keys()), ())
    if silent:
        steps = (*steps[:-1], Step({**steps[-1].changes, **silent})) if steps else (Step(silent),)
    state, token = take_token(state)
    target = {switch: wanted(state, switch) for switch in changes}
    settled = frozenset(s for s in state.dirty if s not in changes and _known(state.switches[s]))
    state = replace(state, active=Active(token=token, work=work, target=target), dirty=state.dirty - settled)
    return state, (Install(token=token, steps=steps),)


def start_sync(state: State, work: SyncWork) -> Outcome:
    """Send every difference; does nothing where no switch may differ."""
    return install(state, work) if state.dirty else (state, ())


def _known(switch: SwitchState) -> bool:
    return switch.connected and switch.installed is not None


def on_installed(state: State, event: Installed) -> Outcome | None:
    """Record that the active transaction's switches hold their target; None where the event is stale."""
    active = state.active
    if active is None or active.token != event.token or active.target is None:
        return None
    switches = dict(state.switches)
    for switch, rules in active.target.items():
        if switches[switch].connected:
            switches[switch] = SwitchState(connected=True, installed=rules)
    # The wanted rules may have changed during the installation: such switches stay dirty for the next transaction.
    reached = {switch for switch, rules in active.target.items() if rules == wanted(state, switch)}
    state = replace(state, switches=switches, dirty=state.dirty - reached, active=None)
    return _read_again(state, active.reconnected)


def out_of_transaction(state: State, switch: str) -> State:
    """Remove a switch whose session ended or was replaced from the active transaction's target."""
    active = state.active
    if active is None or not active.target or switch not in active.target:
        return state
    target = {name: rules for name, rules in active.target.items() if name != switch}
    return replace(state, active=replace(active, target=target, reconnected=active.reconnected | {switch}))


def _read_again(state: State, names: Iterable[str]) -> Outcome:
    """Mark the rules of connected switches as unknown and read them."""
    unsure = [name for name in sorted(names) if state.switches[name].connected]
    forgotten = {name: replace(state.switches[name], installed=None) for name in unsure}
    state = replace(state, switches={**state.switches, **forgotten}, dirty=state.dirty | forgotten.keys())
    return state, tuple(ReadRules(switch=name) for name in unsure)


MAX_FAILURES = 3
"""A switch that fails this many installations in a row gets no more until it connects again."""


def on_install_failed(state: State, event: InstallFailed) -> Outcome | None:
    """Mark the rules of the transaction's switches as unknown and read them; None where the event is stale."""
    active = state.active
    if active is None or active.token != event.token or active.target is None:
        return None
    switches, effects = dict(state.switches), [_failure_note(event)]
    unsure = [switch for switch in active.target if state.switches[switch].connected]
    for switch in unsure:
        failures = state.switches[switch].failures + (switch == event.switch)
        switches[switch] = SwitchState(connected=True, installed=None, failures=failures)
        if failures < MAX_FAILURES:
            effects.append(ReadRules(switch=switch))
        else:
            text = f"{failures} installations in a row failed; left as it is until it connects again"
            effects.append(Note(severity="error", subject=switch, text=text))
    state = replace(state, switches=switches, dirty=state.dirty | frozenset(unsure), active=None)
    state, more = _read_again(state, active.reconnected)
    return state, (*effects, *more)


def unread(state: State) -> tuple[ReadRules, ...]:
    """Read connected switches whose rules are unknown, except those past `MAX_FAILURES`."""
    return tuple(
        ReadRules(switch=name)
        for name, switch in state.switches.items()
        if switch.connected and switch.installed is None and switch.failures < MAX_FAILURES
    )


def _failure_note(event: InstallFailed) -> Effect:
    return Note(severity="error", subject=event.switch, text=f"installation failed: {event.reason}")


def path_switches(links: Iterable[str]) -> frozenset[str]:
    """Return the switches at either end of the given directed links."""
    ends = (end for link in links for end in link.split(">"))
    return frozenset(end.split(":")[0] for end in ends if ":" in end)


def waiting_plans(state: State) -> tuple[PlanWork, ...]:
    """Return the active and the waiting submissions, in order."""
    works = ((state.active.work,) if state.active else ()) + state.queue
    return tuple(work for work in works if work.kind is WorkKind.PLAN)


def changed_topology(state: State) -> Outcome:
    """Increment the topology's generation and notify its watchers."""
    state = replace(state, topology_generation=state.topology_generation + 1)
    return state, (TopologyChanged(generation=state.topology_generation),)
