"""Plan running jobs all again: the goal of a convergence, which is the faster one of the paths now and of a full plan.

A session that moves few flows drifts from what a plan of all flows reaches, most of all where rings and all-to-alls
share links. All flows that may move are planned again, beside those that stay. The goal is better by the mean speed of
the jobs. Nearly all flows move, and no order of single moves is known in which no job is slower meanwhile: the goal is
taken all at once, or not.

What counts is time: a goal that comes late serves few. The paths come from a short search (`_outlines`); where the
paths now are as good already, from a longer one that begins with them (`_further`). Incasts are not confined to few top
switches, which would leave uneven links.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import Cause, MoveLimit
from heddle.controller.model.plan import Infeasible, Speeds
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.proof.bound import lower_bound
from heddle.controller.planner.proof.speeds import job_speeds
from heddle.controller.planner.route import Router
from heddle.controller.planner.search.joint import Joint
from heddle.controller.planner.solve import Chosen, Draft, draft
from heddle.controller.planner.spread.lists import may_spray

HAIR = 1e-6
"""A mean speed that differs by less is the same: rates are whole bit/s."""
TIMES_FURTHER = 4
"""A search from paths that have converged is so many times as long: meanwhile the jobs are nearly as fast."""


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
    if len(router.planes) > 1 or may_spray(router.topology, [request for request, _ in kept]):
        return Infeasible(why="flows that are sprayed over several paths or planes do not converge")
    counts = np.bincount(running.flows.job, minlength=len(kept))
    may = np.array([moves(request, int(count)) for (request, _), count in zip(kept, counts, strict=True)], np.bool_)
    rows: Flags = may[running.flows.job] & _in_use(router, running) if len(kept) else np.zeros(0, np.bool_)
    if limit.moves_none or not rows.any():
        return Infeasible(why="no job may move: its senders do not drain before a move, or its limit of moves is lower")
    before = job_speeds(router.topology, running.flows, running.hops, len(kept))
    best, after = _fastest(router, kept, running, rows, float(before.mean()))
    if after is not None and after.mean() <= before.mean() + HAIR:
        return Goal(None, _speeds(kept, before, before))
    is_quick = best is not None
    chosen = Chosen(hops=best, moved=rows, running=running, as_given=is_quick, mirrored=is_quick)
    drafted = draft(fabric, (), health=Health(), kept=kept, chosen=chosen, router=router, left=left)
    if isinstance(drafted, Infeasible):
        return drafted
    moved = int((drafted.whole.hops != running.hops).any(axis=1).sum())
    if moved > limit.max_flows:
        return Infeasible(why=f"the goal moves {moved:,} flows, and the limit for a convergence is {limit.max_flows:,}")
    if after is None:
        after = job_speeds(router.topology, drafted.whole.flows, drafted.whole.hops, len(kept))
    is_better = bool(after.mean() > before.mean() + HAIR)
    return Goal(drafted if is_better else None, _speeds(kept, before, after if is_better else before))


def _in_use(router: Router, running: Paths) -> Flags:
    """Return which flows have both NICs in use; the others stay where they are."""
    nics: Flags = router.live.links[router.topology.first_nic_link :]
    return nics[running.flows.src_nic] & nics[running.flows.dst_nic]


def _fastest(
    router: Router, kept: Sequence[Placed], running: Paths, rows: Flags, before: float
) -> tuple[Ints | None, Floats | None]:  # fmt: skip
    """Return new paths of the flows `rows` with the highest mean speed of jobs, and the speeds.

    `before` is the mean speed on the paths now. None where flows share paths, or jobs have several priorities: there it
    takes the whole planner to find paths.
    """
    topology, links = router.topology, 2 * router.topology.cables
    flows, best, fastest = running.flows.rows(rows), None, None
    if len({request.priority for request, _ in kept}) > 1 or flows.by_addresses.any() or (flows.fixed_port > 0).any():
        return None, None
    base = link_loads(topology, running.flows.rows(~rows), running.hops[~rows])[:links]
    base = np.where(router.live.links[:links], base, 0.0)
    joint = Joint.of(topology, router.live, router.segments, flows, base)
    if joint is None:
        return None, None
    goal = _least_maximum(router, flows, base)
    outlines = _outlines(joint, router.by_phase(flows, joint, base), goal)
    while (hops := next(outlines, None)) is not None:
        whole = running.hops.copy()
        whole[rows] = hops
        speeds = job_speeds(topology, running.flows, whole, len(kept))
        if fastest is None and speeds.mean() <= before:
            outlines = _further(joint, running.hops[rows], goal)
        if fastest is None or speeds.mean() > fastest.mean():
            best, fastest = hops, speeds
    return best, fastest


def _least_maximum(router: Router, flows: Flows, base: Floats) -> float:
    """Return what no plan of these flows beside a load in bit/s per link brings the fullest link below."""
    fullest = float((base / np.maximum(router.topology.capacity[: len(base)], 1)).max(initial=0.0))
    return max(lower_bound(router.topology, router.live, flows).value, fullest)


def _outlines(joint: Joint, first: Ints, goal: float) -> Iterator[Ints]:
    """Yield paths of flows of one priority that share none, from those of a first search by phase.

    They take a fourth of the time of `Router.route`: the largest flows first, the others where links are emptiest, then
    with a lower maximum, and with even loads.
    """
    free = np.ones(len(first), dtype=np.bool_)
    yield first
    yield joint.halved(first, goal)
    yield joint.evened(joint.halved(joint.evened(first, free), goal), free)


def _further(joint: Joint, now: Ints, goal: float) -> Iterator[Ints]:
    """Yield paths with a lower maximum than those now, which are as good as a first search: jobs have converged."""
    found = joint.halved(now, goal, TIMES_FURTHER)
    yield found
    yield joint.evened(found, np.ones(len(now), dtype=np.bool_))


def moves(request: JobRequest, flows: int) -> bool:
    """Return whether all flows of a job may move in a convergence; a limit of its own is for its own flows."""
    own = dict(request.move_limits).get(Cause.CONVERGENCE)
    return request.drains_before_moves and (own is None or (not own.moves_none and own.max_flows >= flows))


def _speeds(kept: Sequence[Placed], before: Floats, goal: Floats) -> Speeds:
    ids = [request.job_id for request, _ in kept]
    return Speeds(before=dict(zip(ids, before.tolist(), strict=True)), goal=dict(zip(ids, goal.tolist(), strict=True)))
