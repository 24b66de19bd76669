import random

import pytest

from heddle.controller.model.error import InputError
from heddle.controller.model.job import CollectiveKind
from heddle.mininet_topos.playground.fabric import lab_fabric
from heddle.mininet_topos.traffic.queue_pairs import hashed_pairs
from heddle.mininet_topos.traffic.workloads import (
    E_ECMP_QUEUE_PAIRS,
    PAYLOAD_BYTES,
    all_to_all,
    build_workloads,
    compute_nics,
    derangement,
    over_ports,
    permutation,
    ring,
)
from tests.fakes.demo_results import RATE_BPS, spine_leaf


def test_a_flow_of_nics_with_several_ports_is_an_even_part_in_each_plane():
    fabric = lab_fabric(None, 2).fabric
    nics = compute_nics(fabric)
    assert [(nic.id, nic.capacity_bps) for nic in nics] == [(f"h{host}-n0", 20_000_000) for host in range(1, 9)]
    whole = permutation(nics, 1, 1.0)
    found = over_ports(fabric, whole)
    assert found.job == whole.job
    assert set(found.job.ranks) == {nic.id for nic in nics}
    assert [(flow.src_nic, flow.dst_nic, flow.size_bytes, flow.part) for flow in found.flows] == [
        (f"{flow.src_nic}/p{part}", f"{flow.dst_nic}/p{part}", flow.size_bytes // 2, part)
        for flow in whole.flows
        for part in (0, 1)
    ]
    ids = [pair.flow_id for pair in hashed_pairs(fabric, found, "ecmp")]
    assert len(set(ids)) == len(ids) == 16


def test_a_flow_of_nics_with_one_port_is_its_only_part():
    fabric = spine_leaf()
    whole = permutation(compute_nics(fabric), 1, 1.0)
    assert over_ports(fabric, whole) == whole


@pytest.mark.parametrize("seed", range(20))
def test_every_flow_of_a_permutation_crosses_leaves_where_the_fabric_allows_it(seed):
    fabric = spine_leaf()
    flows = permutation(fabric.nics, seed, 1.0).flows
    leaf = {nic.id: nic.port.switch for nic in fabric.nics}
    assert all(leaf[flow.src_nic] != leaf[flow.dst_nic] for flow in flows)


@pytest.mark.parametrize("seed", range(20))
def test_a_permutation_has_every_nic_send_once_and_receive_once(seed):
    flows = permutation(spine_leaf().nics, seed, 1.0).flows
    assert sorted(flow.src_rank for flow in flows) == sorted(flow.dst_rank for flow in flows) == list(range(8))


def test_a_seed_always_gives_the_same_permutation():
    nics = spine_leaf().nics
    assert permutation(nics, 7, 1.0) == permutation(nics, 7, 1.0)


def test_different_seeds_give_different_permutations():
    nics = spine_leaf().nics
    assert len({permutation(nics, seed, 1.0).flows for seed in range(10)}) > 5


def test_a_permutation_on_one_leaf_stays_on_it_but_leaves_every_host():
    nics = spine_leaf(leaves=1, hosts_per_leaf=5).nics
    targets = derangement(nics, random.Random(1))
    assert all(src != dst for src, dst in enumerate(targets))


def test_a_permutation_of_many_nics_per_host_is_found_by_matching_where_draws_do_not_find_it():
    nics = spine_leaf(leaves=2, hosts_per_leaf=1, nics_per_host=12).nics
    targets = derangement(nics, random.Random(1))
    assert all(nics[src].host != nics[dst].host for src, dst in enumerate(targets))


def test_a_host_with_more_than_half_of_the_nics_has_no_permutation():
    nics = spine_leaf(leaves=1, hosts_per_leaf=2, nics_per_host=3).nics[:4]
    with pytest.raises(InputError, match="more than half"):
        derangement(nics, random.Random(1))


def test_a_fabric_with_one_host_is_refused():
    with pytest.raises(InputError, match="at least 2 hosts"):
        build_workloads(spine_leaf(leaves=1, hosts_per_leaf=1), ("ring",), (1,), 1.0)


def test_a_permutation_runs_under_every_seed_and_the_others_under_the_first():
    found = build_workloads(spine_leaf(), ("permutation", "ring", "all-to-all"), (5, 6), 1.0)
    assert [w.name for w in found] == ["permutation seed 5", "permutation seed 6", "ring seed 5", "all-to-all seed 5"]


def test_a_flow_with_its_path_to_itself_takes_the_seconds_asked_for():
    flow = permutation(spine_leaf().nics, 1, 2.5).flows[0]
    assert flow.size_bytes * 8 / RATE_BPS == pytest.approx(2.5, rel=0.01)


@pytest.mark.parametrize("workload", [permutation, ring, all_to_all])
def test_a_flow_splits_into_queue_pairs_of_whole_packets(workload):
    assert workload(spine_leaf().nics, 1, 0.7).flows[0].size_bytes % (E_ECMP_QUEUE_PAIRS * PAYLOAD_BYTES) == 0


def test_a_ring_goes_from_each_rank_to_the_next_and_back_to_the_first():
    flows = ring(spine_leaf().nics, 1, 1.0).flows
    assert [(flow.src_rank, flow.dst_rank) for flow in flows] == [(i, (i + 1) % 8) for i in range(8)]


def test_a_rings_job_asks_for_the_all_reduce_that_moves_what_its_flows_move():
    found = ring(spine_leaf().nics, 1, 1.0)
    (collective,) = found.job.collectives
    assert collective.kind is CollectiveKind.RING_ALL_REDUCE
    assert 2 * 7 / 8 * collective.size_bytes == pytest.approx(found.flows[0].size_bytes)


def test_an_all_to_alls_job_asks_for_an_eighth_of_its_buffer_per_rank():
    found = all_to_all(spine_leaf().nics, 1, 1.0)
    (collective,) = found.job.collectives
    assert len(found.flows) == 56
    assert collective.size_bytes == 8 * found.flows[0].size_bytes


def test_nics_of_one_host_are_no_flow_of_the_fabric():
    flows = all_to_all(spine_leaf(leaves=2, hosts_per_leaf=1, nics_per_host=2).nics, 1, 1.0).flows
    assert len(flows) == 8
