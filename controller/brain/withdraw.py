"""Withdraw the request of a caller that left: what has not begun to be installed is dropped.

A job whose plan is being installed is finished: its switches hold parts of it already. It then holds its paths until
its lease ends, and the same request submitted again returns it.
"""

from dataclasses import replace

from controller.brain.install import Outcome
from controller.brain.lifecycle import WorkKind
from controller.brain.state import PlanWork, State
from controller.model.event import Withdraw


def withdraw(state: State, event: Withdraw, now: int) -> Outcome:
    """Drop a waiting submission, preview or suggestion that no other caller waits for.

    What is being planned stays active without callers, and its plan is discarded: one search at a time, however many
    callers leave.
    """
    reply, active = event.reply, state.active
    for place, work in enumerate(state.queue):
        if work.kind is WorkKind.PLAN and reply in work.replies:
            left = _without(work, reply)
            kept = (left,) if left.replies else ()
            return replace(state, queue=(*state.queue[:place], *kept, *state.queue[place + 1 :])), ()
    if (
        active is not None
        and active.before is None
        and active.work.kind is WorkKind.PLAN
        and reply in active.work.replies
    ):
        return replace(state, active=replace(active, work=_without(active.work, reply))), ()
    # The first suggestion or preview is being planned already; its reply goes to no one.
    suggestions = tuple(one for one in state.suggestions if one.token is not None or one.reply != reply)
    previews = tuple(one for one in state.previews if one.token is not None or one.reply != reply)
    return replace(state, suggestions=suggestions, previews=previews), ()


def _without(work: PlanWork, reply: int) -> PlanWork:
    return replace(work, replies=tuple(other for other in work.replies if other != reply))
