"""Park submissions that wait for switches which others do not need, and plan them again when these are ready.

A switch is not ready while it lags behind what it was sent, or while its rules are being read. Nothing of a parked
submission is installed or reserved. Its caller goes on waiting: for a slow switch as long as it takes, and for one that
does not reply until its session ends.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.lacking import is_unready
from heddle.controller.brain.state import Active, Job, PlanWork, State
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions.replan import after_replans, rolled_back
from heddle.controller.brain.transactions.submissions import separated
from heddle.controller.model.effect import Effect


def park(state: State, work: PlanWork, unready: frozenset[str]) -> State:
    """Park a submission whose plan needs switches that are not ready; several are planned again one by one."""
    state = replace(state, active=None)
    if len(work.submissions) > 1:
        return replace(state, queue=(*separated(work), *state.queue))
    return replace(state, parked=(*state.parked, replace(work, waits_for=unready)))


def unparked(state: State) -> State:
    """Return to the queue, in order, what waits for no switch any more; a switch that has left is not waited for."""
    ready = [work for work in state.parked if not any(is_unready(state, switch) for switch in work.waits_for)]
    if not ready:
        return state
    state = replace(state, parked=tuple(work for work in state.parked if work not in ready))
    for work in reversed(ready):
        state = replace(state, queue=after_replans(state, work))
    return state


def unready_of(state: State, active: Active) -> frozenset[str]:
    """Return the switches that a transaction needs, and that are not ready."""
    return frozenset(switch for switch in active.needed if is_unready(state, switch))


def undone(state: State, work: PlanWork, active: Active) -> tuple[State, dict[str, Job], tuple[Effect, ...]]:
    """Remove the jobs of a plan that is being installed, with all their rules; others are as before it.

    Returns the state without them, the jobs that are gone, and what is published of the others.
    """
    gone = {request.job_id: state.jobs[request.job_id] for request in work.requests if request.job_id in state.jobs}
    jobs = {job_id: known for job_id, known in state.jobs.items() if job_id not in gone}
    dirty = state.dirty.union(*(job.pin_rules for job in gone.values()))
    state, effects = rolled_back(replace(state, jobs=jobs, certificate=active.certificate, dirty=dirty), active)
    return state, gone, effects


def delayed(state: State, work: PlanWork, active: Active) -> Outcome:
    """Undo a plan that is being installed, and plan it again; only jobs that cross unready switches wait for them."""
    unready = unready_of(state, active)
    unready = frozenset(switch for switch in unready if state.switches[switch].lagging) or unready  # others soon are
    state, gone, effects = undone(state, work, active)
    works = []
    for one in separated(replace(work, attempts=work.attempts + 1)):
        job = gone.get(one.requests[0].job_id)
        waits_for = switches_of(state, job) & unready if job is not None else frozenset[str]()
        works.append(replace(one, waits_for=waits_for, still=one.still or bool(unready)))
    state = replace(state, parked=(*state.parked, *(one for one in works if one.waits_for)))
    for one in reversed([one for one in works if not one.waits_for]):
        state = replace(state, queue=after_replans(state, one))
    return state, effects


def switches_of(state: State, job: Job) -> frozenset[str]:
    """Return the switches on the paths of a job, and those with its pins: some guard streams of other jobs."""
    awaited = steering_of(state.fabric).awaited((*job.flows.link_loads_bps, *job.flows.reverse_links))
    return awaited | job.pin_rules.keys()
