import pytest

from heddle.controller.model.error import AlreadyExistsError
from tests.support.fabrics.planner_cases import custom, fabric_of, flows_of, job_of, plan_of

PORT = 50000


def test_a_fixed_port_is_kept_and_pinned():
    (flow,) = flows_of(fabric_of(), custom((0, 2, 0, PORT)))
    assert (flow.udp_source_port, flow.pinned) == (PORT, True)


def test_flows_pinned_by_their_addresses_share_one_path():
    fabric = fabric_of(spines=4)
    flows = flows_of(fabric, custom((0, 2), (0, 2), qps_per_flow=2), custom((0, 2), phase=1), steering="PIN")
    assert len({flow.links for flow in flows}) == 1
    assert all(flow.pinned for flow in flows)


def test_steered_flows_are_not_pinned():
    assert not any(flow.pinned for flow in flows_of(fabric_of(), {"kind": "RING_ALL_REDUCE", "bytes": 1}))


def test_a_tuple_pinned_twice_already_exists():
    fabric = fabric_of()
    one, other = (job_of(fabric, custom((0, 2, 0, PORT)), job_id=name) for name in ("one", "other"))
    with pytest.raises(AlreadyExistsError, match=f"other.*{PORT}.*one"):
        plan_of(fabric, one, other)


def test_a_tuple_that_a_running_job_has_pinned_already_exists():
    fabric = fabric_of()
    one, other = (job_of(fabric, custom((0, 2, 0, PORT)), job_id=name) for name in ("one", "other"))
    first = plan_of(fabric, one)
    with pytest.raises(AlreadyExistsError):
        plan_of(fabric, other, kept=[(one, first.jobs[0])])


def test_a_pin_on_the_port_of_a_running_flow_takes_that_flows_path():
    fabric = fabric_of(spines=4)
    steered = job_of(fabric, custom((1, 3)), custom((0, 2)), job_id="steered")
    first = plan_of(fabric, steered)
    taken = next(flow for flow in first.jobs[0].flows if flow.src_rank == 0)
    pinned = job_of(fabric, custom((0, 2, 0, taken.udp_source_port)), job_id="pinned")
    second = plan_of(fabric, pinned, kept=[(steered, first.jobs[0])])
    assert second.jobs[1].flows[0].links == taken.links


def test_a_steered_flow_avoids_the_pinned_ports_of_its_pair():
    fabric = fabric_of()
    alone = flows_of(fabric, custom((0, 2)))[0].udp_source_port
    flows = flows_of(fabric, custom((0, 2)), custom((0, 2, 0, alone), phase=1))
    assert len({flow.udp_source_port for flow in flows}) == 2


def test_flows_of_one_pair_have_different_ports():
    flows = flows_of(fabric_of(), custom((0, 2), qps_per_flow=16))
    assert len({flow.udp_source_port for flow in flows}) == 16


def test_steered_flows_of_a_pair_pinned_by_addresses_share_its_path():
    fabric = fabric_of(spines=4)
    pin = job_of(fabric, custom((1, 3), (0, 2)), job_id="pin", steering="PIN")
    first = plan_of(fabric, pin)
    steered = job_of(fabric, custom((0, 2), qps_per_flow=4), job_id="steered")
    second = plan_of(fabric, steered, kept=[(pin, first.jobs[0])])
    assert {flow.links for flow in second.jobs[1].flows} == {first.jobs[0].flows[1].links}


def test_flows_of_a_higher_priority_than_a_pin_of_their_pair_are_guarded():
    fabric = fabric_of(spines=4)
    high = job_of(fabric, custom((0, 2), qps_per_flow=4), job_id="high", priority=1)
    low = job_of(fabric, custom((0, 2)), job_id="low", steering="PIN")
    plan = plan_of(fabric, high, low)
    free, pinned = plan.jobs
    assert [flow.links for flow in free.flows] == [flow.links for flow in plan_of(fabric, high).jobs[0].flows]
    assert len({flow.links for flow in free.flows}) == 4
    (pin,) = {flow.links for flow in pinned.flows}
    led_off = {(flow.udp_source_port, flow.links) for flow in free.flows if flow.links != pin}
    assert {(stream.udp_source_port, stream.links) for stream in pinned.guards} == led_off
