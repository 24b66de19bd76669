"""Update rates and certificates of running jobs when other jobs arrive or leave; paths stay.

A job's generation grows, and is announced, where its rates change. A new certificate alone is not announced: the next
GetJob returns it.
"""

from dataclasses import replace

from controller.brain.lifecycle import JobEvent, after, allows
from controller.brain.state import Active, Job, RestateWork, State
from controller.brain.transact import Outcome, enqueue, take_token
from controller.model.effect import Announce, Effect, Note, Solve
from controller.model.event import Solved
from controller.model.plan import Certificate, JobFlows, Plan


def start_restate(state: State, work: RestateWork) -> Outcome:
    """Ask the planner for the rates of the jobs that are left; queued submissions go first."""
    if not state.jobs:
        return state, ()
    if state.queue:
        return enqueue(state, work), ()
    state, token = take_token(state)
    kept = tuple((job.request, job.flows) for job in state.jobs.values())
    solve = Solve(token=token, requests=(), kept=kept, health=state.health)
    return replace(state, active=Active(token=token, work=work)), (solve,)


def restate_solved(state: State, work: RestateWork, event: Solved, now: int) -> Outcome:
    """Apply the planner's reply to `start_restate`; on failure the rates stay, and an error is logged."""
    state = replace(state, active=None)
    if isinstance(event.outcome, Plan):
        return restated(state, event.outcome, work.reason)
    text = f"{work.reason}, but rates stay: {event.outcome}"
    return state, (Note(severity="error", subject="planner", text=text),)


def restated(state: State, plan: Plan, reason: str) -> Outcome:
    """Apply a plan's rates and certificate to every running job in it; announce jobs whose rates changed."""
    jobs, effects = dict(state.jobs), list[Effect]()
    for flows in plan.jobs:
        job = state.jobs.get(flows.job_id)
        if job is None or not allows(job.state, JobEvent.RATES_CHANGED):
            continue
        jobs[flows.job_id] = changed = _with(job, flows, plan.certificate, reason)
        if changed.generation != job.generation:
            effects.append(Announce(plan=changed.as_plan()))
    return replace(state, jobs=jobs), tuple(effects)


def _with(job: Job, flows: JobFlows, certificate: Certificate, reason: str) -> Job:
    mine = replace(
        certificate,
        solve_ns=job.certificate.solve_ns,
        install_ns=job.certificate.install_ns,
        rules_installed=job.certificate.rules_installed,
        max_rules_on_a_switch=job.certificate.max_rules_on_a_switch,
    )
    flows = replace(flows, guards=job.flows.guards)
    if flows.flows is job.flows.flows:  # the planner returns the same object where nothing has changed
        return replace(job, flows=flows, certificate=mine)
    return replace(
        job,
        state=after(job.state, JobEvent.RATES_CHANGED),
        flows=flows,
        certificate=mine,
        generation=job.generation + 1,
        reason="; ".join((reason, *flows.notes)),
    )
