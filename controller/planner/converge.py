"""Plan running jobs all again: the goal of a convergence, which is the faster one of the paths now and of a full plan.

A session that moves few flows drifts from what a plan of all flows reaches, most of all where rings and all-to-alls
share links. All flows that may move are planned again, beside those that stay. The goal is better by the mean speed of
the jobs. The order of single moves to it does not exist in general: nearly all flows move, and most prefixes of the
moves slow some job. So the goal is taken all at once, or not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import Cause, MoveLimit
from heddle.controller.model.plan import Infeasible, Speeds
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.jit import Flags, Floats
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.proof.speeds import job_speeds
from heddle.controller.planner.route import Router
from heddle.controller.planner.solve import Chosen, Draft, draft

HAIR = 1e-6
"""A mean speed that differs by less is the same: rates are whole bit/s."""


class Goal(NamedTuple):
    """The draft of the goal, None where the paths now are the goal, and the speed of each job now and in the goal."""

    drafted: Draft | None
    speeds: Speeds


def goal_of(
    fabric: Fabric, router: Router, kept: Sequence[Placed], running: Paths, limit: MoveLimit, left: Topology | None
) -> Goal | Infeasible:
    """Return the goal of the jobs in `kept`, whose joined paths are `running`; `router` knows what is out of use.

    Jobs stay whose senders do not drain
    before a move, and those whose own limit does not let all of their flows move. Infeasible where more flows would
    move than `limit` allows, or no plan of all flows exists. `left` are the capacities that traffic of no job leaves on
    links into NICs.
    """
    counts = np.bincount(running.flows.job, minlength=len(kept))
    may = np.array([moves(request, int(count)) for (request, _), count in zip(kept, counts, strict=True)], np.bool_)
    rows: Flags = may[running.flows.job] if len(kept) else np.zeros(0, np.bool_)
    if limit.moves_none or not rows.any():
        return Infeasible(why="no job may move: its senders do not drain before a move, or its limit of moves is lower")
    chosen = Chosen(moved=rows, running=running)
    drafted = draft(fabric, (), health=Health(), kept=kept, chosen=chosen, router=router, left=left)
    if isinstance(drafted, Infeasible):
        return drafted
    moved = int((drafted.whole.hops != running.hops).any(axis=1).sum())
    if moved > limit.max_flows:
        return Infeasible(why=f"the goal moves {moved:,} flows, and the limit for a convergence is {limit.max_flows:,}")
    before, after = (
        job_speeds(router.topology, paths.flows, paths.hops, len(kept)) for paths in (running, drafted.whole)
    )
    is_better = bool(after.mean() > before.mean() + HAIR)
    return Goal(drafted if is_better else None, _speeds(kept, before, after if is_better else before))


def moves(request: JobRequest, flows: int) -> bool:
    """Return whether all flows of a job may move in a convergence; a limit of its own is for its own flows."""
    own = dict(request.move_limits).get(Cause.CONVERGENCE)
    return request.drains_before_moves and (own is None or (not own.moves_none and own.max_flows >= flows))


def _speeds(kept: Sequence[Placed], before: Floats, goal: Floats) -> Speeds:
    ids = [request.job_id for request, _ in kept]
    return Speeds(before=dict(zip(ids, before.tolist(), strict=True)), goal=dict(zip(ids, goal.tolist(), strict=True)))
