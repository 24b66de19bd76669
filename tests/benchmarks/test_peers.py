"""The peer planners: valid paths, loads that add up, and the properties that their papers state."""

import zlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.benchmarks.planning.peers.first_fit import global_first_fit, least_loaded
from heddle.benchmarks.planning.peers.hashing import FIRST_PORT, MIN_QUEUE_PAIRS, _crc32, _crc_table, e_ecmp, ecmp
from heddle.benchmarks.planning.peers.problem import problem_of
from heddle.benchmarks.planning.peers.shortest_path import shortest_path
from heddle.benchmarks.planning.peers.simulated_annealing import annealed, simulated_annealing
from heddle.controller.model.health import Health
from tests.benchmarks.path_checker import path_faults
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of

PEERS = (ecmp, e_ecmp, global_first_fit, least_loaded, simulated_annealing, shortest_path)
SHAPES = (
    {"spines": 2, "leaves": 3, "hosts_per_leaf": 2},
    {"spines": 3, "leaves": 2, "hosts_per_leaf": 3, "links_per_spine": 2},
    {"kind": "clos3", "pods": 2, "leaves": 2, "aggs_per_pod": 2, "spines": 4, "hosts_per_leaf": 2},
    {"kind": "rail_optimised", "spines": 2, "leaves": 4, "hosts_per_leaf": 2, "nics_per_host": 2},
)


def problem_on(shape, flows, *, failed=(), base_share=None):
    fabric = fabric_of(**{"links_per_spine": 1, **shape} if shape.get("kind") != "clos3" else shape)
    health = Health(down_cables=frozenset(fabric.cables[i].id for i in failed))
    return fabric, problem_of(fabric, [job_of(fabric, custom(*flows))], health=health, base_share=base_share)


def links_of(problem, answer):
    ids = problem.topology.link_ids
    return [[ids[hop] for hop in row if hop >= 0] for row in answer.hops.tolist()]


@st.composite
def small_problems(draw):
    shape = draw(st.sampled_from(SHAPES))
    fabric = fabric_of(**shape)
    ranks = st.integers(0, len(fabric.nics) - 1)
    flows = draw(st.lists(st.tuples(ranks, ranks).filter(lambda ends: ends[0] != ends[1]), min_size=1, max_size=12))
    failed = draw(st.lists(st.integers(0, len(fabric.cables) - 1), max_size=3, unique=True))
    return fabric, failed, flows


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.__name__)
@settings(max_examples=30)
@given(case=small_problems())
def test_every_peers_paths_are_live_and_go_up_and_then_down(peer, case):
    fabric, failed, flows = case
    health = Health(down_cables=frozenset(fabric.cables[i].id for i in failed))
    problem = problem_of(fabric, [job_of(fabric, custom(*flows))], health=health)
    assume(all(_can_meet(fabric, health, *pair) for pair in flows))
    answer = peer(problem, 1)
    nics = problem.topology.nic_ids
    rows = zip(problem.flows.src_nic[answer.row].tolist(), problem.flows.dst_nic[answer.row].tolist(), strict=True)
    ends = [(nics[a], nics[b]) for a, b in rows]
    assert path_faults(fabric, health, ends, links_of(problem, answer)) == []
    assert answer.demand.sum() == pytest.approx(problem.demand.sum())


def _can_meet(fabric, health, a, b):
    """Return whether some switch is above both NICs' leaves over live cables."""
    ups = [(c.lower.switch, c.upper.switch) for c in fabric.cables if c.id not in health.down_cables]

    def above(switches):
        more = switches | {high for low, high in ups if low in switches}
        return switches if more == switches else above(more)

    return bool(above({fabric.nics[a].port.switch}) & above({fabric.nics[b].port.switch}))


def test_loads_are_the_demands_of_the_paths_and_the_base_load():
    share = np.full(12, 0.25)
    _, problem = problem_on(SHAPES[0], [(0, 2), (1, 4)], base_share=share)
    answer = shortest_path(problem, 1)
    loads = answer.loads(problem)
    capacity = problem.capacity
    assert loads.sum() == pytest.approx((share * capacity).sum() + 2 * problem.demand.sum())
    assert answer.max_utilisation(problem) == pytest.approx(1.25)


def test_global_first_fit_takes_the_first_path_with_room():
    _, problem = problem_on(SHAPES[0], [(0, 2, 60_000_000_000), (1, 3, 60_000_000_000), (0, 3, 40_000_000_000)])
    assert [path[0] for path in links_of(problem, global_first_fit(problem, 1))] == [
        "leaf1:1>spine1:1",
        "leaf1:2>spine2:1",
        "leaf1:1>spine1:1",
    ]


def test_global_first_fit_leaves_a_flow_without_room_to_ecmp():
    _, problem = problem_on(SHAPES[0], [(0, 2), (1, 2), (0, 3), (1, 3)], base_share=np.full(12, 0.9))
    answer = global_first_fit(problem, 1)
    assert all(len(path) == 2 for path in links_of(problem, answer))


def test_the_greedy_spreads_flows_that_first_fit_stacks():
    _, problem = problem_on(SHAPES[0], [(0, 2, 30_000_000_000), (1, 3, 30_000_000_000)])
    assert global_first_fit(problem, 1).max_utilisation(problem) == pytest.approx(0.6)
    assert least_loaded(problem, 1).max_utilisation(problem) == pytest.approx(0.3)


@settings(max_examples=30)
@given(case=small_problems(), seed=st.integers(0, 3))
def test_annealing_returns_the_state_of_lowest_energy(case, seed):
    fabric, _, flows = case
    problem = problem_of(fabric, [job_of(fabric, custom(*flows))], health=Health())
    answer, best, first = annealed(problem, seed, 200)
    over = np.maximum(answer.loads(problem) - problem.capacity, 0).sum() / problem.capacity.max()
    assert best <= first
    assert over == pytest.approx(best, abs=1e-6)
    assert annealed(problem, seed, 0)[1] == pytest.approx(first, abs=1e-6)


def test_annealing_gives_all_flows_to_a_host_the_same_core():
    _, problem = problem_on(SHAPES[2], [(0, 7), (1, 7), (2, 7), (3, 7)])
    answer = simulated_annealing(problem, 1)
    assert len({path[-2] for path in links_of(problem, answer)}) == 1


def test_networkx_keeps_flows_apart_where_it_can():
    _, problem = problem_on(SHAPES[0], [(0, 2), (1, 3)])
    answer = shortest_path(problem, 1)
    assert answer.max_utilisation(problem) == 1.0


def test_e_ecmp_spreads_a_flow_over_four_queue_pairs_and_ecmp_does_not():
    _, problem = problem_on(SHAPES[0], [(0, 2), (1, 3)])
    assert ecmp(problem, 1).row.tolist() == [0, 1]
    assert e_ecmp(problem, 1).row.tolist() == [0] * MIN_QUEUE_PAIRS + [1] * MIN_QUEUE_PAIRS


def test_the_hash_is_the_crc32_of_the_tuple():
    octets = bytes([10, 0, 0, 1, 10, 0, 0, 2, 17, FIRST_PORT >> 8, FIRST_PORT & 255, 4791 >> 8, 4791 & 255])
    assert _crc32(_crc_table(), 10 << 24 | 1, 10 << 24 | 2, FIRST_PORT) == zlib.crc32(octets)


def test_the_same_seed_gives_the_same_paths():
    _, problem = problem_on(SHAPES[2], [(i, (i + 3) % 8) for i in range(8)])
    for peer in PEERS:
        assert (peer(problem, 3).hops == peer(problem, 3).hops).all()
