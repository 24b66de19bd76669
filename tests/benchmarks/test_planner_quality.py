"""Full plans reach the targets of their families of cases on fabrics of any size."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.benchmarks.planning.cases import FAMILIES, Case
from heddle.benchmarks.planning.quality import measured
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.grid import grid_of
from heddle.controller.planner.ground.shape import shape_of
from heddle.controller.planner.route import Router
from heddle.controller.planner.search.repair import lower
from heddle.controller.planner.search.spread import GridFlows, spread

SIZES, SEEDS = st.integers(16, 2000), st.integers(0, 2**32 - 1)


def case_of(family: str, flows: int, seed: int) -> Case:
    return FAMILIES[family](flows, np.random.default_rng(seed))


def ratio_of(family: str, flows: int, seed: int) -> float:
    return measured(family, case_of(family, flows, seed), runs=1, ecmp=False).ours


@pytest.mark.parametrize("family", sorted(name for name in FAMILIES if name.startswith("equal-")))
@given(flows=SIZES, seed=SEEDS)
@settings(max_examples=8)
def test_equal_demands_on_a_healthy_fabric_meet_their_bound(family, flows, seed):
    assert ratio_of(family, max(flows, 64), seed) <= 1 + 1e-12


@pytest.mark.parametrize("family", ["lean-q4", "lean-q1", "lean-local"])
@given(flows=SIZES, seed=SEEDS)
@settings(max_examples=8)
def test_lean_three_tiers_are_at_most_one_quantum_above_their_bound(family, flows, seed):
    assert measured(family, case_of(family, max(flows, 64), seed), runs=1, ecmp=False).met


@pytest.mark.parametrize("family", ["failed-q1", "failed-q4", "failed-q8", "residual", "mixed", "mixed-failed"])
@given(flows=st.integers(1000, 3000), seed=SEEDS)
@settings(max_examples=5)
def test_failures_other_load_and_mixed_rates_cost_at_most_two_per_cent(family, flows, seed):
    assert ratio_of(family, flows, seed) <= 1.02


@given(flows=st.integers(64, 1500), seed=SEEDS)
@example(flows=256, seed=35)
@settings(max_examples=10)
def test_queue_pairs_of_one_flow_take_different_uplinks_where_there_are_enough(flows, seed):
    case = case_of("equal-q8", flows, seed)
    topology = topology_of(case.fabric)
    rows = expand(topology, case.jobs)
    uplinks = len({cable.upper.switch for cable in case.fabric.cables})
    bundle, priority = np.full(len(rows), -1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    live = Live.of(topology, case.health)
    hops = Router(topology=topology, live=live).route(rows, priority, [], bundle, {})
    for first in range(0, len(rows), 8):
        taken = {hop for hop in hops[first : first + 8, 0].tolist() if hop >= 0}
        assert len(taken) in (0, min(8, uplinks))


@given(flows=st.integers(64, 800), seed=SEEDS, family=st.sampled_from(["mixed-failed", "mixed-3t-failed", "powers"]))
@settings(max_examples=15)
def test_the_search_never_makes_the_fullest_link_fuller_and_keeps_count_of_loads(flows, seed, family):
    case = case_of(family, flows, seed)
    topology = topology_of(case.fabric)
    live = Live.of(topology, case.health)
    leaves = np.flatnonzero(topology.tier == 0)
    shape = shape_of(topology, Live.of(topology, type(case.health)()), leaves)
    assert shape is not None
    rows = expand(topology, case.jobs)
    row = np.zeros(len(topology.switch_ids), dtype=np.int64)
    row[leaves] = np.arange(len(leaves))
    start, end = row[topology.nic_leaf[rows.src_nic]], row[topology.nic_leaf[rows.dst_nic]]
    apart = start != end
    start, end, demand = start[apart], end[apart], rows.demand_bps[apart].astype(np.float64)
    grid = grid_of(topology, live, shape, np.zeros(len(topology.capacity)))
    column, core = np.full(len(start), -1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    flows = GridFlows(start, end, demand, column, core)
    order = np.argsort(-demand, kind="stable")
    if spread(grid, start, end, demand, column, core, order):
        return
    before = float((grid.load * grid.inverse).max())
    after = lower(grid, flows, 0.0, 1_000_000, 16, 2)
    assert after <= before
    assert float((grid.load * grid.inverse).max()) == after
    assert grid.load[: grid.leaves * grid.columns].sum() == demand.sum()
