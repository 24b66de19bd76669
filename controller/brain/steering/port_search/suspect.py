"""React to samples of running flows: a source port that leads elsewhere makes all ports of its leaf suspect."""

from heddle.controller.brain.state import ReplanWork, State
from heddle.controller.brain.steering.interface import Step
from heddle.controller.model.effect import Note
from heddle.controller.model.event import PortsAstray
from heddle.controller.model.moves import Cause


def ports_astray(state: State, event: PortsAstray, now: int) -> Step:
    """Confirm the ports of all running flows from these leaves, as after a link has changed."""
    leaves = [leaf for leaf in state.fabric.leaves if leaf in event.leaves]
    if not leaves or not state.jobs:
        return Step(state)
    more = f" and {len(leaves) - 1} other leaves" if len(leaves) > 1 else ""
    reason = f"ports from {leaves[0]}{more} lead elsewhere"
    work = ReplanWork(cause=Cause.RECOVERY, reason=reason, moves=False, suspects=frozenset(leaves))
    text = "a running flow's port leads elsewhere than planned: the hash or a route has changed; all are confirmed"
    notes = tuple(Note(severity="warning", subject=leaf, text=text) for leaf in leaves)
    return Step(state, notes, replan=work)
