from dataclasses import fields, replace

import pytest

from heddle.controller.api.translate import request_from
from heddle.controller.model.error import InputError
from heddle.controller.model.job import Algorithm, Collective, CollectiveKind, FlowDemand, Incast, JobRequest, RankPair
from heddle.mininet_topos.services.controller_client import request_message
from heddle.mininet_topos.traffic.queue_pairs import demands, hashed_pairs, with_rates
from heddle.mininet_topos.traffic.workloads import INCAST, build_workloads
from tests.fakes.demo_results import RATE_BPS, path, spine_leaf

FABRIC = spine_leaf()


def incast(seed=1, fabric=FABRIC):
    (found,) = build_workloads(fabric, (INCAST,), (seed,), 2.5)
    return found


def pairs_on_paths(mode="ecmp", spine=0):
    return [
        replace(pair, links=path(FABRIC, pair.src_nic, pair.dst_nic, spine))
        for pair in hashed_pairs(FABRIC, incast(), mode)
    ]


@pytest.mark.parametrize("seed", range(10))
def test_seven_send_to_one_and_the_bystander_to_another_across_leaves(seed):
    *many, bystander = incast(seed).flows
    leaf_of = {nic.id: nic.port.switch for nic in FABRIC.nics}
    (receiver,) = {flow.dst_nic for flow in many}
    assert len({flow.src_nic for flow in many}) == 7
    leaves = {leaf_of[bystander.src_nic], leaf_of[bystander.dst_nic], leaf_of[receiver]}
    assert len(leaves) == 3


def test_a_fabric_of_two_hosts_has_no_bystander():
    with pytest.raises(InputError, match="at least 3 hosts"):
        incast(fabric=spine_leaf(leaves=2, hosts_per_leaf=1))


def test_three_hosts_are_enough():
    assert len(incast(fabric=spine_leaf(leaves=3, hosts_per_leaf=1)).flows) == 3


def test_the_bystanders_nic_has_room_for_it_beside_its_part_of_the_incast():
    wanted = demands(FABRIC, incast())
    assert wanted[:-1] == [RATE_BPS // 7] * 7
    assert wanted[0] + wanted[-1] < RATE_BPS


def test_a_hashed_sender_begins_at_line_rate_and_the_bystander_at_what_it_asks_for():
    ready = with_rates(FABRIC, pairs_on_paths())
    assert [pair.pace_bps for pair in ready[:-1]] == [RATE_BPS] * 7
    assert ready[-1].pace_bps == incast().flows[-1].rate_bps


def test_a_planned_sender_keeps_the_plans_rate():
    planned = [replace(pair, planned_rate_bps=2_714_285) for pair in pairs_on_paths()]
    assert {pair.pace_bps for pair in with_rates(FABRIC, planned)} == {2_714_285}


def test_no_share_is_more_than_what_is_asked_for():
    ready = with_rates(FABRIC, pairs_on_paths())
    assert all(pair.share_bps <= pair.pace_bps for pair in ready)


def test_four_queue_pairs_of_the_bystander_ask_for_no_more_than_one():
    ready = with_rates(FABRIC, pairs_on_paths("e-ecmp"))
    assert sum(pair.pace_bps for pair in ready[-4:]) <= incast().flows[-1].rate_bps


def test_the_job_asks_for_rates_and_for_the_bystanders():
    workload = incast()
    message = request_message(workload.job, "demo")
    assert message.incast == int(Incast.RATES)
    (flow,) = message.collectives[1].flows
    assert flow.rate_bps == workload.flows[-1].rate_bps
    assert len(message.collectives[0].pairs) == 7


def test_the_message_of_a_job_has_every_field_of_its_collectives():
    flow = FlowDemand(src_rank=1, dst_rank=0, rate_bps=7, udp_source_port=50_000)
    collective = Collective(
        kind=CollectiveKind.GATHER,
        size_bytes=9,
        root=1,
        pairs=(RankPair(src_rank=0, dst_rank=1),),
        flows=(flow,),
        qps_per_flow=2,
        members=(1, 0),
        phase=3,
        algorithm=Algorithm.NCCL,
        paths_per_flow=4,
    )
    message = request_message(JobRequest(job_id="job", ranks=("a", "b"), collectives=(collective,)), "demo")
    assert request_from(message).collectives == (collective,)
    defaults = Collective(kind=CollectiveKind.CUSTOM)
    names = [one.name for one in fields(Collective)]
    assert all(getattr(collective, name) != getattr(defaults, name) for name in names)
