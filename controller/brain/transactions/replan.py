"""Plan running jobs again after others left, or links failed or returned; and apply a plan to running jobs.

A job's generation grows, and is published, where its paths, rates or state change. A new certificate alone is not
published: the next GetJob returns it.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.lacking import lacking_on
from heddle.controller.brain.lifecycle import JobEvent, WorkKind, after, allows
from heddle.controller.brain.state import Active, Job, MoveRecord, ReplanWork, State, Work
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Announce, Effect, Note, Solve
from heddle.controller.model.event import InstallFailed, Solved
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import NO_MOVES, Cause, MoveLimit
from heddle.controller.model.plan import Certificate, Confirmed, Effort, JobFlows, JobPlan, Replan

MAX_RECORDS = 256
"""The decisions whose moves `heddle explain` can name."""
RISES = 1 + 1e-9
"""Two utilisations that differ by less than this factor are equal: they are quotients of floats."""
_URGENCY = (
    Cause.FAILURE, Cause.DRAIN, Cause.CONGESTION, Cause.RECOVERY, Cause.ARRIVAL, Cause.RELEASE, Cause.CONVERGENCE,
)  # fmt: skip
MAX_REASONS = 200
"""The length in characters up to which reasons are joined."""


def enqueue_replan(state: State, work: ReplanWork) -> State:
    """Queue a replan; it replaces one that waits. One after a failure or return of links goes first, another last.

    Every plan of a submission also updates the jobs that run, so what is not urgent waits for the submissions.
    """
    work = steering_of(state.fabric).queued(state.fabric, work)
    waiting = next((other for other in state.queue if other.kind is WorkKind.REPLAN), None)
    if waiting is not None:
        first, second = sorted((waiting, work), key=lambda each: _URGENCY.index(each.cause))
        known = second.reason in first.reason or len(first.reason) > MAX_REASONS
        reason = first.reason if known else f"{first.reason}, {second.reason}"
        work = replace(_for_both(first, second), reason=reason)
    rest = tuple(other for other in state.queue if other is not waiting)
    urgent = work.cause in (Cause.FAILURE, Cause.RECOVERY, Cause.CONGESTION)
    return replace(state, queue=(work, *rest) if urgent else (*rest, work))


def _for_both(work: ReplanWork, other: ReplanWork) -> ReplanWork:
    """Return a replan that also does what another was to do; its reason is its own."""
    ports = tuple(dict.fromkeys((*work.ports, *other.ports)))
    relief = work.relief and other.relief
    return replace(
        work, moves=work.moves or other.moves, ports=ports, suspects=work.suspects | other.suspects, relief=relief
    )


def after_replans(state: State, work: Work) -> tuple[Work, ...]:
    """Return the queue with work that has to start again, after a waiting replan; one that waits replaces a replan."""
    first = tuple(other for other in state.queue if other.kind is WorkKind.REPLAN)
    rest = tuple(other for other in state.queue if other.kind is not WorkKind.REPLAN)
    if first and work.kind is WorkKind.REPLAN:
        return (*(_for_both(other, work) for other in first), *rest)
    return (*first, work, *rest)


def limit_of(state: State, cause: Cause, request: JobRequest | None = None) -> MoveLimit:
    """Return the limit of moves for a cause: the job's own, if it has one, otherwise the controller's.

    Settings in recordings of former versions lack causes that came later: nothing moves for these.
    """
    own = dict(request.move_limits) if request is not None else {}
    return own.get(cause) or state.settings.moves.get(cause, NO_MOVES)


def solve_for(
    state: State, work: Work, requests: tuple[JobRequest, ...] = (), *, limit: MoveLimit, subject: str = "",
    health: Health | None = None, urgent: bool = False, has_happened: bool = False,
) -> Outcome:  # fmt: skip
    """Begin a transaction: request a plan of `requests` beside the jobs that hold paths."""
    state, token = take_token(state)
    solve = replace(planner_input(state, requests), token=token, limit=limit, subject=subject, urgent=urgent)
    solve = replace(solve, health=health or solve.health, has_happened=has_happened)
    if work.kind is WorkKind.REPLAN:
        solve = replace(solve, confirm=work.suspects)
    seeking = steering_of(state.fabric).search(solve)
    active = Active(token=token, work=work, health=state.out_of_use, seeking=seeking)
    return replace(state, active=active), (solve,)


def planner_input(state: State, requests: tuple[JobRequest, ...]) -> Solve:
    """Return the planner's input for requests beside the jobs that hold paths."""
    jobs = state.jobs.values()
    numbers = {job.request.job_id: job.number for job in jobs if job.flows.pinned}
    return Solve(
        token=0,
        requests=requests,
        kept=tuple((job.request, job.flows) for job in jobs),
        health=state.out_of_use,
        background={port.link: port.excess_bps for port in state.hot_ports.values() if port.excess_bps},
        degraded=state.degraded,
        numbers=numbers | {request.job_id: state.next_job_number + place for place, request in enumerate(requests)},
    )


def start_replan(state: State, work: ReplanWork) -> Outcome:
    """Request a plan of the jobs that are left; what is not urgent waits for queued submissions."""
    if not state.jobs:
        return replace(state, certificate=Certificate()), ()
    if state.queue and work.cause is Cause.RELEASE:
        return enqueue_replan(state, work), ()
    state, work = _placed_first(state, work)
    subject = state.jobs.get(work.subject)
    cause = Cause.FAILURE if work.relief else work.cause
    limit = limit_of(state, cause, subject.request if subject is not None else None) if work.moves else NO_MOVES
    name = work.subject if subject is not None else ""
    urgent = work.cause is Cause.FAILURE
    return solve_for(state, work, limit=limit, subject=name, urgent=urgent, has_happened=True)


def _placed_first(state: State, work: ReplanWork) -> tuple[State, ReplanWork]:
    """Where submissions wait, divide a failure: paths for what it has severed, and next the moves that relieve links.

    The first takes a fraction of the time: a fabric with submissions in plenty is full, and moves take long to find.
    On a fabric that hashes the search for ports takes longer than both, and is made once.
    """
    busy = any(other.kind is WorkKind.PLAN for other in state.queue)
    if not (busy and work.moves and work.cause is Cause.FAILURE) or work.suspects:
        return state, work
    relief = ReplanWork(cause=Cause.RECOVERY, reason=work.reason, ports=work.ports, relief=True)
    return enqueue_replan(state, relief), replace(work, moves=False, ports=())


def replan_solved(state: State, work: ReplanWork, event: Solved, now: int) -> Outcome:
    """Apply the planner's reply; where it is void, plan again; where planning failed, log why, and plans stay."""
    active = state.active
    assert active is not None
    if active.health != state.out_of_use:
        return enqueue_replan(replace(state, active=None), work), ()
    if not isinstance(event.outcome, Replan):
        why = event.outcome if isinstance(event.outcome, Exception) else event.outcome.why
        note = Note(severity="error", subject="planner", text=f"{work.reason}, but plans stay: {why}")
        return replace(state, active=None), (note,)
    return applied(state, event.outcome, work.reason, now, work.cause)


def applied(
    state: State, plan: Replan, reason: str, now: int, cause: Cause, barriers: frozenset[str] | None = None
) -> Outcome:
    """Apply a plan to the running jobs in it; publish those that changed once switches hold their pins.

    Where pinned flows move, lower rates are published first: rates fall, then rules change, then rates rise. After a
    failure nothing waits for that: rules have diverted its flows already.
    The transaction ends here unless switches have to acknowledge pins, or all switches in `barriers`.
    """
    jobs, before, records = dict(state.jobs), dict[str, Job](), list[MoveRecord]()
    slowed = dict[str, JobPlan]()
    for flows in plan.jobs:
        job = state.jobs.get(flows.job_id)
        if job is None or _is_as_before(job, flows, plan) or not allows(job.state, JobEvent.REPLANNED):
            continue
        changed = _changed(state, job, flows, plan, reason, cause)
        if flows.job_id in plan.slowed and cause is not Cause.FAILURE and changed.generation != job.generation:
            slowed[flows.job_id] = _slowed(job, plan.slowed[flows.job_id], reason).as_plan(state.certificate)
            changed = replace(changed, generation=changed.generation + 1)
        if changed is not job:
            jobs[flows.job_id], before[flows.job_id] = changed, job
        if flows.job_id in plan.moved:
            records.append(_record(changed, plan, now))
    touched = {
        switch
        for job_id in before
        if jobs[job_id].pin_rules is not before[job_id].pin_rules
        for switch in (*before[job_id].pin_rules, *jobs[job_id].pin_rules)
    }
    was = state.certificate
    state = replace(
        state,
        jobs=jobs,
        certificate=plan.certificate,
        dirty=state.dirty | touched,
        moves=(*state.moves, *records)[-MAX_RECORDS:],
    )
    announces = tuple(job_id for job_id, job in before.items() if jobs[job_id].generation != job.generation)
    if not touched and barriers is None:
        return replace(state, active=None), announced(state, announces)
    assert state.active is not None
    waiting = replace(state.active, before=before, announces=announces, barriers=barriers or frozenset())
    waiting = replace(waiting, touched=frozenset(touched))
    active = replace(waiting, certificate=was, slowed=tuple(slowed), wait_ms=state.settings.follow_ms if slowed else 0)
    return replace(state, active=active), tuple(Announce(plan=plan) for plan in slowed.values())


def _slowed(job: Job, flows: JobFlows, reason: str) -> Job:
    """Return a job at the rates that it has while pinned flows move."""
    return replace(job, flows=flows, generation=job.generation + 1, reason=f"{reason}: slower while flows move")


def _is_as_before(job: Job, flows: JobFlows, plan: Replan) -> bool:
    """Return whether a plan leaves a job that runs as it should as it is: most jobs of most plans, at little cost."""
    job_id = job.request.job_id
    well = not job.stranded and job.healthy_utilisation is None and job_id not in plan.stranded
    return well and flows is job.flows and job_id not in plan.confirmed


def _record(job: Job, plan: Replan, now: int) -> MoveRecord:
    return MoveRecord(
        unix_ms=now,
        job_id=job.request.job_id,
        generation=job.generation,
        reason=job.reason,
        moved=plan.moved[job.request.job_id],
    )


def announced(state: State, job_ids: tuple[str, ...]) -> tuple[Effect, ...]:
    """Publish the current generation of these jobs."""
    return tuple(
        Announce(plan=state.jobs[job_id].as_plan(state.certificate)) for job_id in job_ids if job_id in state.jobs
    )


def _changed(state: State, job: Job, flows: JobFlows, plan: Replan, reason: str, cause: Cause) -> Job:
    """Return a running job with its part of a plan; the same object where nothing has changed."""
    job_id = job.request.job_id
    stranded, moved = plan.stranded.get(job_id, ()), plan.moved.get(job_id)
    before = job.flows
    unchanged = flows.flows is before.flows and flows.notes == before.notes
    unchanged = unchanged and flows.own_max_link_utilisation == before.own_max_link_utilisation
    if unchanged and len(stranded) == job.stranded and job.healthy_utilisation is None:
        return replace(job, effort=_effort(state, job, plan)) if job_id in plan.confirmed else job
    seen = plan.confirmed.get(job_id, Confirmed())
    flows = flows if moved is not None or seen.followed else replace(flows, guards=job.flows.guards)
    healthy = _healthy_utilisation(state, job, flows, cause)
    lacking = sorted(lacking_on(state, flows))
    harmed = bool(stranded) or healthy is not None or bool(lacking)
    follows = after(job.state, JobEvent.HARMED if harmed else JobEvent.RECOVERED)
    same = flows.flows is job.flows.flows and follows is job.state and len(stranded) == job.stranded
    lacks = [f"switch {lacking[0]} lacks rules that it should hold"] if lacking else []
    reasons = [reason, *_harm(flows, stranded, healthy), *lacks, *flows.notes]
    if seen.reaimed:
        reasons.insert(1, f"{seen.reaimed} flows have new ports for their paths")
    if seen.followed:
        reasons.insert(1, f"{seen.followed} flows keep their ports where the hash leads them")
    if moved is not None:
        reasons.insert(1, f"{moved.flows} flows moved")
    return replace(
        job,
        state=follows,
        flows=flows,
        stranded=len(stranded),
        healthy_utilisation=healthy,
        generation=job.generation if same else job.generation + 1,
        reason=job.reason if same else "; ".join(reasons),
        effort=job.effort if same and job_id not in plan.confirmed else _effort(state, job, plan),
        pin_rules=plan.pins.get(job_id, job.pin_rules),
        severed=bool(stranded) if job_id in plan.pins else job.severed,
    )


def _effort(state: State, job: Job, plan: Replan) -> Effort:
    """Return what a plan took for a running job."""
    job_id = job.request.job_id
    moved, stranded = plan.moved.get(job_id), plan.stranded.get(job_id, ())
    effort = replace(job.effort, flows_moved=moved.flows if moved is not None else 0)
    steering = steering_of(state.fabric)
    return steering.evidence(effort, len(job.flows.flows), len(stranded), plan.confirmed.get(job_id))


def _healthy_utilisation(state: State, job: Job, flows: JobFlows, cause: Cause) -> float | None:
    """Return the utilisation of the job's fullest link before failures raised it; None where they do not."""
    is_sound = state.health == state.fabric.failed and not state.cabling.verdict.left_out and not state.degraded
    quarantined = state.health.quarantined_nics or any(each.active for each in state.quarantines.values())
    if is_sound and not quarantined:
        return None
    before = job.healthy_utilisation
    if before is None and cause is Cause.FAILURE:
        before = job.flows.own_max_link_utilisation
    return before if before is not None and flows.own_max_link_utilisation > before * RISES else None


def _harm(flows: JobFlows, stranded: tuple[str, ...], healthy: float | None) -> list[str]:
    """Say how failures harm a job."""
    found = []
    if stranded:
        more = f" and {len(stranded) - 1} more" if len(stranded) > 1 else ""
        found.append(f"no path for flow {stranded[0]}{more}")
    if healthy is not None:
        found.append(f"its fullest link rises from {healthy:.2f} to {flows.own_max_link_utilisation:.2f}")
    return found


def rolled_back(state: State, active: Active) -> Outcome:
    """Return jobs to the plans that they had before a transaction whose installation failed.

    What callers have changed of them meanwhile stays. Those whose lower rates have been published get theirs back.
    """
    jobs, dirty = dict(state.jobs), set(state.dirty)
    for job_id, job in (active.before or {}).items():
        held = jobs.get(job_id)
        if held is not None:
            dirty |= {*held.pin_rules, *job.pin_rules} if held.pin_rules is not job.pin_rules else set()
            jobs[job_id] = replace(
                job,
                request=held.request,
                lease_expires_unix_ms=held.lease_expires_unix_ms,
                lease_ms=held.lease_ms,
                generation=held.generation + 1 if job_id in active.slowed else job.generation,
            )
    state = replace(state, jobs=jobs, dirty=frozenset(dirty))
    return state, announced(state, active.slowed)


def replan_installed(state: State, work: ReplanWork, active: Active, install_ns: int) -> Outcome:
    """Publish the jobs that changed, now that switches hold their pins."""
    return state, announced(state, active.announces)


def replan_failed(state: State, work: ReplanWork, active: Active, event: InstallFailed) -> Outcome:
    """Publish the jobs that changed all the same: the rules follow when the switch can be reached.

    Flows that were to return to earlier paths stay where they are: the rates that they had there are not published
    before all switches hold their pins.
    """
    if work.cause is Cause.CONGESTION and not work.moves:
        return rolled_back(replace(state, certificate=active.certificate), active)
    return state, announced(state, active.announces)
