"""Preview jobs: one request at a time, concurrently with transactions, by a planner of its own.

A preview sees the jobs that hold paths when its turn comes. It reserves nothing, and no transaction waits for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.intent import budget_passed
from heddle.controller.brain.state import Preview, State
from heddle.controller.brain.transactions.jobs import as_error, planned_job
from heddle.controller.brain.transactions.observed import yielding
from heddle.controller.brain.transactions.replan import limit_of, planner_input
from heddle.controller.brain.transactions.submissions import refusal, submit_all
from heddle.controller.model.effect import Effect, Reply
from heddle.controller.model.error import BudgetExceededError, HeddleError
from heddle.controller.model.event import Solved, Submit
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import JobPlan, Replan


def submitted(state: State, events: Sequence[Submit], now: int) -> Outcome:
    """Handle submissions and previews that have come together, in order."""
    effects = list[Effect]()
    for is_preview, alike in groupby(events, lambda event: event.preview):
        if not is_preview:
            state, more = submit_all(state, list(alike))
            effects += more
            continue
        for event in alike:
            state, more = preview(state, event)
            effects += more
    return state, tuple(effects)


def preview(state: State, event: Submit) -> Outcome:
    """Queue a preview, or refuse it where it is invalid or the queue is full."""
    refused = refusal(state, event)
    if refused is None and len(state.previews) >= state.settings.max_previews_waiting:
        waiting = f"{len(state.previews)} previews are waiting already"
        refused = BudgetExceededError(f"{waiting}; try again when some are answered")
    if refused is not None:
        return state, (Reply(reply=event.reply, outcome=refused),)
    first = not state.previews
    state = replace(state, previews=(*state.previews, Preview(reply=event.reply, request=event.request)))
    return _start(state) if first else (state, ())


def previewed(state: State, event: Solved, now: int) -> Outcome:
    """Reply to the first request with the planner's outcome, and start the next."""
    done, *left = state.previews
    reply = Reply(reply=done.reply, outcome=_response(state, done, event, now))
    state, effects = _start(replace(state, previews=tuple(left)))
    return state, (reply, *effects)


def _response(state: State, done: Preview, event: Solved, now: int) -> JobPlan | HeddleError:
    if not isinstance(event.outcome, Replan):
        return as_error(event.outcome)
    job = planned_job(state, done.request, event.outcome, event.solve_ns, now, preview=True)
    pins = {job.request.job_id: job.pin_rules}
    refused = budget_passed(state, pins)
    if refused is not None and not yielding(state, pins):
        return refused
    return job.as_plan(event.outcome.certificate)


def _start(state: State) -> Outcome:
    """Send the first request to the planner, beside the jobs that hold paths now, but for one of the same id."""
    if not state.previews:
        return state, ()
    state, token = take_token(state)
    first, *left = state.previews
    request = first.request
    others = {job_id: job for job_id, job in state.jobs.items() if job_id != request.job_id}
    wanted = planner_input(replace(state, jobs=others), (request,))
    solve = replace(
        wanted, token=token, limit=limit_of(state, Cause.ARRIVAL, request), subject=request.job_id, preview=True
    )
    return replace(state, previews=(replace(first, token=token), *left)), (solve,)
