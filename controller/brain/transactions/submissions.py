"""Queue submitted jobs, join those that can be planned together, and withdraw those whose callers have left.

Each plan costs work for all running jobs, so submissions that wait for one plan are planned together by the next. What
is refused together is planned again one by one: no job is refused because of another that waited with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.lifecycle import WorkKind
from heddle.controller.brain.state import Job, PlanWork, State, Submission, Work
from heddle.controller.brain.tenants import job_quota_refusal
from heddle.controller.brain.transactions.observed import count_refusal
from heddle.controller.brain.transactions.replan import limit_of
from heddle.controller.model.admission import flow_plans, problems
from heddle.controller.model.effect import Effect, Reply
from heddle.controller.model.error import AlreadyExistsError, BudgetExceededError, HeddleError, InputError
from heddle.controller.model.event import Submit, Withdraw
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import Cause, MoveLimit, Whose
from heddle.controller.model.observed import is_observed
from heddle.controller.model.plan import JobPlan

MAX_TOGETHER = 16
"""The maximum number of jobs that are planned together."""
MAX_FLOWS_TOGETHER = 4_096
"""The maximum number of flows of such jobs: a caller with few flows does not wait for many."""


def submit_all(state: State, events: Sequence[Submit]) -> Outcome:
    """Queue requests that have come together, or reply at once where one is known, invalid or past a limit."""
    waiting, effects = {each.request.job_id for each in waiting_submissions(state)}, list[Effect]()
    for event in events:
        state, more = _submit(state, event, is_waiting=event.request.job_id in waiting)
        effects += more
        waiting.add(event.request.job_id)
    return state, tuple(effects)


def _submit(state: State, event: Submit, *, is_waiting: bool) -> Outcome:
    """Queue a request; `is_waiting` is whether one of its id may wait already: to search thousands takes long."""
    if (refused := refusal(state, event)) is not None:
        return state, (Reply(reply=event.reply, outcome=refused),)
    known = state.jobs.get(event.request.job_id)
    joined = _join_waiting(state, event) if is_waiting else None
    if joined is not None:
        return joined
    if known is not None:
        return state, (Reply(reply=event.reply, outcome=_same_or_taken(state, known, event.request)),)
    waiting = len(state.queue) + len(state.parked)
    if waiting >= state.settings.max_waiting:
        full = f"{waiting} requests are waiting already; try again when some are answered"
        return state, (Reply(reply=event.reply, outcome=BudgetExceededError(full)),)
    work = PlanWork(submissions=(Submission(replies=(event.reply,), request=event.request),))
    return replace(state, queue=(*state.queue, work)), ()


def refusal(state: State, event: Submit) -> HeddleError | None:
    """Return why a request is refused before it is planned; None where it is not."""
    request = event.request
    found = () if event.checked else problems(request, state.fabric)
    if found:
        return InputError(*(f"{problem.path}: {problem.text}" for problem in found))
    if request.lease_ms > state.settings.max_lease_ms:
        return InputError(f"lease_ms: {request.lease_ms} is more than the {state.settings.max_lease_ms} allowed here")
    if request.job_id not in state.jobs and (full := count_refusal(state, is_observed(request))) is not None:
        return full
    return job_quota_refusal(state, (each.request for each in waiting_submissions(state)), event.tenant, request)


def _same_or_taken(state: State, known: Job, request: JobRequest) -> JobPlan | HeddleError:
    if known.request == request:
        return known.as_plan(state.certificate)
    return AlreadyExistsError(
        f"job_id: {request.job_id} is in use with a different request; release it or choose another id"
    )


def _join_waiting(state: State, event: Submit) -> Outcome | None:
    """Add a caller to a queued or active submission of the same job id; None where there is none."""
    for waiting in waiting_submissions(state):
        if waiting.request.job_id != event.request.job_id:
            continue
        if waiting.request != event.request:
            text = f"job_id: {event.request.job_id} is being planned with a different request"
            return state, (Reply(reply=event.reply, outcome=AlreadyExistsError(text)),)
        return _with_replies(state, waiting, (*waiting.replies, event.reply)), ()
    return None


def _plans(state: State) -> Iterator[PlanWork]:
    """Return the active and the waiting submissions, in order."""
    active = (state.active.work,) if state.active is not None else ()
    return (work for work in (*active, *state.parked, *state.queue) if work.kind is WorkKind.PLAN)


def waiting_submissions(state: State) -> Iterator[Submission]:
    """Return the submissions that are active or wait, in order."""
    return (each for work in _plans(state) for each in work.submissions)


def _with_replies(state: State, submission: Submission, replies: tuple[int, ...]) -> State:
    """Replace the callers of a submission; one that waits and has none any more is dropped."""
    now = replace(submission, replies=replies)

    def replaced(work: PlanWork) -> PlanWork:
        return replace(work, submissions=tuple(now if each is submission else each for each in work.submissions))

    active = state.active
    if active is not None and active.work.kind is WorkKind.PLAN and submission in active.work.submissions:
        return replace(state, active=replace(active, work=replaced(active.work)))
    if any(submission in work.submissions for work in state.parked):
        parked = (replaced(work) if submission in work.submissions else work for work in state.parked)
        return replace(state, parked=tuple(work for work in parked if any(each.replies for each in work.submissions)))
    queue: list[Work] = []
    for work in state.queue:
        if work.kind is not WorkKind.PLAN or submission not in work.submissions:
            queue.append(work)
        elif replies:
            queue.append(replaced(work))
    return replace(state, queue=tuple(queue))


def merged_submissions(state: State, work: PlanWork) -> tuple[State, PlanWork]:
    """Join a submission with those that follow it in the queue, and return the state without these.

    Moves for a job alone, for its tenant or at the cost of lower priorities are limited for that job: it is not joined.
    """
    limit = _shared_limit(state, work)
    if limit is None or not state.queue:
        return state, work
    together, queue, flows = list(work.submissions), list(state.queue), _flows(state, work)
    while queue and len(together) < MAX_TOGETHER:
        other = queue[0]
        if other.kind is not WorkKind.PLAN or _shared_limit(state, other) != limit:
            break
        flows += _flows(state, other)
        if flows > MAX_FLOWS_TOGETHER:
            break
        together += other.submissions
        queue.pop(0)
    return replace(state, queue=tuple(queue)), replace(work, submissions=tuple(together))


def _flows(state: State, work: PlanWork) -> int:
    return sum(flow_plans(request, state.fabric, MAX_FLOWS_TOGETHER + 1) for request in work.requests)


def _shared_limit(state: State, work: PlanWork) -> MoveLimit | None:
    """Return the limit of moves for a submission that can be joined with others; None for one that cannot."""
    limits = {limit_of(state, Cause.ARRIVAL, request) for request in work.requests}
    shared = not (work.alone or work.still or work.waits_for) and work.attempts == 1
    shared = shared and all(each.whose in (Whose.NONE, Whose.ANY) for each in limits)
    return limits.pop() if shared and len(limits) == 1 else None


def separated(work: PlanWork) -> tuple[PlanWork, ...]:
    """Return a plan for each submission alone, without those whose callers have left."""
    return tuple(replace(work, submissions=(each,), alone=True) for each in work.submissions if each.replies)


def withdraw(state: State, event: Withdraw, now: int) -> Outcome:
    """Drop a waiting submission, preview or suggestion that no other caller waits for.

    What is being planned stays active without callers, and its plan is discarded: one search at a time, however many
    callers leave. A job whose plan is being installed is finished: its switches hold parts of it already. It then holds
    its paths until its lease ends, and the same request submitted again returns it.
    """
    reply = event.reply
    for waiting in waiting_submissions(state):
        if reply in waiting.replies:
            return _with_replies(state, waiting, tuple(other for other in waiting.replies if other != reply)), ()
    # The first suggestion or preview is being planned already; its reply goes to no one.
    suggestions = tuple(one for one in state.suggestions if one.token is not None or one.reply != reply)
    previews = tuple(one for one in state.previews if one.token is not None or one.reply != reply)
    return replace(state, suggestions=suggestions, previews=previews), ()
