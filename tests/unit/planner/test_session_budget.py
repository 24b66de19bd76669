"""Sessions with a budget of moves: what an event spends it on."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.planner.session import state
from heddle.controller.planner.session.delta import Delta
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session
from tests.support.fabrics.planner_cases import fabric_of

GBPS = 10**9


def moves(budget):
    return Moves(budget=budget, who=Movable.ALL)


def pairs(fabric, job_id, *phases, gbps=100):
    """Return a job with a phase per list of pairs of NICs, numbered from 0."""
    numbers = sorted({nic for pairs in phases for pair in pairs for nic in pair})
    flows = [
        tuple(FlowDemand(src_rank=numbers.index(a), dst_rank=numbers.index(b), rate_bps=gbps * GBPS) for a, b in pairs)
        for pairs in phases
    ]
    collectives = tuple(
        Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=some, phase=phase)
        for phase, some in enumerate(flows)
    )
    return JobRequest(job_id=job_id, ranks=tuple(fabric.nics[n].id for n in numbers), collectives=collectives)


def added(session, request, budget) -> Delta:
    answer = session.add(request, moves(budget))
    assert isinstance(answer, Delta), answer.why
    return answer


def permuted(fabric, budget, seed):
    """Return the fullest link after each NIC has sent to another one, one job after the other."""
    session, to = Session.begin(fabric), np.random.default_rng(seed).permutation(len(fabric.nics)).tolist()
    deltas = [added(session, pairs(fabric, f"job{a}", [(a, b)]), budget) for a, b in enumerate(to) if a != b]
    assert all(delta.moved <= budget for delta in deltas)
    return deltas[-1].max_link_utilisation


@pytest.mark.parametrize("seed", [2, 4])
def test_a_few_moves_for_each_job_of_a_permutation_avoid_collisions_in_three_tiers(seed):
    fabric = fabric_of(kind="clos3", spines=4, aggs_per_pod=2, pods=4, leaves=2, hosts_per_leaf=2)
    assert permuted(fabric, 0, seed) == 2.0
    assert permuted(fabric, 8, seed) == 1.0


def test_a_budget_also_removes_a_collision_that_an_earlier_event_left():
    fabric = fabric_of(spines=4, leaves=4, hosts_per_leaf=4)
    session, to = Session.begin(fabric), np.random.default_rng(2).permutation(16).tolist()
    for a, b in enumerate(to):
        added(session, pairs(fabric, f"job{a}", [(a, b)]), 0)
    assert session.max_link_utilisation() == 2.0
    session.remove("job0", moves(0))
    assert session.max_link_utilisation() == 2.0
    added(session, pairs(fabric, "again", [(0, to[0])]), 16)
    assert session.max_link_utilisation() == 1.0


@pytest.mark.parametrize(
    "shape", [{"spines": 4, "leaves": 4}, {"kind": "clos3", "spines": 16, "aggs_per_pod": 4, "pods": 3, "leaves": 4}]
)
def test_a_full_leaf_that_loses_a_link_slows_two_flows_of_one_job_each_way(shape):
    fabric = fabric_of(**shape, hosts_per_leaf=4)
    session, nics = Session.begin(fabric), len(fabric.nics)
    for job in range(4):
        some = [(a, (a + 4 * (1 + a % 4 % 3)) % nics) for a in range(nics) if a % 8 // 2 == job]
        added(session, pairs(fabric, f"job{job}", some), 0)
    inverse = session._store.s.inverse.copy()
    session.link_down(fabric.cables[0].id, moves(32))
    hops = [session.hops(job.job_id) for job in session.jobs]
    full = np.flatnonzero(np.bincount(np.concatenate([found[found >= 0] for found in hops])) > 1)
    slow = [int(np.isin(found, full).any(axis=1).sum()) for found in hops]
    assert (session.max_link_utilisation(), sum(slow)) == (2.0, 4)
    assert sum(count > 0 for count in slow) <= 2
    assert int((session._store.s.inverse != inverse).sum()) == 2  # the failed cable's


def on_last_column(session):
    """Return how many flows go up by the last uplink of their leaf."""
    paths = np.concatenate([session.hops(job.job_id) for job in session.jobs])
    return int(np.isin(paths[:, 0], session._store.s.up_leaf[:, -1]).sum())


@pytest.mark.parametrize(("gbps", "budget", "left"), [(100, 16, 0), (100, 2, 1), (100, 0, 3), (25, 16, 3)])
def test_in_three_tiers_moves_that_are_left_empty_the_last_column_where_links_carry_one_flow(gbps, budget, left):
    fabric = fabric_of(kind="clos3", spines=16, aggs_per_pod=4, pods=2, leaves=2, hosts_per_leaf=4)
    session = Session.begin(fabric)
    for column in range(4):
        to_next_leaf = [(4 * leaf + column, (4 * leaf + 4 + column) % 16) for leaf in range(4)]
        added(session, pairs(fabric, f"job{column}", to_next_leaf, gbps=gbps), 0)
    session.remove("job0")
    delta = session.make_room(moves(budget))
    assert (on_last_column(session), delta.moved) == (left, 3 - left)
    assert delta.max_link_utilisation == gbps / 100


def test_phases_of_one_job_share_links_without_a_collision():
    fabric = fabric_of(spines=2, leaves=2, hosts_per_leaf=2)
    session = Session.begin(fabric)
    added(session, pairs(fabric, "other", [(0, 2)]), 0)
    delta = added(session, pairs(fabric, "phases", [(1, 3)], [(1, 3)]), 0)
    assert (delta.max_link_utilisation, delta.shared) == (1.0, 0)


def test_a_budget_lowers_the_fullest_link_of_mixed_sizes():
    fabric = fabric_of(spines=2, leaves=2, hosts_per_leaf=4)
    session = Session.begin(fabric)
    added(session, pairs(fabric, "a", [(0, 4), (1, 5)], gbps=60), 0)
    added(session, pairs(fabric, "b", [(2, 6), (3, 7)], gbps=40), 0)
    session.remove("a", moves(0))
    delta = added(session, pairs(fabric, "c", [(0, 4)], gbps=90), 1)
    assert delta.max_link_utilisation == pytest.approx(0.9)


@pytest.mark.parametrize("budget", [0, 8])
def test_an_all_to_all_beside_other_jobs_uses_the_links_of_the_ring_of_its_job(budget):
    fabric = fabric_of(spines=4, leaves=2, hosts_per_leaf=4)
    session = Session.begin(fabric)
    added(session, pairs(fabric, "other", [(2, 6), (6, 2)]), budget)
    ring, ranks = [(0, 4), (4, 1), (1, 5), (5, 0)], (0, 4, 1, 5)
    across = [(a, b) for a in ranks for b in ranks if a // 4 != b // 4]
    job = pairs(fabric, "job", ring, across)
    added(session, replace(job, collectives=(job.collectives[0], at_rate(job.collectives[1], 33))), budget)
    hops = session.hops("job")
    assert set(hops[len(ring) :].ravel().tolist()) <= set(hops[: len(ring)].ravel().tolist())
    assert session.max_link_utilisation() == 1.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_whose_changes_outgrow_the_log_gets_the_same_paths(seed, monkeypatch):
    fabric = fabric_of(spines=4, leaves=4, hosts_per_leaf=8)
    nics = [fabric.nics[nic].id for nic in np.random.default_rng(seed).permutation(len(fabric.nics)).tolist()]
    both = tuple(
        Collective(kind=kind, size_bytes=1000, phase=phase)
        for phase, kind in enumerate((CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL))
    )
    found = []
    for rows in (state.SPARE_LOG, 1024):
        monkeypatch.setattr(state, "SPARE_LOG", rows)
        session = Session.begin(fabric)
        added(session, JobRequest(job_id="other", ranks=tuple(nics[:8]), collectives=both), 8)
        delta = added(session, JobRequest(job_id="job", ranks=tuple(nics[8:]), collectives=both), 8)
        found.append((session.hops("job").tolist(), list(delta)))
    assert found[0] == found[1]


def at_rate(collective, gbps):
    """Return a collective whose flows send at this rate."""
    return replace(collective, flows=tuple(flow._replace(rate_bps=gbps * GBPS) for flow in collective.flows))
