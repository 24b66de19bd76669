from dataclasses import replace

import pytest

from heddle.controller.model.fabric import Fabric
from tests.support.fabrics.planner_cases import custom, fabric_of, flows_of, job_of, plan_of

ALL = {"kind": "ALL_TO_ALL", "bytes": 1}


def test_no_job_at_all_is_a_plan():
    plan = plan_of(fabric_of())
    assert (plan.jobs, plan.certificate.max_link_utilisation, plan.certificate.deadlock_free) == ((), 0.0, True)


def test_a_full_permutation_of_a_big_fabric_meets_its_bound_and_ecmp_does_not():
    fabric = fabric_of(spines=16, leaves=16, hosts_per_leaf=16)
    certificate = plan_of(
        fabric, job_of(fabric, custom(*((i, (i * 37 + 101) % 256) for i in range(256) if (i * 36 + 101) % 256)))
    ).certificate
    assert certificate.max_link_utilisation == certificate.lower_bound == 1.0
    assert certificate.ecmp_max_link_utilisation > certificate.e_ecmp_max_link_utilisation > 1.5
    assert (certificate.max_nic_utilisation, certificate.bottleneck_nic) == (1.0, "h1-n0")


def test_spines_of_different_speeds_carry_equal_flows_by_their_speed():
    fabric = fabric_of(spines=3, hosts_per_leaf=7)
    rates = {"spine1": 100, "spine2": 200, "spine3": 400}
    cables = tuple(replace(cable, capacity_bps=rates[cable.upper.switch] * 10**9) for cable in fabric.cables)
    uneven = Fabric(name="lab", switches=fabric.switches, cables=cables, nics=fabric.nics)
    flows = custom(*((i, 7 + i) for i in range(7)), *((7 + i, i) for i in range(7)))
    certificate = plan_of(uneven, job_of(uneven, flows)).certificate
    assert certificate.max_link_utilisation == certificate.lower_bound == 1.0


def test_the_certificate_has_the_kind_of_the_proof():
    fabric = fabric_of()
    kinds = {
        "cut": custom((0, 2), (1, 3)),
        "largest_flow": custom((0, 2)),
        "pigeonhole": custom((0, 2, 6), (0, 3, 6), (1, 2, 6)),
        "bin_packing": custom((0, 2, 5), (0, 3, 5), (1, 2, 4), (1, 3, 2)),
    }
    for kind, flows in kinds.items():
        assert plan_of(fabric, job_of(fabric, flows)).certificate.lower_bound_kind == kind


def test_acks_take_the_mirrored_path():
    for flow in flows_of(fabric_of(kind="clos3", spines=2, aggs_per_pod=2, pods=2), ALL):
        back = [">".join(reversed(link.split(">"))) for link in reversed(flow.links)]
        assert list(flow.reverse_links) == back


def test_flows_read_from_a_journal_are_kept_like_planned_ones():
    fabric = fabric_of(spines=3)
    first = job_of(fabric, ALL, job_id="first")
    second = job_of(fabric, {"kind": "RING_ALL_REDUCE", "bytes": 1, "qps_per_flow": 2}, job_id="second")
    placed = plan_of(fabric, first).jobs[0]
    read_back = replace(placed, flows=tuple(placed.flows))
    ours = plan_of(fabric, second, kept=[(first, placed)])
    theirs = plan_of(fabric, second, kept=[(first, read_back)])
    assert [list(job.flows) for job in ours.jobs] == [list(job.flows) for job in theirs.jobs]


def test_a_kept_job_whose_flows_are_not_those_of_its_request_is_refused():
    fabric = fabric_of()
    placed = plan_of(fabric, job_of(fabric, ALL)).jobs[0]
    with pytest.raises(ValueError, match="12 flows, its request has 4"):
        plan_of(fabric, kept=[(job_of(fabric, {"kind": "ALL_GATHER", "bytes": 1}), placed)])


def test_flow_plans_are_built_on_access():
    flows = plan_of(fabric_of(), job_of(fabric_of(), ALL)).jobs[0].flows
    assert len(flows) == 12
    assert flows[-1] == list(flows)[11]
    assert flows[1:3] == list(flows)[1:3]
    with pytest.raises(IndexError):
        flows[12]


def test_a_plan_outlives_the_fabric_it_was_made_for():
    flow = plan_of(fabric_of(), job_of(fabric_of(), custom((0, 2)))).jobs[0].flows[0]
    assert flow.links[0] == "h1-n0>leaf1:3"


def test_the_load_of_a_running_job_of_lower_priority_does_not_put_two_flows_on_one_link():
    """Beside the 70 Gbit/s of the running job, both flows are better off on the other spine; alone, on one each."""
    fabric = fabric_of(leaves=3)
    low = job_of(fabric, custom((4, 0, 70 * 10**9)), job_id="low")
    high = job_of(fabric, custom((2, 0, 50 * 10**9), (4, 0, 30 * 10**9)), job_id="high", priority=1)
    (_, placed) = plan_of(fabric, high, kept=[(low, plan_of(fabric, low).jobs[0])]).jobs
    first, second = placed.flows
    assert first.links[2] != second.links[2]


@pytest.mark.parametrize("dead", ["leaf3:1>spine1:3", "leaf3:2>spine2:3"])
def test_a_higher_priority_moves_out_of_the_only_path_of_a_lower_one(dead):
    fabric = fabric_of(leaves=3, hosts_per_leaf=1, failed=[dead])
    high = job_of(fabric, custom((0, 1, 60 * 10**9)), job_id="high", priority=1)
    low = job_of(fabric, custom((0, 2, 60 * 10**9)), job_id="low")
    assert plan_of(fabric, low, high).certificate.max_link_utilisation == 0.6


def test_the_third_priority_changes_nothing_for_the_second():
    """Only where the first makes room for the second is there no link over 1, with or without the third."""
    fabric = fabric_of(leaves=3, hosts_per_leaf=1, failed=["leaf3:1>spine1:3"])
    first = job_of(fabric, custom((0, 1, 60 * 10**9)), job_id="first", priority=2)
    second = job_of(fabric, custom((0, 2, 60 * 10**9)), job_id="second", priority=1)
    third = job_of(fabric, custom((2, 1, 50 * 10**9)), job_id="third")
    jobs = plan_of(fabric, third, second, first).jobs
    assert [job.own_max_link_utilisation for job in jobs[1:]] == [0.6, 0.6]


def test_flows_of_one_leaf_stay_on_it_where_the_phases_of_several_jobs_are_planned_together():
    fabric = fabric_of(spines=1, hosts_per_leaf=3, links_per_spine=2)
    h1, h2, h3, h4, h5, h6 = (nic.id for nic in fabric.nics)
    jobs = [
        job_of(fabric, {"kind": "GATHER", "bytes": 10**6}, job_id="a", ranks=[h1, h2, h4]),
        job_of(
            fabric, {"kind": "ALL_TO_ALL", "bytes": 10**6}, {"kind": "GATHER", "bytes": 10**6, "phase": 1}, job_id="b",
            ranks=[h1, h2, h4, h3, h5, h6],
        ),
        job_of(
            fabric, {"kind": "BROADCAST", "bytes": 10**6, "members": [0, 1], "root": 1, "qps_per_flow": 2},
            {"kind": "ALL_TO_ALL", "bytes": 10**6, "members": [0, 1, 2], "qps_per_flow": 2}, job_id="c",
            ranks=[h1, h4, h2, h3],
        ),
    ]  # fmt: skip
    leaf = {nic.id: nic.port.switch for nic in fabric.nics}
    flows = [flow for job in plan_of(fabric, *jobs).jobs for flow in job.flows]
    assert {len(flow.links) for flow in flows if leaf[flow.src_nic] == leaf[flow.dst_nic]} == {2}
