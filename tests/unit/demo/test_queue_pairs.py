import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

from heddle.controller.model.error import HeddleError
from heddle.mininet_topos.traffic.queue_pairs import HEADROOM, demands, hashed_pairs, planned_pairs, with_shares
from heddle.mininet_topos.traffic.workloads import all_to_all, permutation
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.demo_results import RATE_BPS, path, spine_leaf

FABRIC = spine_leaf()
PERMUTATION = permutation(FABRIC.nics, 1, 1.0)


def plan_of(workload, rate=RATE_BPS):
    return [
        pb.FlowPlan(
            flow_id=f"job/0/{flow.src_rank}-{flow.dst_rank}/0",
            src_nic=flow.src_nic,
            dst_nic=flow.dst_nic,
            links=path(FABRIC, flow.src_nic, flow.dst_nic, 0),
            udp_source_port=50000,
            reverse_udp_source_port=50001,
            rate_bps=rate,
            demand_bps=RATE_BPS,
        )
        for flow in workload.flows
    ]


def test_ecmp_is_one_queue_pair_per_flow():
    assert [pair.flow for pair in hashed_pairs(FABRIC, PERMUTATION, "ecmp")] == list(range(8))


def test_e_ecmp_splits_each_flow_evenly_over_four():
    pairs = hashed_pairs(FABRIC, PERMUTATION, "e-ecmp")
    assert len(pairs) == 32
    assert {4 * pair.size_bytes for pair in pairs} == {PERMUTATION.flows[0].size_bytes}


def test_queue_pairs_between_the_same_nics_have_different_ports():
    pairs = hashed_pairs(FABRIC, PERMUTATION, "e-ecmp")
    assert len({(pair.src_nic, pair.dst_nic, pair.udp_source_port) for pair in pairs}) == 32


def test_ports_lie_in_the_dynamic_range():
    assert all(49152 <= pair.udp_source_port <= 65535 for pair in hashed_pairs(FABRIC, PERMUTATION, "e-ecmp"))


def test_a_workload_under_a_mode_always_draws_the_same_ports():
    assert hashed_pairs(FABRIC, PERMUTATION, "ecmp") == hashed_pairs(FABRIC, PERMUTATION, "ecmp")


def test_another_seed_draws_other_ports():
    other = replace(PERMUTATION, seed=2)
    drawn = [[p.udp_source_port for p in hashed_pairs(FABRIC, w, "ecmp")] for w in (PERMUTATION, other)]
    assert drawn[0] != drawn[1]


def test_an_all_to_all_asks_for_a_seventh_of_the_nic_per_flow():
    assert set(demands(FABRIC, all_to_all(FABRIC.nics, 1, 1.0))) == {RATE_BPS // 7}


def test_flows_that_share_an_uplink_are_paced_at_half():
    pairs = [
        replace(pair, links=path(FABRIC, pair.src_nic, pair.dst_nic, 0))
        for pair in hashed_pairs(FABRIC, PERMUTATION, "ecmp")
    ]
    assert {pair.pace_bps for pair in with_shares(FABRIC, pairs)} == {int(Fraction(RATE_BPS, 2) * HEADROOM)}


def test_the_queue_pairs_of_a_nic_start_spread_over_the_time_of_a_packet():
    workload = all_to_all(FABRIC.nics, 1, 1.0)
    pairs = [
        replace(pair, links=path(FABRIC, pair.src_nic, pair.dst_nic, pair.flow % 2))
        for pair in hashed_pairs(FABRIC, workload, "ecmp")
    ]
    phases = sorted(pair.start_fraction for pair in with_shares(FABRIC, pairs) if pair.src_nic == "h3-n0")
    gaps = [after - before for before, after in itertools.pairwise([*phases, phases[0] + 1])]
    assert gaps == pytest.approx([1 / 7] * 7)


def test_a_nic_with_several_senders_is_filled_to_95_percent():
    workload = all_to_all(FABRIC.nics, 1, 1.0)
    pairs = [
        replace(pair, links=path(FABRIC, pair.src_nic, pair.dst_nic, pair.flow % 2))
        for pair in hashed_pairs(FABRIC, workload, "ecmp")
    ]
    into = sum(pair.share_bps for pair in with_shares(FABRIC, pairs) if pair.dst_nic == "h1-n0")
    assert into <= Fraction(95, 100) * RATE_BPS


def test_a_planned_queue_pair_takes_path_ports_and_rate_from_the_plan():
    pair = planned_pairs(PERMUTATION, plan_of(PERMUTATION, rate=1_000_000))[0]
    assert (pair.udp_source_port, pair.reverse_udp_source_port) == (50000, 50001)
    assert pair.links[0].startswith(pair.src_nic)


def test_planned_and_hashed_queue_pairs_on_the_same_paths_are_paced_alike():
    planned = with_shares(FABRIC, planned_pairs(PERMUTATION, plan_of(PERMUTATION)))
    hashed = with_shares(
        FABRIC,
        [
            replace(pair, links=path(FABRIC, pair.src_nic, pair.dst_nic, 0))
            for pair in hashed_pairs(FABRIC, PERMUTATION, "ecmp")
        ],
    )
    assert [pair.pace_bps for pair in planned] == [pair.pace_bps for pair in hashed]


def test_a_plan_that_lacks_a_flow_is_refused():
    with pytest.raises(HeddleError, match="the plan has 7 flows"):
        planned_pairs(PERMUTATION, plan_of(PERMUTATION)[1:])


def test_a_plan_with_a_flow_of_another_job_is_refused():
    foreign = pb.FlowPlan(flow_id="other/0/0-1/0", src_nic="h1-n0", dst_nic="h1-n0")
    with pytest.raises(HeddleError, match="which the workload has not"):
        planned_pairs(PERMUTATION, [*plan_of(PERMUTATION), foreign])
