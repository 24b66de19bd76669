import pytest

from heddle.controller.model.error import InputError
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import expand
from tests.support.fabrics.planner_cases import custom, fabric_of, flows_of

G100 = 100 * 10**9


def pairs(flows):
    return [(flow.src_rank, flow.dst_rank) for flow in flows]


def test_a_ring_of_four_ranks_becomes_four_flows():
    flows = flows_of(fabric_of(), {"kind": "RING_ALL_REDUCE", "bytes": 1})
    assert pairs(flows) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert [flow.demand_bps for flow in flows] == [G100] * 4


def test_members_form_a_ring_in_the_order_given():
    flows = flows_of(fabric_of(), {"kind": "ALL_GATHER", "bytes": 1, "members": [3, 0, 2]})
    assert pairs(flows) == [(3, 0), (0, 2), (2, 3)]


def test_elastic_demand_is_the_smaller_of_the_shares_at_both_nics():
    flows = flows_of(fabric_of(), {"kind": "GATHER", "bytes": 1, "root": 0}, custom((1, 2)))
    assert {(flow.src_rank, flow.dst_rank): flow.demand_bps for flow in flows} == {
        (1, 0): 33_333_333_333,
        (2, 0): 33_333_333_333,
        (3, 0): 33_333_333_333,
        (1, 2): 50_000_000_000,
    }


def test_flows_of_another_phase_or_with_a_rate_do_not_count_as_elastic_neighbours():
    flows = flows_of(fabric_of(), custom((0, 2), (0, 3, 7)), custom((0, 1), phase=1))
    assert [flow.demand_bps for flow in flows] == [G100, 7, G100]


def test_queue_pairs_divide_a_demand_exactly():
    flows = flows_of(fabric_of(), custom((0, 2, 10), qps_per_flow=4))
    assert [(flow.flow_id, flow.demand_bps) for flow in flows] == [(f"job/0/0-2/{q}", 2) for q in range(4)]


def test_ranks_on_one_host_have_no_flow_and_leave_their_nics_to_others():
    fabric = fabric_of(nics_per_host=2, hosts_per_leaf=1)
    flows = flows_of(fabric, {"kind": "ALL_TO_ALL", "bytes": 1})
    assert sorted(pairs(flows)) == [(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2]
    assert {flow.demand_bps for flow in flows} == {G100 // 2}


def test_a_repeated_pair_continues_the_numbers_of_queue_pairs():
    flows = flows_of(fabric_of(), custom((0, 2, 8), (0, 2, 4), qps_per_flow=2))
    assert [(flow.queue_pair, flow.demand_bps) for flow in flows] == [(0, 4), (1, 4), (2, 2), (3, 2)]


def test_two_nics_on_one_leaf_use_their_own_links_only():
    (flow,) = flows_of(fabric_of(), custom((0, 1)))
    assert flow.links == ("h1-n0>leaf1:3", "leaf1:4>h2-n0")
    assert flow.reverse_links == ("h2-n0>leaf1:4", "leaf1:3>h1-n0")


def test_a_job_whose_ranks_all_share_a_host_has_no_flows():
    ranks = ["h1-n0", "h1-n1"]
    assert flows_of(fabric_of(nics_per_host=2), {"kind": "RING_ALL_REDUCE", "bytes": 1}, ranks=ranks) == []


def test_a_rank_that_is_no_nic_is_named():
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1)
    request = JobRequest(job_id="job", ranks=("h1-n0", "h9-n9"), collectives=(ring,))
    with pytest.raises(InputError, match="h9-n9"):
        expand(topology_of(fabric_of()), [request])
