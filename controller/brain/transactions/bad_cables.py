"""Plan with what bad cables have left, and do without one where the running jobs lose nothing by that.

A cable that loses frames, or is slow, is lowered at once to the rate that it has left (`model.goodput`): flows that do
not fit there any more get other paths where there are better ones. Then a plan without the cable is asked for, and
the cable is drained only if that plan is no worse for the running jobs. CorrOpt (SIGCOMM 2017) disables a link where
every switch keeps a share of its paths; a plan says what a path is worth. In a full fabric two flows would share a
link, at half their rates, for a cable that costs a hundredth: it is kept.

A cable over which NICs deny paths carries nothing: plans do without it at once, as after a carrier that went down.

When other jobs run, it is decided again, a cable at a time. A port that flaps is not judged here (`brain.switches`).
"""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.install import Outcome, changed_topology
from heddle.controller.brain.state import BadCable, DrainWork, ReplanWork, State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions.replan import RISES, enqueue_replan
from heddle.controller.model.connectivity import cut_off
from heddle.controller.model.effect import Effect, Note
from heddle.controller.model.event import CablesJudged, JudgedCable
from heddle.controller.model.goodput import left_bps
from heddle.controller.model.health import Health
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import Certificate

MAX_BAD_CABLES = 256
"""More would rather be a fault of what is measured; the others are planned as if they were sound."""
SAME = 0.1
"""A rate that differs by less than this part from the one before changes no plan."""
JUDGE_PAUSE_MS = 10_000
"""The least time between two decisions whether plans do without a cable."""
MAX_NAMED = 4


def judged(state: State, event: CablesJudged, now: int) -> Outcome:
    """Record which cables are bad; where a rate has changed, plan again with what they have left."""
    before, after = state.bad_cables, _bad_cables(state, event)
    worse = [name for name, bad in after.items() if name not in before or bad.left_bps < before[name].left_bps]
    better = [name for name, bad in before.items() if name not in after or bad.left_bps < after[name].left_bps]
    state = replace(state, bad_cables=after)
    if not worse and not better:
        return state, ()
    notes: list[Effect] = [Note(severity="warning", subject=name, text=describe(after[name])) for name in worse]
    notes += [Note(severity="info", subject=name, text=_better(before[name], after.get(name))) for name in better]
    changed_ones = [bad for name in (*worse, *better) for bad in (before.get(name), after.get(name)) if bad is not None]
    if any(state.settings.acts_on(bad.found) for bad in changed_ones):
        what = [f"{name} is bad" for name in worse] + [f"{name} is better" for name in better]
        more = f" (+{len(what) - MAX_NAMED} more)" if len(what) > MAX_NAMED else ""
        reason = f"cable {', '.join(what[:MAX_NAMED])}{more}"
        cause = Cause.FAILURE if worse else Cause.RECOVERY
        state = enqueue_replan(state, ReplanWork(cause=cause, reason=reason))
    state, effects = steering_of(state.fabric).after_change(state, now)
    state, changed = changed_topology(state)
    return state, (*notes, *effects, *changed)


def _bad_cables(state: State, event: CablesJudged) -> Mapping[str, BadCable]:
    """Return the bad cables of the fabric; one whose rate is about the same keeps what was decided."""
    bad, denied = dict[str, BadCable](), _denied(state, event)
    for found in event.cables[:MAX_BAD_CABLES]:
        cable = state.fabric.cable_by_link.get(found.cable)
        if cable is None:
            continue
        known = state.bad_cables.get(cable.id)
        left = left_bps(cable.capacity_bps, found.loss, found.rate_share)
        if known is not None and abs(left - known.left_bps) <= SAME * known.left_bps:
            bad[cable.id] = replace(known, found=found, left_out=known.left_out or cable.id in denied)
        else:
            left_out = cable.id in denied or (known is not None and known.left_out)
            bad[cable.id] = BadCable(found=found, left_bps=left, left_out=left_out)
    return bad


def _denied(state: State, event: CablesJudged) -> frozenset[str]:
    """Return the cables that NICs deny and plans do without at once: all but those without which NICs are cut off."""
    links, found = state.fabric.cable_by_link, frozenset[str]()
    for each in event.cables[:MAX_BAD_CABLES]:
        if each.denied_by and each.cable in links:
            more = found | {links[each.cable].id}
            found = found if _cut_off(state, more) - _cut_off(state) else more
    return found


def _cut_off(state: State, without: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the NICs that are cut off without some cables."""
    health = state.out_of_use.union(Health(down_cables=without))
    return frozenset(each.nic for each in cut_off(state.fabric, health))


def describe(bad: BadCable) -> str:
    """Say what is wrong with a cable, what it has left, and what repairs it."""
    found = bad.found
    if found.denied_by:
        return f"NICs of {' and '.join(found.denied_by[:MAX_NAMED])} deny their paths over it; {repair(found)}"
    of = f"probes over {' and '.join(found.probed)}" if found.probed else "frames"
    faults = [f"loses {found.loss:.1g} of its {of}"] if found.loss else []
    faults += [f"has {found.rate_share:.0%} of its rate"] if found.rate_share < 1 else []
    return f"{' and '.join(faults)}: {bad.left_bps / 1e9:.4g} Gbit/s are left; {repair(found)}"


def explained(bad: BadCable) -> str:
    """Say what is wrong with a cable, what repairs it, and what was decided."""
    return f"{describe(bad)}{f'; {bad.verdict}' if bad.verdict else ''}"


def repair(found: JudgedCable) -> str:
    """Say what to do about a bad cable: a receiver counts what arrives damaged, so both ends come into question."""
    ends = found.cable.split(">")
    optics = f"clean or replace the optics of {ends[0]} and {ends[-1]}, or the cable"
    return f"check that its plugs are in these ports, or {optics}" if found.loss == 1 else optics


def _better(was: BadCable, bad: BadCable | None) -> str:
    if bad is not None:
        return f"is better: {describe(bad)}"
    if was.found.denied_by:
        return "is used again: no NIC has denied a path over it for a while"
    return f"repaired: its {'probes' if was.found.probed else 'counters'} are sound, it has its rate again"


def tick(state: State, now: int) -> Outcome:
    """Ask for a plan without a bad cable, or with one that is left out, where other jobs run than for the last one."""
    idle = state.active is None and not state.queue
    if not state.bad_cables or not state.jobs or not idle:
        return state, ()
    jobs, away = frozenset(state.jobs), state.health.down_cables | state.drained
    for name, bad in state.bad_cables.items():
        if bad.left_out and bad.found.denied_by:
            continue
        too_soon = bad.judged == jobs or now < bad.judged_unix_ms + JUDGE_PAUSE_MS
        if too_soon or name in away or not state.settings.acts_on(bad.found):
            continue
        work = DrainWork(reply=None, target=name, undrain=bad.left_out, by_rule=True)
        bad = replace(bad, judged=jobs, judged_unix_ms=now)
        return replace(state, bad_cables={**state.bad_cables, name: bad}, queue=(work,)), ()
    return state, ()


def gains(work: DrainWork, was: Certificate, plan: Certificate) -> bool:
    """Return whether a plan is worth draining a bad cable (no job loses), or returning one (some win)."""
    no_fuller = plan.max_link_utilisation <= was.max_link_utilisation * RISES
    if work.undrain:
        lower = plan.max_link_utilisation * RISES < was.max_link_utilisation
        return lower or (no_fuller and plan.flows_slowed < was.flows_slowed)
    return no_fuller and plan.flows_slowed <= was.flows_slowed and plan.mean_share * RISES >= was.mean_share


def decided(state: State, work: DrainWork, was: Certificate, plan: Certificate | None) -> Outcome:
    """Record what was decided about a bad cable by a plan, None where there is none without it; note what is new."""
    bad = state.bad_cables.get(work.target)
    if bad is None:
        return state, ()
    verdict = _verdict(work, bad, was, plan)
    is_known = bad.verdict.partition(":")[0] == verdict.partition(":")[0]
    state = replace(state, bad_cables={**state.bad_cables, work.target: replace(bad, verdict=verdict)})
    if is_known:
        return state, ()
    state, changed = changed_topology(state)
    return state, (Note(severity="warning", subject=work.target, text=f"{verdict}; {repair(bad.found)}"), *changed)


def _verdict(work: DrainWork, bad: BadCable, was: Certificate, plan: Certificate | None) -> str:
    if bad.left_out:
        return "left out of plans: the running jobs lose nothing by it"
    if plan is None:
        return "kept: flows have no path without it"
    change = f"from {was.max_link_utilisation:.2f} to {plan.max_link_utilisation:.2f}"
    if work.undrain:
        return f"used again: the fullest link goes {change}"
    return f"kept at what it has left: without it the fullest link would go {change}"
