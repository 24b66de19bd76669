"""Find the switches that lack rules: no new job uses one, and jobs that cross one are degraded.

A switch is lacking once it has refused rules MAX_FAILURES times in a row, or MAX_LOST audits in a row have missed rules
that it had acknowledged, and it does not hold all that are wanted, until it does. One without a session, or whose rules
are being read, stays what it was: it forwards by what it had. One that loses rules gets them once an audit: something
else may have removed them.
"""

from dataclasses import replace

from heddle.controller.brain.install import MAX_FAILURES, MAX_LOST, Outcome, changed_topology
from heddle.controller.brain.lifecycle import JobEvent, after, allows
from heddle.controller.brain.state import Job, State, SwitchState, wanted
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Announce, Effect, Note
from heddle.controller.model.plan import JobFlows
from heddle.controller.model.rule import ChangeOp, SwitchRules
from heddle.controller.rules.diff import diff

_DELETES = (ChangeOp.RULE_DELETE, ChangeOp.GROUP_DELETE)


def missing(state: State, switch: str) -> int:
    """Return how many wanted rules and groups a switch does not hold; 0 while its rules are unknown."""
    installed = state.switches[switch].installed
    if installed is None:
        return 0
    return sum(change.op not in _DELETES for change in diff(installed, wanted(state, switch)))


def holds_underlay(state: State, switch: str) -> bool:
    """Return whether a switch holds all rules and groups of its underlay; False while its rules are unknown."""
    installed = state.switches[switch].installed
    return installed is not None and all(change.op in _DELETES for change in diff(installed, state.underlay[switch]))


def absent(installed: SwitchRules, wanted_rules: SwitchRules) -> int:
    """Return how many of the wanted rules and groups are not there at all; one that differs is there."""
    rules = {rule.key for rule in wanted_rules.rules} - {rule.key for rule in installed.rules}
    groups = {group.group_id for group in wanted_rules.groups} - {group.group_id for group in installed.groups}
    return len(rules) + len(groups)


def judged_by_reading(known: SwitchState, wanted_rules: SwitchRules, *, audited: bool) -> SwitchState:
    """Return a switch after its rules were read, in an audit or after an installation.

    One that has lost rules too often, and lacks some, gets one installation an audit.
    """
    if known.lost < MAX_LOST or known.installed is None:
        return known
    count = absent(known.installed, wanted_rules)
    if not count:
        return replace(known, lost=0)
    why = f"it acknowledged them, and {MAX_LOST} readings in a row did not show {count} of them"
    return replace(known, failures=0 if audited else MAX_FAILURES, refusal=why)


def is_unready(state: State, switch: str) -> bool:
    """Return whether a connected switch can get no rules yet: it lags, or its rules are being read."""
    known = state.switches[switch]
    return known.connected and known.installed is None


def refused_by(state: State, switch: str) -> str:
    """Return which rule a switch lacks and why; "" where it lacks none."""
    known = state.switches[switch]
    return known.refusal if known.failures >= MAX_FAILURES or switch in state.lacking else ""


def lacking_on(state: State, flows: JobFlows) -> frozenset[str]:
    """Return the switches on the paths of a job that lack rules."""
    if not state.lacking:
        return state.lacking
    return steering_of(state.fabric).awaited((*flows.link_loads_bps, *flows.reverse_links)) & state.lacking


def with_lacking(before: State, state: State) -> Outcome:
    """Return the state with those switches that lack rules now, and the jobs that cross them degraded."""
    wanted_changes = bool(state.lacking) and (state.jobs is not before.jobs or state.underlay is not before.underlay)
    if state.switches is before.switches and not wanted_changes:
        return state, ()
    suspects = [name for name, known in state.switches.items() if known.refusal]
    now = frozenset(name for name in suspects if _lacks(state, name))
    whole = [name for name in suspects if _holds_all(state, name)]
    if whole:
        well = {name: _without_refusal(state.switches[name]) for name in whole}
        state = replace(state, switches={**state.switches, **well})
    if now == state.lacking:
        return state, ()
    was, state = state.lacking, replace(state, lacking=now)
    state, announces = _judged_again(state, was)
    state, changed = changed_topology(state)
    return state, (*(_note(state, name) for name in sorted(was ^ now)), *announces, *changed)


def _lacks(state: State, switch: str) -> bool:
    known = state.switches[switch]
    if not known.is_known:
        return switch in state.lacking
    suspect = switch in state.lacking or known.failures >= MAX_FAILURES or known.lost >= MAX_LOST
    return suspect and missing(state, switch) > 0


def _holds_all(state: State, switch: str) -> bool:
    """Return whether a switch holds what is wanted and nothing else: one that refuses deletions stays a suspect."""
    installed = state.switches[switch].installed
    return installed is not None and not diff(installed, wanted(state, switch))


def _without_refusal(known: SwitchState) -> SwitchState:
    return replace(known, failures=0, refusal="", lost=0)


def _note(state: State, switch: str) -> Note:
    if switch not in state.lacking:
        return Note(severity="info", subject=switch, text="holds its rules again; jobs may use it")
    count, why = missing(state, switch), state.switches[switch].refusal
    return Note(severity="error", subject=switch, text=f"lacks {count} rules, so no new job uses it: {why}")


def _judged_again(state: State, was: frozenset[str]) -> Outcome:
    """Degrade the running jobs that cross switches which lack rules now, and restore those that no longer do.

    A job that a transaction has changed is published as it was before: its new paths are not acknowledged yet.
    """
    former = replace(state, lacking=was)
    jobs, active, effects = dict(state.jobs), state.active, list[Effect]()
    before = dict(active.before or {}) if active is not None else {}
    for job_id, job in state.jobs.items():
        if not allows(job.state, JobEvent.HARMED):
            continue
        shown = before.get(job_id, job)
        if all(lacking_on(state, each.flows) == lacking_on(former, each.flows) for each in (shown, job)):
            continue
        judged = _judged(state, shown, job.generation + 1)
        effects.append(Announce(plan=judged.as_plan(state.certificate)))
        if shown is job:
            jobs[job_id] = judged
        else:
            before[job_id], jobs[job_id] = judged, _judged(state, job, job.generation + 2)
    if active is not None and active.before is not None:
        announces = tuple(dict.fromkeys((*active.announces, *before)))
        active = replace(active, before=before, announces=announces)
    return replace(state, jobs=jobs, active=active), tuple(effects)


def _judged(state: State, job: Job, generation: int) -> Job:
    lacking = sorted(lacking_on(state, job.flows))
    harmed = bool(lacking) or bool(job.stranded) or job.healthy_utilisation is not None
    reason = f"switch {lacking[0]} lacks rules that it should hold" if lacking else "all its switches hold their rules"
    follows = after(job.state, JobEvent.HARMED if harmed else JobEvent.RECOVERED)
    return replace(job, state=follows, reason=reason, generation=generation)
