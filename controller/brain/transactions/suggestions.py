"""Suggest places for a job: one request at a time, concurrently with transactions.

A suggestion sees the jobs that hold paths when its turn comes. It reserves nothing, and no transaction waits for it.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.state import State, SuggestWork
from heddle.controller.model.effect import Place, Reply
from heddle.controller.model.error import BudgetExceededError, HeddleError, InputError, NoAdmissiblePlanError
from heddle.controller.model.event import Suggest, Suggested
from heddle.controller.model.job import JobRequest
from heddle.controller.model.limit import MAX_GPU_MILLI
from heddle.controller.model.placement import placement_problems
from heddle.controller.model.plan import Infeasible, JobFlows

WITHHELD = "others"
"""What messages name where NICs of other tenants are not suggested."""


def suggest(state: State, event: Suggest, now: int) -> Outcome:
    """Queue a request, or refuse it where it is invalid or the queue is full."""
    refusal: HeddleError | None = None
    if problems := () if event.checked else placement_problems(event.shape):
        refusal = InputError(*(f"{problem.path}: {problem.text}" for problem in problems))
    elif len(state.suggestions) >= state.settings.max_suggestions_waiting:
        waiting = f"{len(state.suggestions)} suggestions are waiting already"
        refusal = BudgetExceededError(f"{waiting}; try again when some are answered")
    if refusal is not None:
        return state, (Reply(reply=event.reply, outcome=refusal),)
    waiting_now = (*state.suggestions, SuggestWork(reply=event.reply, shape=event.shape, withheld=event.withheld))
    state = replace(state, suggestions=waiting_now)
    return _start(state) if len(waiting_now) == 1 else (state, ())


def suggested(state: State, event: Suggested, now: int) -> Outcome:
    """Reply to the first request with the planner's outcome, and start the next."""
    if not state.suggestions or state.suggestions[0].token != event.token:
        return state, ()
    done, *left = state.suggestions
    outcome = NoAdmissiblePlanError(event.outcome.why) if isinstance(event.outcome, Infeasible) else event.outcome
    state, effects = _start(replace(state, suggestions=tuple(left)))
    return state, (Reply(reply=done.reply, outcome=outcome), *effects)


def _withholding(nics: tuple[str, ...]) -> JobRequest:
    """Return a job without traffic that takes all GPUs of some NICs."""
    return JobRequest(job_id=WITHHELD, ranks=nics, collectives=(), gpu_milli=MAX_GPU_MILLI)


def _start(state: State) -> Outcome:
    """Send the first request to the planner, beside the jobs that hold paths now."""
    if not state.suggestions:
        return state, ()
    state, token = take_token(state)
    first, *left = state.suggestions
    kept = tuple((job.request, job.flows) for job in state.jobs.values())
    if first.withheld:
        kept = (
            *kept,
            (_withholding(first.withheld), JobFlows(job_id=WITHHELD, flows=(), link_loads_bps={}, pinned=False)),
        )
    place = Place(token=token, shape=first.shape, kept=kept, health=state.out_of_use, degraded=state.degraded)
    return replace(state, suggestions=(replace(first, token=token), *left)), (place,)
