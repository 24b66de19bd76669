"""The goal of a convergence: faster than the paths now or those, and sought further from where jobs have converged."""

from typing import Any

import numpy as np
import pytest

from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.moves import MAX_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import Replan
from heddle.controller.planner import converge
from heddle.controller.planner.online import OnlinePlanner
from tests.support.fabrics.small_fabrics import spine_leaf

FABRIC = spine_leaf(4, 4, 16, 10**9)
ALL = MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES)


def mixed(name, places):
    """Return a ring and an all-to-all, one after the other, four queue pairs each."""
    kinds = (CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL)
    sent = tuple(Collective(kind=kind, size_bytes=10**9, qps_per_flow=4, phase=n) for n, kind in enumerate(kinds))
    ranks = tuple(FABRIC.nics[place].id for place in places)
    return JobRequest(job_id=name, ranks=ranks, collectives=sent, drains_before_moves=True)


def drifted(seed):
    """Return a planner and jobs that arrived one after the other, at random places."""
    planner = OnlinePlanner(FABRIC)
    kept: tuple[Any, ...] = ()
    places = np.random.default_rng(seed).permutation(len(FABRIC.nics)).tolist()
    for number in range(4):
        request = mixed(f"job{number}", places[4 * number : 4 * number + 4])
        plan = planner.solve((request,), health=Health(), kept=kept)
        assert isinstance(plan, Replan)
        kept = tuple(zip((*(each for each, _ in kept), request), plan.jobs, strict=True))
    return planner, kept


def goal(planner, kept):
    found = planner.solve((), health=Health(), kept=kept, limit=ALL, converge=True)
    assert isinstance(found, Replan)
    assert found.speeds is not None
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_goal_that_is_sought_again_and_again_is_never_slower_than_the_paths_now(seed):
    planner, kept = drifted(seed)
    for _ in range(3):
        found = goal(planner, kept)
        assert found.speeds.gain >= 0
        now = [placed[0] for placed in kept]
        kept = tuple(zip(now, found.jobs, strict=True))
        again = goal(OnlinePlanner(FABRIC), kept)
        assert sum(again.speeds.before.values()) == pytest.approx(sum(found.speeds.goal.values()))


def test_where_the_jobs_have_converged_the_search_begins_with_their_paths(monkeypatch):
    starts = []
    further = converge._further

    def seen(joint, now, least):
        starts.append(now)
        return further(joint, now, least)

    monkeypatch.setattr(converge, "_further", seen)
    planner, kept = drifted(1)
    for _ in range(2):
        kept = tuple(zip([each for each, _ in kept], goal(planner, kept).jobs, strict=True))
    goal(planner, kept)
    assert (starts[-1] == np.concatenate([job.flows.hops for _, job in kept])).all()
