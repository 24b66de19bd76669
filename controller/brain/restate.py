"""What running jobs are told when others come and go: their paths stay, their rates and the certificate change.

A job's generation grows where its rates changed; a new certificate alone is told to whoever asks next.
"""

from dataclasses import replace

from controller.brain.state import Active, Job, RestateWork, State
from controller.brain.transact import Outcome, enqueue, take_token
from controller.model.effect import Announce, Effect, Note, Solve
from controller.model.plan import Certificate, JobFlows, Plan


def start_restate(state: State, work: RestateWork) -> Outcome:
    """Ask the planner about the jobs that are left; whoever waits for a plan of his own goes first."""
    if not state.jobs:
        return state, ()
    if state.queue:
        return enqueue(state, work), ()
    state, token = take_token(state)
    kept = tuple((job.request, job.flows) for job in state.jobs.values())
    solve = Solve(token=token, requests=(), kept=kept, health=state.health)
    return replace(state, active=Active(token=token, work=work)), (solve,)


def on_restated(state: State, outcome: object, reason: str) -> Outcome:
    """Take over the planner's answer to `start_restate`."""
    state = replace(state, active=None)
    if isinstance(outcome, Plan):
        return restated(state, outcome, reason)
    return state, (Note(severity="error", subject="planner", text=f"{reason}, but rates stay: {outcome}"),)


def restated(state: State, plan: Plan, reason: str) -> Outcome:
    """Give every job that runs already its rates and the certificate of a plan that it is part of."""
    jobs, told = dict(state.jobs), list[Effect]()
    for flows in plan.jobs:
        job = state.jobs.get(flows.job_id)
        if job is None or job.state == "planned":
            continue
        jobs[flows.job_id] = changed = _with(job, flows, plan.certificate, reason)
        if changed.generation != job.generation:
            told.append(Announce(plan=changed.told()))
    return replace(state, jobs=jobs), tuple(told)


def _with(job: Job, flows: JobFlows, certificate: Certificate, reason: str) -> Job:
    mine = replace(
        certificate,
        solve_ns=job.certificate.solve_ns,
        install_ns=job.certificate.install_ns,
        rules_installed=job.certificate.rules_installed,
        max_rules_on_a_switch=job.certificate.max_rules_on_a_switch,
    )
    flows = replace(flows, guards=job.flows.guards)
    if flows.flows is job.flows.flows:  # the planner gives back what has not changed
        return replace(job, flows=flows, certificate=mine)
    return replace(
        job, flows=flows, certificate=mine, generation=job.generation + 1, reason="; ".join((reason, *flows.notes))
    )
