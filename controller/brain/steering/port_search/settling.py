"""After a link's change, confirm the source ports of running flows again once routers have changed their routes.

A routing protocol may do so after the port that failed was reported, and the hash changes with its routes. How long it
takes is not known: ports are confirmed at intervals that double, for half a minute.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome
from heddle.controller.brain.state import ReplanWork, State
from heddle.controller.brain.steering.interface import Step
from heddle.controller.model.effect import Wake
from heddle.controller.model.moves import Cause

MAX_SETTLE_MS = 30_000


def begin(state: State, now: int) -> Outcome:
    """Wait for the routes after a change of links."""
    settle_ms = state.settings.settle_ms
    return replace(state, settles_unix_ms=now + settle_ms, settle_ms=settle_ms), (Wake(after_ms=settle_ms),)


def settled(state: State, now: int) -> Step:
    """Confirm the ports where it is time, and wait twice as long for the next time."""
    if state.settles_unix_ms is None or now < state.settles_unix_ms:
        return Step(state)
    work = ReplanWork(cause=Cause.RECOVERY, reason="routes have settled", moves=False)
    next_ms = 2 * state.settle_ms
    if next_ms > MAX_SETTLE_MS:
        return Step(replace(state, settles_unix_ms=None), replan=work)
    state = replace(state, settles_unix_ms=now + next_ms, settle_ms=next_ms)
    return Step(state, (Wake(after_ms=next_ms),), replan=work)
