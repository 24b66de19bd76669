"""Converge: move all flows at once to a plan of all of them, where the jobs gain far more by it than it costs.

While no transaction is active or waits, a planner of its own seeks the goal (`controller/planner/converge.py`). No
transaction waits for it: where jobs, their paths or what is out of use have changed meanwhile, its result is dropped,
and it is sought again. What the jobs gain counts until the next change of the running jobs is expected, what they lose
while hosts follow: the jobs whose flows move are counted as if they stood still. Only jobs move whose senders drain
before a move; the planner keeps the others where they are.
"""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.converging import Convergence, Places
from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.state import Active, ReplanWork, State
from heddle.controller.brain.transactions.replan import applied, limit_of, planner_input
from heddle.controller.model.effect import Effect, Note, Wake
from heddle.controller.model.event import Solved
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import JobFlows, Replan, Speeds
from heddle.controller.model.steering_traits import traits_of

WORTH = 30
"""The jobs gain at least so many times what they lose while hosts follow.

With ten, all moves cost 1.1 % of what they gained in rails, where a goal is often little better.
"""
LEAST_GAIN = 0.002
"""A mean speed of the jobs that rises by less is left as it is."""
BURST_MS = 1_000
"""Changes of the running jobs within this time are one: jobs often leave as the next arrives."""
MAX_RECENT = 4
RECURS_MS = 60_000
"""Jobs at places that have converged lately do so again only after they have run for so long: one may come and go."""


def follow(before: State, state: State, now: int) -> Outcome:
    """Note when the running jobs or what is out of use have changed, and seek the goal when it is due."""
    if limit_of(state, Cause.CONVERGENCE).moves_none:
        return state, ()
    state = _noted(before, state, now)
    known = state.convergence
    is_due = known.due_unix_ms is not None and now >= known.due_unix_ms and known.token is None
    if not is_due or state.active is not None or state.queue:
        return state, ()
    wanted, asked = replace(known, due_unix_ms=None), _asked(state)
    if not _may(state) or _is_same(state, known):
        return replace(state, convergence=wanted), ()
    state, token = take_token(state)
    wanted = replace(wanted, token=token, asked=asked, health=state.out_of_use)
    solve = replace(planner_input(state, ()), token=token, limit=limit_of(state, Cause.CONVERGENCE), converge=True)
    return replace(state, convergence=wanted), (solve,)


def _noted(before: State, state: State, now: int) -> State:
    """Return the state with the time of the last change; a change makes the goal due."""
    known = state.convergence
    if state.jobs is before.jobs and state.health is before.health and state.drained is before.drained:
        return state
    if state.jobs is not before.jobs and state.jobs.keys() != before.jobs.keys():
        gap_ms = now - known.changed_unix_ms
        if gap_ms >= BURST_MS:
            mean_ms = (3 * known.gap_ms + gap_ms) // 4 if known.changed_unix_ms else known.gap_ms
            known = replace(known, changed_unix_ms=now, gap_ms=mean_ms)
        if known.has_converged:
            places = _places(before)
            recent = (*(each for each in known.recent if each != places), places)[-MAX_RECENT:]
            known = replace(known, recent=recent, has_converged=False)
    # After a goal that was dropped, `asked` says for what: one that is due again a little later then is not hurried.
    waits = known.due_unix_ms is not None and bool(known.asked)
    due = known.due_unix_ms if waits else now
    return replace(state, convergence=replace(known, due_unix_ms=due))


def _may(state: State) -> bool:
    """Return whether some job may move, and nothing speaks against it that ends by itself."""
    hampered = traits_of(state.fabric).is_probed or any(port.excess_bps for port in state.hot_ports.values())
    drains = any(job.request.drains_before_moves for job in state.jobs.values())
    return drains and not hampered and not any(job.stranded for job in state.jobs.values())


def _asked(state: State) -> Mapping[str, JobFlows]:
    return {job_id: job.flows for job_id, job in state.jobs.items()}


def _places(state: State) -> Places:
    """Return the NICs of each job: one that comes and goes may have another id each time."""
    return frozenset(frozenset(job.request.ranks) for job in state.jobs.values())


def _is_same(state: State, known: Convergence) -> bool:
    """Return whether the jobs have the paths and rates for which the goal was sought, on the same fabric."""
    same = known.asked.keys() == state.jobs.keys() and known.health == state.out_of_use
    return same and all(known.asked[job_id].flows is job.flows.flows for job_id, job in state.jobs.items())


def sought(state: State, event: Solved, now: int) -> Outcome:
    """Take the goal, or stay, and note why; a goal for what is not any more is dropped."""
    known = state.convergence
    state = replace(state, convergence=replace(known, token=None))
    if state.active is not None or state.queue or not _is_same(state, known) or not _may(state):
        return _due(state, now + event.solve_ns // 1_000_000, now)
    plan = event.outcome
    if not isinstance(plan, Replan) or plan.speeds is None:
        why = plan.why if not isinstance(plan, (Replan, Exception)) else plan
        return _stays(state, f"no goal: {why}")
    state = replace(state, certificate=replace(state.certificate, below_goal=plan.speeds.gain))
    gain, found = plan.speeds.gain, _figures(plan.speeds)
    if gain < LEAST_GAIN:
        return _stays(state, f"at the goal: {found}")
    needed_ms = _needed_ms(state, plan, plan.speeds)
    if _places(state) in known.recent and now < known.changed_unix_ms + RECURS_MS:
        needed_ms, why = RECURS_MS, f"stays: jobs at these NICs have converged lately, so one comes and goes; {found}"
    else:
        why = f"stays: another change is expected before {needed_ms / 1000:.1f} s have passed, which it needs; {found}"
    if max(known.gap_ms, now - known.changed_unix_ms) < needed_ms or needed_ms == RECURS_MS:
        state = replace(state, convergence=replace(state.convergence, asked={}))
        state, effects = _due(state, known.changed_unix_ms + needed_ms, now)
        state, more = _stays(state, why)
        return state, (*effects, *more)
    return _converges(state, event, plan, now)


def _converges(state: State, event: Solved, plan: Replan, now: int) -> Outcome:
    assert plan.speeds is not None
    found = _figures(plan.speeds)
    moved = sum(each.flows for each in plan.moved.values())
    text = f"converges: {moved:,} flows of {len(plan.moved)} jobs move; {found}"
    work = ReplanWork(cause=Cause.CONVERGENCE, reason=f"converges: {found}")
    state = replace(state, active=Active(token=event.token, work=work, health=state.out_of_use))
    state, effects = applied(state, plan, work.reason, now, Cause.CONVERGENCE)
    # From there it is sought again: a longer search begins with these paths.
    known = replace(state.convergence, asked={}, has_converged=True, verdict=text, count=state.convergence.count + 1)
    return replace(state, convergence=known), (*effects, Note(severity="info", subject="convergence", text=text))


def _needed_ms(state: State, plan: Replan, speeds: Speeds) -> int:
    """Return how long the goal has to last so that it is worth its cost, in milliseconds."""
    steps = 2 if plan.slowed else 1  # first lower rates, then other paths
    lost_ms = state.settings.follow_ms * steps * sum(speeds.before[job_id] for job_id in plan.moved)
    return int(WORTH * lost_ms / (speeds.gain * len(speeds.goal)))


def _figures(speeds: Speeds) -> str:
    before, goal = (sum(each.values()) / len(each) for each in (speeds.before, speeds.goal))
    return f"mean job speed {before:.3f}, in the goal {goal:.3f}"


def _due(state: State, due_unix_ms: int, now: int) -> Outcome:
    known = replace(state.convergence, due_unix_ms=max(due_unix_ms, now))
    return replace(state, convergence=known), (Wake(after_ms=max(due_unix_ms - now, 0)),)


def _stays(state: State, verdict: str) -> Outcome:
    """Record why the paths stay; note it where it is another reason than the last time."""
    known = state.convergence
    effects: tuple[Effect, ...] = ()
    if known.verdict.partition(":")[0] != verdict.partition(":")[0]:
        effects = (Note(severity="info", subject="convergence", text=verdict),)
    return replace(state, convergence=replace(known, verdict=verdict)), effects
