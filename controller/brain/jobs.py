"""Handle jobs: submit, preview, renew, release, and the end of leases."""

from dataclasses import replace
from itertools import chain

from controller.brain.intent import budget_passed, pin_rules_of, rule_counts
from controller.brain.lifecycle import JobEvent, WorkKind, after, allows
from controller.brain.restate import restated
from controller.brain.state import Active, Job, PlanWork, ReleaseWork, RestateWork, State
from controller.brain.switches import regrade
from controller.brain.transact import Outcome, enqueue, install, path_switches, take_token, unread, waiting_plans
from controller.model.admission import problems, quoted
from controller.model.effect import Announce, Effect, Note, Reply, Solve
from controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    HeddleError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from controller.model.event import InstallFailed, Release, Renew, Solved, Submit, Tick
from controller.model.job import JobRequest
from controller.model.plan import Infeasible, JobPlan, Plan


def submit(state: State, event: Submit, now: int) -> Outcome:
    """Queue a request, or reply at once where it is known, invalid or past a limit."""
    refusal = _refusal(state, event)
    if refusal is not None:
        return state, (Reply(reply=event.reply, outcome=refusal),)
    if not event.preview:
        known = state.jobs.get(event.request.job_id)
        joined = _join_waiting(state, event)
        if joined is not None:
            return joined
        if known is not None:
            return state, (Reply(reply=event.reply, outcome=_same_or_taken(known, event.request)),)
    work = PlanWork(replies=(event.reply,), request=event.request, preview=event.preview)
    return enqueue(state, work), ()


def _refusal(state: State, event: Submit) -> HeddleError | None:
    request = event.request
    found = () if event.checked else problems(request, state.fabric)
    if found:
        return InputError(*(f"{problem.path}: {problem.text}" for problem in found))
    if request.lease_ms > state.settings.max_lease_ms:
        return InputError(f"lease_ms: {request.lease_ms} is more than the {state.settings.max_lease_ms} allowed here")
    if len(state.queue) >= state.settings.max_waiting:
        return BudgetExceededError(f"{len(state.queue)} requests are waiting already; try again when some are answered")
    if len(state.jobs) >= state.settings.max_jobs and request.job_id not in state.jobs:
        return BudgetExceededError(f"{len(state.jobs)} jobs hold paths already; release one first")
    return None


def _same_or_taken(known: Job, request: JobRequest) -> JobPlan | HeddleError:
    if known.request == request:
        return known.as_plan()
    return AlreadyExistsError(
        f"job_id: {request.job_id} is in use with a different request; release it or choose another id"
    )


def _join_waiting(state: State, event: Submit) -> Outcome | None:
    """Add a caller to a queued or active submission of the same job id; None where there is none."""
    for work in waiting_plans(state):
        if work.preview or work.request.job_id != event.request.job_id:
            continue
        if work.request != event.request:
            taken = AlreadyExistsError(f"job_id: {event.request.job_id} is being planned with a different request")
            return state, (Reply(reply=event.reply, outcome=taken),)
        joined = replace(work, replies=(*work.replies, event.reply))
        if state.active is not None and state.active.work is work:
            return replace(state, active=replace(state.active, work=joined)), ()
        queue = tuple(joined if waiting is work else waiting for waiting in state.queue)
        return replace(state, queue=queue), ()
    return None


MAX_ATTEMPTS = 5
"""The maximum number of times that a request is planned because the fabric changed during planning."""


def start_plan(state: State, work: PlanWork, attempts: int = 1) -> Outcome:
    """Send a request to the planner, beside the jobs that hold paths."""
    state, token = take_token(state)
    known = state.jobs.get(work.request.job_id)
    kept = tuple((job.request, job.flows) for job in state.jobs.values() if work.preview is False or job is not known)
    solve = Solve(token=token, requests=(work.request,), kept=kept, health=state.health)
    active = Active(token=token, work=work, health=state.health, attempts=attempts)
    return replace(state, active=active), (solve,)


def plan_solved(state: State, work: PlanWork, event: Solved, now: int) -> Outcome:
    """Make a job of the planner's reply and install it; reply at once for a preview or where there is no plan."""
    active = state.active
    assert active is not None
    if not work.replies:  # every caller has left
        return replace(state, active=None), ()
    if active.health != state.health:
        return _plan_again(state, work, active.attempts)
    if not isinstance(event.outcome, Plan):
        error = _as_error(event.outcome)
        return replace(state, active=None), tuple(Reply(reply=r, outcome=error) for r in work.replies)
    job = _job_of(state, work, event.outcome, event.solve_ns, now)
    refused = budget_passed(state, job.pin_rules)
    if refused is not None:
        return replace(state, active=None), tuple(Reply(reply=r, outcome=refused) for r in work.replies)
    if work.preview:
        return replace(state, active=None), tuple(Reply(reply=r, outcome=job.as_plan()) for r in work.replies)
    return _install_job(state, work, job, event.outcome)


def _plan_again(state: State, work: PlanWork, attempts: int) -> Outcome:
    """Discard a plan whose links have changed since, and plan again, up to MAX_ATTEMPTS."""
    if attempts < MAX_ATTEMPTS:
        return start_plan(state, work, attempts + 1)
    error = UnavailableError(
        f"links changed during each of {attempts} attempts to plan this; retry when they are steady"
    )
    return replace(state, active=None), tuple(Reply(reply=r, outcome=error) for r in work.replies)


def _as_error(outcome: Infeasible | HeddleError) -> HeddleError:
    if isinstance(outcome, HeddleError):
        return outcome
    return BudgetExceededError(outcome.why) if outcome.budget else NoAdmissiblePlanError(outcome.why)


def _job_of(state: State, work: PlanWork, plan: Plan, solve_ns: int, now: int) -> Job:
    request = work.request
    flows = next(job for job in plan.jobs if job.job_id == request.job_id)
    pins = pin_rules_of(state, request, flows, state.next_job_number, 1)
    added = {switch: len(rules) for switch, rules in pins.items()}
    counts = rule_counts(state, added)
    certificate = replace(
        plan.certificate,
        solve_ns=solve_ns,
        rules_installed=sum(added.values()),
        max_rules_on_a_switch=max(counts.values(), default=0),
    )
    return Job(
        request=request,
        number=state.next_job_number,
        generation=1,
        state=after(None, JobEvent.ADMITTED),
        reason="; ".join(("preview" if work.preview else "submitted", *flows.notes)),
        lease_expires_unix_ms=0 if work.preview else now + (request.lease_ms or state.settings.default_lease_ms),
        flows=flows,
        certificate=certificate,
        pin_rules=pins,
    )


def _install_job(state: State, work: PlanWork, job: Job, plan: Plan) -> Outcome:
    # An existing pin that also carries ACKs is installed already: its switches get no further barrier.
    needed = path_switches(chain(job.flows.link_loads_bps, job.flows.reverse_links))
    absent = sorted(switch for switch in needed if not state.switches[switch].connected)
    if absent:
        gone = UnavailableError(
            f"switch {absent[0]} is not connected ({len(absent)} in all on this job's paths); retry when it is"
        )
        return replace(state, active=None), tuple(Reply(reply=r, outcome=gone) for r in work.replies)
    state = replace(
        state,
        jobs={**state.jobs, job.request.job_id: job},
        next_job_number=state.next_job_number + 1,
        dirty=state.dirty | job.pin_rules.keys(),
    )
    return install(state, replace(work, plan=plan), needed)


def plan_installed(state: State, work: PlanWork, install_ns: int) -> Outcome:
    """Set a job to running after the last barrier reply; only now its callers get their reply."""
    job = state.jobs[work.request.job_id]
    certificate = replace(job.certificate, install_ns=install_ns)
    job = replace(job, state=after(job.state, JobEvent.INSTALLED), certificate=certificate)
    state = replace(state, jobs={**state.jobs, work.request.job_id: job})
    state, graded = regrade(state)  # a link may have failed during the installation
    published = state.jobs[work.request.job_id].as_plan()
    replies = tuple(Reply(reply=r, outcome=published) for r in work.replies)
    if work.plan is None:
        return state, (*replies, *(graded or (Announce(plan=published),)))
    others = replace(work.plan, jobs=tuple(flows for flows in work.plan.jobs if flows.job_id != work.request.job_id))
    state, changed = restated(state, others, f"job {work.request.job_id} arrived")
    return state, (*replies, *(graded or (Announce(plan=published),)), *changed)


def plan_failed(state: State, work: PlanWork, event: InstallFailed) -> Outcome:
    """Remove a job whose installation failed, with all its rules, and refuse its callers."""
    job = state.jobs.get(work.request.job_id)
    jobs = {job_id: known for job_id, known in state.jobs.items() if known is not job}
    touched = job.pin_rules.keys() if job else frozenset()
    state = replace(state, jobs=jobs, dirty=state.dirty | touched)
    switch = event.switch
    why = f"switch {switch} did not acknowledge the plan ({event.reason}); nothing is left of it, retry"
    replies: tuple[Effect, ...] = tuple(Reply(reply=r, outcome=UnavailableError(why)) for r in work.replies)
    if job is None:
        return state, replies
    return state, (*replies, _ended(job, JobEvent.INSTALL_FAILED, f"switch {switch} did not acknowledge it"))


def _ended(job: Job, event: JobEvent, reason: str) -> Announce:
    """Return the announcement to a job's watchers that it has ended."""
    ended = replace(job, state=after(job.state, event), reason=reason, generation=job.generation + 1)
    return Announce(plan=ended.as_plan())


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
    return replace(state, jobs={**state.jobs, event.job_id: job}), (Reply(reply=event.reply, outcome=job.as_plan()),)


def no_job(job_id: str) -> NotFoundError:
    """Return the error for a job id that holds no paths."""
    return NotFoundError(f"job_id: no job {quoted(job_id)} holds paths here; `heddle job list` names those that do")


def release(state: State, event: Release, now: int) -> Outcome:
    """Queue the release of a job."""
    waits = any(work.request.job_id == event.job_id and not work.preview for work in waiting_plans(state))
    if event.job_id not in state.jobs and not waits:
        return state, (Reply(reply=event.reply, outcome=no_job(event.job_id)),)
    return enqueue(state, ReleaseWork(reply=event.reply, job_id=event.job_id, event=JobEvent.RELEASED)), ()


def tick(state: State, event: Tick, now: int) -> Outcome:
    """Queue the release of every job whose lease has ended, and read switches whose rules are unknown."""
    leaving = {work.job_id for work in state.queue if work.kind is WorkKind.RELEASE}
    effects: list[Effect] = []
    for job_id, job in state.jobs.items():
        ended = allows(job.state, JobEvent.LEASE_ENDED) and job.lease_expires_unix_ms <= now
        if ended and job_id not in leaving:
            state = enqueue(state, ReleaseWork(reply=None, job_id=job_id, event=JobEvent.LEASE_ENDED))
            effects.append(
                Note(severity="warning", subject=job_id, text="the lease ended; its flows fall back to ECMP")
            )
    return state, (*effects, *unread(state))


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
        state = enqueue(state, RestateWork(reason=f"job {work.job_id} {reason}"))
    done: tuple[Effect, ...] = (_ended(job, work.event, reason),)
    if work.reply is not None:
        done = (Reply(reply=work.reply, outcome=len(job.flows.flows)), *done)
    if not job.pin_rules:
        return state, done
    state, effects = install(state, work)
    return state, (*effects, *done)
