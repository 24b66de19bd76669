"""Handle jobs: plan and install what was submitted, renew, release, and the end of leases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.intent import budget_passed, rule_counts
from heddle.controller.brain.lacking import is_unready, refused_by
from heddle.controller.brain.lifecycle import JobEvent, WorkKind, after, allows
from heddle.controller.brain.state import Active, Job, PlanWork, ReleaseWork, ReplanWork, State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.tenants import owns
from heddle.controller.brain.transactions.observed import share_passed, without, yielding
from heddle.controller.brain.transactions.parking import park, undone
from heddle.controller.brain.transactions.replan import (
    after_replans,
    announced,
    applied,
    enqueue_replan,
    limit_of,
    solve_for,
)
from heddle.controller.brain.transactions.submissions import merged_submissions, separated, waiting_submissions
from heddle.controller.model.admission import quoted
from heddle.controller.model.effect import Announce, Effect, Note, Reply
from heddle.controller.model.error import (
    BudgetExceededError,
    HeddleError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from heddle.controller.model.event import InstallFailed, Release, Renew, Solved
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import NO_MOVES, Cause
from heddle.controller.model.observed import is_observed
from heddle.controller.model.plan import Effort, Infeasible, JobPlan, Replan

MAX_ATTEMPTS = 5
"""The maximum number of times that a request is planned because the fabric changed during planning."""


def start_plan(state: State, work: PlanWork) -> Outcome:
    """Send a request, and those that wait behind it, to the planner, beside the jobs that hold paths."""
    state, work = merged_submissions(state, work)
    first = work.requests[0]
    subject = first.job_id if len(work.requests) == 1 else ""
    limit = NO_MOVES if work.still else limit_of(state, Cause.ARRIVAL, first)
    return solve_for(state, work, work.requests, limit=limit, subject=subject)


def plan_solved(state: State, work: PlanWork, event: Solved, now: int) -> Outcome:
    """Make jobs of the planner's reply and install them; reply at once where there is no plan."""
    active, plan = state.active, event.outcome
    assert active is not None
    wanted = [each.request for each in work.submissions if each.replies]
    if not wanted:  # every caller has left
        return replace(state, active=None), ()
    if active.health != state.out_of_use:
        return plan_again(state, work)
    if not isinstance(plan, Replan):
        return _refuse(state, work, as_error(plan))
    jobs = [planned_job(state, request, plan, event.solve_ns, now) for request in wanted]
    jobs = [replace(job, number=state.next_job_number + place) for place, job in enumerate(jobs)]
    changed = {job.request.job_id: job.pin_rules for job in jobs} | {
        name: pins for name, pins in plan.pins.items() if name in state.jobs
    }
    observed = any(map(is_observed, wanted))
    refused = budget_passed(state, changed)
    if refused is not None and not observed and (leaving := yielding(state, changed)):
        return _made_room(state, work, leaving)
    if refused is None and observed:
        refused = share_passed(state, {job.request.job_id: job.pin_rules for job in jobs if is_observed(job.request)})
    if refused is not None:
        return _refuse(state, work, refused)
    # An existing pin that also carries ACKs is installed already: its switches get no further barrier.
    links = chain.from_iterable((*job.flows.link_loads_bps, *job.flows.reverse_links) for job in jobs)
    needed = steering_of(state.fabric).awaited(links)
    pinned = frozenset[str]().union(*(job.pin_rules for job in jobs))
    unusable = _unusable(state, needed, needed | pinned)
    if unusable is not None:
        return _refuse(state, work, unusable)
    if unready := frozenset(switch for switch in needed | pinned if is_unready(state, switch)):
        return park(state, work, unready), ()
    if not work.still and any(is_unready(state, each) or refused_by(state, each) for each in _moved_on(state, plan)):
        return replace(state, active=None, queue=(replace(work, still=True), *state.queue)), ()
    return _admitted(replace(state, active=replace(active, solve_ns=event.solve_ns)), jobs, plan, needed, now)


def _unusable(state: State, needed: frozenset[str], changed: frozenset[str]) -> HeddleError | None:
    """Return the error for the first switch that a job cannot use; None where it can use all."""
    absent = sorted(switch for switch in needed if not state.switches[switch].connected)
    if absent:
        where = f"switch {absent[0]} is not connected ({len(absent)} in all on this job's paths); retry when it is"
        return UnavailableError(where + _way_around(state, absent[0]))
    for switch in sorted(needed):
        if why := refused_by(state, switch):
            text = f"switch {switch} lacks rules that it should hold, so no job uses it: {why}"
            return UnavailableError(text + _way_around(state, switch))
    return None


def _way_around(state: State, switch: str) -> str:
    """Return how jobs get other paths; "" of a leaf, whose NICs have none."""
    return f"; `heddle drain {switch}` plans around it" if state.fabric.switch_by_id[switch].role.tier else ""


def _moved_on(state: State, plan: Replan) -> frozenset[str]:
    """Return the switches whose pins of running jobs a plan changes."""
    moved = ((pins, state.jobs[name].pin_rules) for name, pins in plan.pins.items() if name in state.jobs)
    return frozenset(chain.from_iterable((*pins, *before) for pins, before in moved))


def _admitted(state: State, jobs: Sequence[Job], plan: Replan, needed: frozenset[str], now: int) -> Outcome:
    """Add planned jobs, and install them with what changes for the jobs that run."""
    names = [job.request.job_id for job in jobs]
    arrived = f"job {names[0]} arrived" if len(names) == 1 else f"{len(names)} jobs arrived, {names[0]} first"
    state, effects = applied(state, plan, arrived, now, Cause.ARRIVAL, barriers=needed)
    pinned = frozenset[str]().union(*(job.pin_rules for job in jobs))
    assert state.active is not None
    state = replace(
        state,
        active=replace(state.active, touched=state.active.touched | pinned, own=needed | pinned),
        jobs={**state.jobs, **dict(zip(names, jobs, strict=True))},
        next_job_number=state.next_job_number + len(jobs),
        dirty=state.dirty | pinned,
    )
    return state, effects


def _made_room(state: State, work: PlanWork, leaving: tuple[Job, ...]) -> Outcome:
    """End jobs of reported flows whose rules a submitted job needs, and plan it again beside those that are left."""
    reason = f"made room for job {work.requests[0].job_id}"
    state = replace(without(state, leaving), active=None, queue=(work, *state.queue))
    return state, tuple(_ended(state, job, JobEvent.RELEASED, reason) for job in leaving)


def _refuse(state: State, work: PlanWork, why: HeddleError) -> Outcome:
    """Refuse a request; several that were planned together are planned again one by one."""
    state = replace(state, active=None)
    if len(work.submissions) > 1:
        return replace(state, queue=(*separated(work), *state.queue)), ()
    return state, tuple(Reply(reply=reply, outcome=why) for reply in work.submissions[0].replies)


def plan_again(state: State, work: PlanWork) -> Outcome:
    """Discard a plan whose links have changed since, and plan again, up to MAX_ATTEMPTS; running jobs go first."""
    if work.attempts < MAX_ATTEMPTS:
        again = replace(work, attempts=work.attempts + 1)
        return replace(state, active=None, queue=after_replans(state, again)), ()
    text = f"links changed during each of {work.attempts} attempts to plan this; retry when they are steady"
    error = UnavailableError(text)
    replies = tuple(Reply(reply=reply, outcome=error) for each in work.submissions for reply in each.replies)
    return replace(state, active=None), replies


def as_error(outcome: Infeasible | HeddleError) -> HeddleError:
    """Return the error for callers whose request has no plan."""
    if isinstance(outcome, HeddleError):
        return outcome
    return BudgetExceededError(outcome.why) if outcome.budget else NoAdmissiblePlanError(outcome.why)


def planned_job(
    state: State, request: JobRequest, plan: Replan, solve_ns: int, now: int, *, preview: bool = False
) -> Job:
    """Return the new job of a plan."""
    flows = next(job for job in plan.jobs if job.job_id == request.job_id)
    pins = plan.pins.get(request.job_id, {})
    counts = rule_counts(state, {request.job_id: pins})
    lease_ms = request.lease_ms or state.settings.default_lease_ms
    moved = sum(moved.flows for moved in plan.moved.values())
    effort = Effort(
        solve_ns=solve_ns,
        flows_moved=moved,
        rules_installed=sum(map(len, pins.values())),
        max_rules_on_a_switch=max(counts.values(), default=0),
    )
    steering, seen = steering_of(state.fabric), plan.confirmed.get(request.job_id)
    return Job(
        request=request,
        number=state.next_job_number,
        generation=1,
        state=after(None, JobEvent.ADMITTED),
        reason="; ".join(("preview" if preview else "submitted", *flows.notes)),
        lease_expires_unix_ms=0 if preview else now + lease_ms,
        flows=flows,
        effort=steering.evidence(effort, len(flows.flows), 0, seen),
        pin_rules=pins,
        lease_ms=lease_ms,
    )


def _admitted_jobs(state: State, work: PlanWork) -> dict[str, Job]:
    """Return the jobs of a plan that is being installed."""
    return {request.job_id: state.jobs[request.job_id] for request in work.requests if request.job_id in state.jobs}


def plan_installed(state: State, work: PlanWork, active: Active, install_ns: int) -> Outcome:
    """Set jobs to running after the last barrier reply; only now their callers get their replies."""
    install_ns += active.seeking.search_ns if active.seeking is not None else 0
    running = {
        name: replace(
            job, state=after(job.state, JobEvent.INSTALLED), effort=replace(job.effort, install_ns=install_ns)
        )
        for name, job in _admitted_jobs(state, work).items()
    }
    state = replace(state, jobs=state.jobs | running)
    plans = {name: job.as_plan(state.certificate) for name, job in running.items()}
    replies = _replies(work, plans)
    if len(running) < len(work.submissions):  # the plan has room for jobs whose callers have left
        state = enqueue_replan(state, ReplanWork(cause=Cause.RELEASE, reason="callers left"))
    # Running jobs slow down before the new ones begin to send.
    return state, (*announced(state, active.announces), *replies, *(Announce(plan=plan) for plan in plans.values()))


def _replies(work: PlanWork, outcomes: Mapping[str, JobPlan | HeddleError]) -> tuple[Effect, ...]:
    """Reply to the callers of each submission that has an outcome."""
    return tuple(
        Reply(reply=reply, outcome=outcomes[each.request.job_id])
        for each in work.submissions
        for reply in each.replies
        if each.request.job_id in outcomes
    )


def plan_failed(state: State, work: PlanWork, active: Active, event: InstallFailed) -> Outcome:
    """Remove jobs whose installation failed, with all their rules, and refuse their callers; others are as before."""
    state, gone, effects = undone(state, work, active)
    switch = event.switch
    why = f"switch {switch} did not acknowledge the plan ({event.reason}); nothing is left of it, retry"
    replies = _replies(work, dict.fromkeys(gone, UnavailableError(why)))
    text = f"switch {switch} did not acknowledge it"
    ended = (_ended(state, job, JobEvent.INSTALL_FAILED, text) for job in gone.values())
    return state, (*replies, *effects, *ended)


def _ended(state: State, job: Job, event: JobEvent, reason: str) -> Announce:
    """Return the announcement to a job's watchers that it has ended."""
    ended = replace(job, state=after(job.state, event), reason=reason, generation=job.generation + 1)
    return Announce(plan=ended.as_plan(state.certificate))


def renew(state: State, event: Renew, now: int) -> Outcome:
    """Extend a job's lease."""
    job = state.jobs.get(event.job_id)
    if job is None or not owns(event.tenant, job.request.tenant):
        return state, (Reply(reply=event.reply, outcome=no_job(event.job_id)),)
    if event.lease_ms > state.settings.max_lease_ms:
        why = f"lease_ms: {event.lease_ms} is more than the {state.settings.max_lease_ms} allowed here"
        return state, (Reply(reply=event.reply, outcome=InputError(why)),)
    lease_ms = event.lease_ms or job.request.lease_ms or state.settings.default_lease_ms
    renewed = after(job.state, JobEvent.RENEWED)
    job = replace(job, state=renewed, lease_expires_unix_ms=now + lease_ms, lease_ms=lease_ms)
    return replace(state, jobs={**state.jobs, event.job_id: job}), (
        Reply(reply=event.reply, outcome=job.as_plan(state.certificate)),
    )


def no_job(job_id: str) -> NotFoundError:
    """Return the error for a job id that holds no paths."""
    return NotFoundError(f"job_id: no job {quoted(job_id)} holds paths here; `heddle job list` names those that do")


def release(state: State, event: Release, now: int) -> Outcome:
    """Queue the release of a job."""
    waiting = (each.request for each in waiting_submissions(state) if each.request.job_id == event.job_id)
    job = state.jobs.get(event.job_id)
    request = job.request if job is not None else next(waiting, None)
    if request is None or not owns(event.tenant, request.tenant):
        return state, (Reply(reply=event.reply, outcome=no_job(event.job_id)),)
    work = ReleaseWork(reply=event.reply, job_id=event.job_id, event=JobEvent.RELEASED)
    return replace(state, queue=(*state.queue, work)), ()


def end_leases(state: State, now: int) -> Outcome:
    """Queue the release of every job whose lease has ended."""
    leaving = {work.job_id for work in state.queue if work.kind is WorkKind.RELEASE}
    effects: list[Effect] = []
    for job_id, job in state.jobs.items():
        ended = job.lease_expires_unix_ms <= now and allows(job.state, JobEvent.LEASE_ENDED)
        if ended and job_id not in leaving:
            work = ReleaseWork(reply=None, job_id=job_id, event=JobEvent.LEASE_ENDED)
            state = replace(state, queue=(*state.queue, work))
            effects.append(
                Note(severity="warning", subject=job_id, text="the lease ended; its flows fall back to ECMP")
            )
    return state, tuple(effects)


_RELEASE_REASONS = {JobEvent.RELEASED: "released", JobEvent.LEASE_ENDED: "lease ended"}


def start_release(state: State, work: ReleaseWork) -> Outcome:
    """Remove a job and its pins; its flows then follow the underlay's ECMP."""
    job = state.jobs.get(work.job_id)
    if job is None and any(work.job_id == request.job_id for parked in state.parked for request in parked.requests):
        return _release_parked(state, work)
    if job is None:
        gone = (Reply(reply=work.reply, outcome=no_job(work.job_id)),) if work.reply is not None else ()
        return state, gone
    jobs = {job_id: known for job_id, known in state.jobs.items() if job_id != work.job_id}
    state = replace(state, jobs=jobs, dirty=state.dirty | job.pin_rules.keys())
    reason = _RELEASE_REASONS[work.event]
    if job.flows.flows:
        state = enqueue_replan(state, ReplanWork(cause=Cause.RELEASE, reason=f"job {work.job_id} {reason}"))
    done: tuple[Effect, ...] = (_ended(state, job, work.event, reason),)
    if work.reply is not None:
        done = (Reply(reply=work.reply, outcome=len(job.flows.flows)), *done)
    return state, done


def _release_parked(state: State, work: ReleaseWork) -> Outcome:
    """End a job that waits for switches; its callers get an error."""
    released = [each for each in state.parked if each.requests[0].job_id == work.job_id]
    error = UnavailableError(f"job {work.job_id} was released before its switches had acknowledged it")
    replies = tuple(Reply(reply=reply, outcome=error) for each in released for reply in each.submissions[0].replies)
    state = replace(state, parked=tuple(each for each in state.parked if each not in released))
    return state, (*replies, *(() if work.reply is None else (Reply(reply=work.reply, outcome=0),)))
