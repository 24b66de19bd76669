"""Handle jobs: submit, renew, release, and the end of leases."""

from dataclasses import replace
from itertools import chain

from controller.brain.install import Outcome, path_switches, waiting_plans
from controller.brain.intent import budget_passed, rule_counts
from controller.brain.lifecycle import JobEvent, WorkKind, after, allows
from controller.brain.replan import after_replans, announced, applied, enqueue_replan, limit_of, rolled_back, solve_for
from controller.brain.state import Active, Job, PlanWork, ReleaseWork, ReplanWork, State
from controller.model.admission import problems, quoted
from controller.model.effect import Announce, Effect, Note, Reply
from controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    HeddleError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from controller.model.event import InstallFailed, Release, Renew, Solved, Submit
from controller.model.job import JobRequest
from controller.model.moves import Cause
from controller.model.plan import Effort, Infeasible, JobPlan, Replan


def submit(state: State, event: Submit, now: int) -> Outcome:
    """Queue a request, or reply at once where it is known, invalid or past a limit."""
    if (refused := refusal(state, event)) is not None:
        return state, (Reply(reply=event.reply, outcome=refused),)
    known = state.jobs.get(event.request.job_id)
    joined = _join_waiting(state, event)
    if joined is not None:
        return joined
    if known is not None:
        return state, (Reply(reply=event.reply, outcome=_same_or_taken(state, known, event.request)),)
    if len(state.queue) >= state.settings.max_waiting:
        full = f"{len(state.queue)} requests are waiting already; try again when some are answered"
        return state, (Reply(reply=event.reply, outcome=BudgetExceededError(full)),)
    work = PlanWork(replies=(event.reply,), request=event.request)
    return replace(state, queue=(*state.queue, work)), ()


def refusal(state: State, event: Submit) -> HeddleError | None:
    """Return why a request is refused before it is planned; None where it is not."""
    request = event.request
    found = () if event.checked else problems(request, state.fabric)
    if found:
        return InputError(*(f"{problem.path}: {problem.text}" for problem in found))
    if request.lease_ms > state.settings.max_lease_ms:
        return InputError(f"lease_ms: {request.lease_ms} is more than the {state.settings.max_lease_ms} allowed here")
    if len(state.jobs) >= state.settings.max_jobs and request.job_id not in state.jobs:
        return BudgetExceededError(f"{len(state.jobs)} jobs hold paths already; release one first")
    return None


def _same_or_taken(state: State, known: Job, request: JobRequest) -> JobPlan | HeddleError:
    if known.request == request:
        return known.as_plan(state.certificate)
    return AlreadyExistsError(
        f"job_id: {request.job_id} is in use with a different request; release it or choose another id"
    )


def _join_waiting(state: State, event: Submit) -> Outcome | None:
    """Add a caller to a queued or active submission of the same job id; None where there is none."""
    for work in waiting_plans(state):
        if work.request.job_id != event.request.job_id:
            continue
        if work.request != event.request:
            taken = AlreadyExistsError(f"job_id: {event.request.job_id} is being planned with a different request")
            return state, (Reply(reply=event.reply, outcome=taken),)
        return _with_work(state, work, replace(work, replies=(*work.replies, event.reply))), ()
    return None


def _with_work(state: State, work: PlanWork, instead: PlanWork) -> State:
    """Replace an active or queued submission."""
    if state.active is not None and state.active.work is work:
        return replace(state, active=replace(state.active, work=instead))
    return replace(state, queue=tuple(instead if waiting is work else waiting for waiting in state.queue))


MAX_ATTEMPTS = 5
"""The maximum number of times that a request is planned because the fabric changed during planning."""


def start_plan(state: State, work: PlanWork) -> Outcome:
    """Send a request to the planner, beside the jobs that hold paths."""
    request = work.request
    limit = limit_of(state, Cause.ARRIVAL, request)
    return solve_for(state, work, (request,), limit=limit, subject=request.job_id)


def plan_solved(state: State, work: PlanWork, event: Solved, now: int) -> Outcome:
    """Make a job of the planner's reply and install it; reply at once where there is no plan."""
    active, plan = state.active, event.outcome
    assert active is not None
    if not work.replies:  # every caller has left
        return replace(state, active=None), ()
    if active.health != state.out_of_use:
        return plan_again(state, work)
    state = replace(state, active=replace(active, solve_ns=event.solve_ns))
    if not isinstance(plan, Replan):
        return _refuse(state, work, as_error(plan))
    job, others = planned_job(state, work.request, plan, event.solve_ns, now)
    changed = {job.request.job_id: job.pin_rules} | {
        name: pins for name, pins in plan.pins.items() if name in state.jobs
    }
    refused = budget_passed(state, changed)
    if refused is not None:
        return _refuse(state, work, refused)
    # An existing pin that also carries ACKs is installed already: its switches get no further barrier.
    needed = path_switches(chain(job.flows.link_loads_bps, job.flows.reverse_links))
    absent = sorted(switch for switch in needed if not state.switches[switch].connected)
    if absent:
        where = f"switch {absent[0]} is not connected ({len(absent)} in all on this job's paths); retry when it is"
        return _refuse(state, work, UnavailableError(where))
    arrived = f"job {work.request.job_id} arrived"
    state, effects = applied(state, others, arrived, now, Cause.ARRIVAL, barriers=needed)
    state = replace(
        state,
        jobs={**state.jobs, job.request.job_id: job},
        next_job_number=state.next_job_number + 1,
        dirty=state.dirty | job.pin_rules.keys(),
    )
    return state, effects


def _refuse(state: State, work: PlanWork, why: HeddleError) -> Outcome:
    return replace(state, active=None), tuple(Reply(reply=reply, outcome=why) for reply in work.replies)


def plan_again(state: State, work: PlanWork) -> Outcome:
    """Discard a plan whose links have changed since, and plan again, up to MAX_ATTEMPTS; running jobs go first."""
    if work.attempts < MAX_ATTEMPTS:
        again = replace(work, attempts=work.attempts + 1)
        return replace(state, active=None, queue=after_replans(state, again)), ()
    error = UnavailableError(
        f"links changed during each of {work.attempts} attempts to plan this; retry when they are steady"
    )
    return _refuse(state, work, error)


def as_error(outcome: Infeasible | HeddleError) -> HeddleError:
    """Return the error for callers whose request has no plan."""
    if isinstance(outcome, HeddleError):
        return outcome
    return BudgetExceededError(outcome.why) if outcome.budget else NoAdmissiblePlanError(outcome.why)


def planned_job(
    state: State, request: JobRequest, plan: Replan, solve_ns: int, now: int, *, preview: bool = False
) -> tuple[Job, Replan]:
    """Return the new job of a plan, and the plan without it."""
    flows = next(job for job in plan.jobs if job.job_id == request.job_id)
    pins = plan.pins.get(request.job_id, {})
    counts = rule_counts(state, {request.job_id: pins})
    moved = sum(moved.flows for moved in plan.moved.values())
    job = Job(
        request=request,
        number=state.next_job_number,
        generation=1,
        state=after(None, JobEvent.ADMITTED),
        reason="; ".join(("preview" if preview else "submitted", *flows.notes)),
        lease_expires_unix_ms=0 if preview else now + (request.lease_ms or state.settings.default_lease_ms),
        flows=flows,
        effort=Effort(
            solve_ns=solve_ns,
            flows_moved=moved,
            rules_installed=sum(map(len, pins.values())),
            max_rules_on_a_switch=max(counts.values(), default=0),
        ),
        pin_rules=pins,
    )
    return job, replace(plan, jobs=tuple(other for other in plan.jobs if other.job_id != request.job_id))


def plan_installed(state: State, work: PlanWork, active: Active, install_ns: int) -> Outcome:
    """Set a job to running after the last barrier reply; only now its callers get their reply."""
    job = state.jobs[work.request.job_id]
    job = replace(job, state=after(job.state, JobEvent.INSTALLED), effort=replace(job.effort, install_ns=install_ns))
    state = replace(state, jobs={**state.jobs, work.request.job_id: job})
    published = job.as_plan(state.certificate)
    replies = tuple(Reply(reply=r, outcome=published) for r in work.replies)
    return state, (*replies, Announce(plan=published), *announced(state, active.announces))


def plan_failed(state: State, work: PlanWork, active: Active, event: InstallFailed) -> Outcome:
    """Remove a job whose installation failed, with all its rules, and refuse its callers; others are as before."""
    job = state.jobs[work.request.job_id]
    jobs = {job_id: known for job_id, known in state.jobs.items() if known is not job}
    state = replace(state, jobs=jobs, certificate=active.certificate, dirty=state.dirty | job.pin_rules.keys())
    state = rolled_back(state, active.before or {})
    switch = event.switch
    why = f"switch {switch} did not acknowledge the plan ({event.reason}); nothing is left of it, retry"
    replies: tuple[Effect, ...] = tuple(Reply(reply=r, outcome=UnavailableError(why)) for r in work.replies)
    return state, (*replies, _ended(state, job, JobEvent.INSTALL_FAILED, f"switch {switch} did not acknowledge it"))


def _ended(state: State, job: Job, event: JobEvent, reason: str) -> Announce:
    """Return the announcement to a job's watchers that it has ended."""
    ended = replace(job, state=after(job.state, event), reason=reason, generation=job.generation + 1)
    return Announce(plan=ended.as_plan(state.certificate))


def renew(state: State, event: Renew, now: int) -> Outcome:
    """Extend a job's lease."""
    job = state.jobs.get(event.job_id)
    if job is None:
        return state, (Reply(reply=event.reply, outcome=no_job(event.job_id)),)
    if event.lease_ms > state.settings.max_lease_ms:
        why = f"lease_ms: {event.lease_ms} is more than the {state.settings.max_lease_ms} allowed here"
        return state, (Reply(reply=event.reply, outcome=InputError(why)),)
    expires = now + (event.lease_ms or job.request.lease_ms or state.settings.default_lease_ms)
    job = replace(job, state=after(job.state, JobEvent.RENEWED), lease_expires_unix_ms=expires)
    return replace(state, jobs={**state.jobs, event.job_id: job}), (
        Reply(reply=event.reply, outcome=job.as_plan(state.certificate)),
    )


def no_job(job_id: str) -> NotFoundError:
    """Return the error for a job id that holds no paths."""
    return NotFoundError(f"job_id: no job {quoted(job_id)} holds paths here; `heddle job list` names those that do")


def release(state: State, event: Release, now: int) -> Outcome:
    """Queue the release of a job."""
    waits = any(work.request.job_id == event.job_id for work in waiting_plans(state))
    if event.job_id not in state.jobs and not waits:
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
