"""Send each switch the difference between its installed and its wanted rules, one installation at a time.

Where the underlay of many switches changes, several installations bring it first, from the top tier down, so that no
decision takes long; pins stay as they are meanwhile. The last one brings everything else, and ends a transaction.

An `Installed` or `InstallFailed` event carries the token of its installation; any other token is stale.

No switch delays what does not need it. Where an installation waits for switches that lag, and something else waits for
the installation, it is given up: the switches that lag get nothing more until they have caught up. A switch that has
refused rules is in no transaction's installation but those that need it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from heddle.controller.brain.lifecycle import WorkKind
from heddle.controller.brain.state import Installing, State, SwitchState, wanted
from heddle.controller.model.effect import Effect, GiveUp, Install, Note, ReadRules, TopologyChanged
from heddle.controller.model.event import Installed, InstallFailed, InstallLags, SwitchCaughtUp
from heddle.controller.model.rule import Change, ChangeOp, Cookie, FlowRule, RuleKey, Step, SwitchRules
from heddle.controller.rules.diff import diff
from heddle.controller.rules.order import order
from heddle.controller.rules.pins import is_pin

Outcome = tuple[State, tuple[Effect, ...]]
"""The next state, and the effects to perform in this order."""


def take_token(state: State) -> tuple[State, int]:
    """Return the state after taking a token, and the token: a number that no effect has carried yet."""
    return replace(state, next_token=state.next_token + 1), state.next_token


def differences(state: State, switches: Iterable[str], now: int) -> dict[str, tuple[Change, ...]]:
    """Return, by switch, the changes from its installed to its wanted rules; only of those whose rules are known."""
    found, spared = {}, _spared(state)
    for switch in sorted(switches):
        known = state.switches[switch]
        if known.connected and known.installed is not None:
            changes = diff(known.installed, wanted(state, switch))
            older = state.older_pins.get(switch, frozenset()) if within_grace(state, now) else frozenset()
            if switch in spared:
                older |= {rule.key for rule in known.installed.rules if is_pin(rule)}
            if older:
                changes = tuple(change for change in changes if not _unpins(older, change))
            if changes:
                found[switch] = changes
    return found


def _spared(state: State) -> frozenset[str]:
    """Return the switches whose pins stay: a submission that they had delayed is to be planned again, and needs them.

    Otherwise a slow switch would delete, and then add again, what it has spent its time on.
    """
    active = state.active
    again = [*state.parked, *state.queue]
    again += [active.work] if active is not None and active.before is None else []
    return frozenset().union(*(work.waits_for for work in again if work.kind is WorkKind.PLAN))


def _sendable(state: State, needed: frozenset[str] | None = None) -> frozenset[str]:
    """Return the dirty switches to which an installation sends; `needed` is what its transaction needs, None for none.

    What has refused rules gets installations of its own, after all others, so that it fails no one else's.
    """
    dirty = {name for name in state.dirty if state.switches[name].is_known}
    dirty -= {name for name in dirty if state.switches[name].failures >= MAX_FAILURES}
    well = frozenset(name for name in dirty if not state.switches[name].refusal)
    if needed is not None:
        return well | (needed & dirty)
    return well or frozenset(dirty)


def within_grace(state: State, now: int) -> bool:
    """Return whether pins from before the start stay: callers may submit their jobs again."""
    return state.started_unix_ms is not None and now < state.started_unix_ms + state.settings.pin_grace_ms


def _unpins(older: frozenset[RuleKey], change: Change) -> bool:
    """Return whether a change deletes a pin that this process has not installed."""
    return change.op is ChangeOp.RULE_DELETE and isinstance(change.item, FlowRule) and change.item.key in older


def with_older_pins(state: State, switch: str, installed: SwitchRules) -> State:
    """Record the pins of a switch at its first session: all of them are from before the start.

    Their job numbers cannot show it: an earlier process may have given those that this one gives now.
    """
    if state.started_unix_ms is None or switch in state.older_pins:
        return state
    pins = frozenset(rule.key for rule in installed.rules if is_pin(rule) and Cookie.unpack(rule.cookie))
    return replace(state, older_pins={**state.older_pins, switch: pins})


def _added(changes: Iterable[Change]) -> frozenset[RuleKey]:
    items = (change.item for change in changes if change.op is ChangeOp.RULE_ADD)
    return frozenset(item.key for item in items if isinstance(item, FlowRule))


def _without_replaced_pins(state: State, changes: Mapping[str, Iterable[Change]]) -> State:
    """Return the state after changes that replace older pins: these are this process's own from now on."""
    older = {
        switch: state.older_pins[switch] - _added(of_switch)
        for switch, of_switch in changes.items()
        if state.older_pins.get(switch)
    }
    return replace(state, older_pins={**state.older_pins, **older}) if older else state


MAX_CHANGES = 500
"""An installation adds no further switch's underlay after so many changes; one switch is never divided."""
MAX_SWITCHES = 32


def start_install(state: State, now: int) -> Outcome:
    """Send differences, where no installation is under way; the rules that a failure needs come first.

    A transaction that waits for acknowledgements also needs a barrier reply of every switch in its `barriers`; a drain
    also needs the underlay that it changes.
    """
    active, stale = state.active, state.compiled_for != state.out_of_use
    waits = active is not None and active.before is not None and not (stale and active.work.kind is WorkKind.DRAIN)
    failing = state.compiling is not None and stale
    if state.installing is not None or failing or not (state.dirty or waits):
        return state, ()
    needed = active.needed if active is not None and waits else None
    sendable = _sendable(state, needed)
    if part := _part_of_underlay(state, sendable):
        steps = order({name: changes for name, (changes, _) in part.items()}, state.fabric)
        return _begun(state, steps, {name: rules for name, (_, rules) in part.items()})
    changes = differences(state, sendable, now)
    settled = sendable - _spared(state)
    barriers = active.barriers if active is not None and waits else frozenset[str]()
    if not changes and not waits:
        rest = _settled(state, settled, ())
        return (rest, ()) if rest.dirty == state.dirty else start_install(rest, now)
    steps = order(changes, state.fabric)
    silent: dict[str, tuple[Change, ...]] = dict.fromkeys(sorted(barriers - changes.keys()), ())
    if silent:
        steps = (*steps[:-1], Step({**steps[-1].changes, **silent})) if steps else (Step(silent),)
    target = {switch: _target(state, switch) for switch in changes}
    of = active.token if active is not None and waits else None
    state = _settled(_without_replaced_pins(state, changes), settled, changes.keys())
    return _begun(state, steps, target, of)


def _begun(state: State, steps: tuple[Step, ...], target: Mapping[str, SwitchRules], of: int | None = None) -> Outcome:
    state, token = take_token(state)
    wait_ms, active = 0, state.active
    if active is not None and active.wait_ms:
        wait_ms, state = active.wait_ms, replace(state, active=replace(active, wait_ms=0))
    installing = Installing(token=token, target=target, of=of)
    return replace(state, installing=installing), (Install(token=token, steps=steps, after_ms=wait_ms),)


def _target(state: State, switch: str) -> SwitchRules:
    """Return the rules that a switch holds after an installation: the wanted ones, and pins that are spared."""
    rules, before = wanted(state, switch), state.switches[switch].installed
    if before is None or switch not in _spared(state):
        return rules
    return replace(rules, rules=rules.rules + _kept_pins(frozenset(rule.key for rule in before.rules), before, rules))


def _part_of_underlay(state: State, sendable: frozenset[str]) -> dict[str, tuple[tuple[Change, ...], SwitchRules]]:
    """Return changes of the underlay and the rules after them, by switch; empty where one installation can have all.

    Switches of higher tiers come first, as in `order`.
    """
    tier_of = {switch.id: switch.role.tier for switch in state.fabric.switches}
    found: dict[str, tuple[tuple[Change, ...], SwitchRules]] = {}
    count = 0
    for name in sorted(sendable, key=lambda name: (-tier_of[name], name)):
        installed, underlay = state.switches[name].installed, state.underlay[name]
        if installed is None or _holds(installed, underlay):
            continue
        if count >= MAX_CHANGES or len(found) == MAX_SWITCHES:
            return found
        pins = tuple(filter(is_pin, installed.rules))
        rules = replace(underlay, rules=underlay.rules + pins)
        if changes := diff(installed, rules):
            found[name] = changes, rules
            count += len(changes)
    return {}


def _holds(installed: SwitchRules, underlay: SwitchRules) -> bool:
    """Return whether a switch's rules begin with its underlay: after an installation they do."""
    return installed.groups == underlay.groups and installed.rules[: len(underlay.rules)] == underlay.rules


def _settled(state: State, candidates: frozenset[str], differing: Iterable[str]) -> State:
    """Return the state without those of the dirty switches that hold the wanted rules."""
    return replace(state, dirty=state.dirty - (candidates - frozenset(differing)))


def on_installed(state: State, event: Installed, now: int) -> Outcome | None:
    """Record that the switches of an installation hold its rules; None where the event is stale."""
    done = state.installing
    if done is None or done.token != event.token:
        return None
    before, switches, doubted = state.switches, dict(state.switches), dict[str, SwitchState]()
    for switch, rules in done.target.items():
        if switches[switch].connected:
            older = state.older_pins.get(switch) if within_grace(state, now) else None
            kept = _kept_pins(older, switches[switch].installed, rules) if older else ()
            installed = replace(rules, rules=rules.rules + kept) if kept else rules
            lost = switches[switch].lost
            switches[switch] = SwitchState(connected=True, installed=installed, changed=done.token, lost=lost)
            if lost >= MAX_LOST:
                doubted[switch] = replace(switches[switch], refusal=before[switch].refusal)
    # The wanted rules may have changed during the installation: such switches stay dirty for the next one.
    reached = {switch for switch, rules in done.target.items() if rules == wanted(state, switch)}
    state = replace(state, switches={**switches, **doubted}, dirty=state.dirty - reached, installing=None)
    return _read_again(state, done.reconnected | doubted.keys())


def _kept_pins(older: frozenset[RuleKey], before: SwitchRules | None, rules: SwitchRules) -> tuple[FlowRule, ...]:
    """Return the pins that a switch has kept from before the controller's start."""
    if before is None or not older:
        return ()
    held = [rule for rule in before.rules if is_pin(rule) and rule.key in older]
    keys = {rule.key for rule in rules.rules} if held else set()
    return tuple(rule for rule in held if rule.key not in keys)


def out_of_installation(state: State, switch: str) -> State:
    """Remove a switch whose session ended or was replaced from the installation under way."""
    now = state.installing
    if now is None or switch not in now.target:
        return state
    target = {name: rules for name, rules in now.target.items() if name != switch}
    return replace(state, installing=replace(now, target=target, reconnected=now.reconnected | {switch}))


def _read_again(state: State, names: Iterable[str]) -> Outcome:
    """Mark the rules of connected switches as unknown and read them."""
    unsure = [name for name in sorted(names) if state.switches[name].connected and not state.switches[name].lagging]
    forgotten = {name: replace(state.switches[name], installed=None) for name in unsure}
    state = replace(state, switches={**state.switches, **forgotten}, dirty=state.dirty | forgotten.keys())
    return state, tuple(ReadRules(switch=name) for name in unsure)


MAX_FAILURES = 3
"""A switch that fails this many installations in a row gets no more until it connects again, or lacks nothing."""


MAX_LOST = 3
"""After so many audits in a row that miss acknowledged rules, a switch counts by what it is read to hold alone."""


def on_install_failed(state: State, event: InstallFailed) -> Outcome | None:
    """Mark the rules of the installation's switches as unknown and read them; None where the event is stale.

    Those that lag are read when they have caught up.
    """
    failed = state.installing
    if failed is None or failed.token != event.token:
        return None
    switches, effects = dict(state.switches), [_failure_note(event)]
    lagging = {switch for switch in event.lagging if switches[switch].connected} - failed.reconnected
    unsure = {switch for switch in failed.target if switches[switch].connected} | lagging
    for switch in sorted(unsure):
        known = replace(switches[switch], installed=None, changed=0, lagging=switch in lagging)
        if switch == event.switch and switch not in lagging:
            known = replace(known, failures=known.failures + 1, refusal=event.reason)
            if known.failures == MAX_FAILURES:
                text = f"{known.failures} installations in a row failed; left as it is until it connects again"
                effects.append(Note(severity="error", subject=switch, text=text))
        switches[switch] = known
        if not known.lagging:
            effects.append(ReadRules(switch=switch))
    state = replace(state, switches=switches, dirty=state.dirty | unsure, installing=None)
    state, more = _read_again(state, failed.reconnected)
    return state, (*effects, *more)


def on_lags(state: State, event: InstallLags, now: int) -> Outcome:
    """Record which switches an installation waits for."""
    under_way = state.installing
    if under_way is None or under_way.token != event.token:
        return state, ()
    return replace(state, installing=replace(under_way, lagging=event.switches)), ()


def caught_up(state: State, event: SwitchCaughtUp, now: int) -> Outcome:
    """Read the rules of a switch that lagged."""
    known = state.switches.get(event.switch)
    if known is None or not known.lagging:
        return state, ()
    state = replace(state, switches={**state.switches, event.switch: replace(known, lagging=False)})
    return _read_again(state, (event.switch,))


def give_up(state: State) -> Outcome:
    """End an installation that waits for switches that lag, where something else waits for it to end."""
    now = state.installing
    if now is None or not now.lagging or now.given_up or not _something_waits(state, now):
        return state, ()
    return replace(state, installing=replace(now, given_up=True)), (GiveUp(token=now.token),)


def _something_waits(state: State, now: Installing) -> bool:
    active = state.active
    if state.queue or (active is not None and active.before is not None and active.token != now.of):
        return True
    if active is not None and active.own and active.own.isdisjoint(now.lagging):
        return True  # its jobs do without what lags: their plan needs it only to move flows
    others = _sendable(state) - now.lagging
    return any(name not in now.target or now.target[name] != wanted(state, name) for name in others)


def unread(state: State) -> tuple[ReadRules, ...]:
    """Read connected switches whose rules are unknown, except those that lag."""
    return tuple(
        ReadRules(switch=name)
        for name, switch in state.switches.items()
        if switch.connected and switch.installed is None and not switch.lagging
    )


def _failure_note(event: InstallFailed) -> Effect:
    if event.switch in event.lagging:
        return Note(severity="warning", subject=event.switch, text=f"{event.reason}; other work goes on without it")
    return Note(severity="error", subject=event.switch, text=f"installation failed: {event.reason}")


def path_switches(links: Iterable[str]) -> frozenset[str]:
    """Return the switches at either end of the given directed links."""
    ends = (end for link in links for end in link.split(">"))
    return frozenset(end.split(":")[0] for end in ends if ":" in end)


def changed_topology(state: State) -> Outcome:
    """Increment the topology's generation and notify its watchers."""
    state = replace(state, topology_generation=state.topology_generation + 1)
    return state, (TopologyChanged(generation=state.topology_generation),)
