"""The flows that a condition affects, and the root of a tree of pauses."""

from heddle.controller.model.event import Submit
from heddle.controller.views.congestion import congestion
from heddle.telemetry.detection.signal import Signal, SignalKind
from tests.unit.brain.driver import Driver, shift_job, small_fabric

PAUSED, PAUSING = (True, False), (False, True)


def running(fabric=None):
    """A controller's state with eight flows of which each crosses a spine."""
    driver = Driver(fabric or small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("train"), preview=False))
    return driver.state


def raised(port, kind=SignalKind.PAUSING, priority=3):
    return Signal(
        kind=kind,
        port=port,
        priority=priority,
        raised=True,
        value=0.5,
        threshold=0.1,
        since_unix_ns=1,
        sampled_unix_ns=2,
    )


def flow_to(state, nic):
    return next(flow for flow in state.jobs["train"].flows.flows if flow.dst_nic == nic)


def port_of(link):
    return link.split(">")[0]


def test_a_condition_names_the_planned_flows_that_cross_its_port():
    state = running()
    flow = flow_to(state, "h3-n0")
    (found,) = congestion(state, [raised(port_of(flow.links[-1]), SignalKind.CONGESTION)], {})
    assert (found.flow_ids, found.flows) == ((flow.flow_id,), 1)
    assert found.root_cause == port_of(flow.links[-1])


def test_pauses_lead_down_the_planned_path_to_the_port_that_is_full():
    state = running()
    links = [port_of(link) for link in flow_to(state, "h3-n0").links]  # NIC, leaf, spine, leaf
    pfc = {(port, 3): PAUSED for port in links[:3]}
    signals = [raised(port) for port in links[:3]] + [raised(links[3], SignalKind.CONGESTION)]
    assert {found.root_cause for found in congestion(state, signals, pfc)} == {links[3]}


def test_a_host_that_is_too_slow_is_the_root():
    state = running()
    links = [port_of(link) for link in flow_to(state, "h3-n0").links]
    found = congestion(state, [raised(links[0])], {(port, 3): PAUSED for port in links})
    assert found[0].root_cause == "h3-n0"


def test_a_port_that_pauses_its_peer_points_to_an_egress_of_its_own_switch():
    state = running()
    flow = flow_to(state, "h3-n0")
    ingress, egress = flow.links[2].split(">")[1], port_of(flow.links[3])
    found = congestion(state, [raised(ingress), raised(egress, SignalKind.DROP)], {(ingress, 3): PAUSING})
    assert found[0].root_cause == egress


def test_without_a_plan_the_ports_of_the_switch_are_looked_at():
    state = Driver(small_fabric()).state
    signals = [raised("spine1:2"), raised("leaf2:3", SignalKind.CONGESTION)]
    found = congestion(state, signals, {("spine1:2", 3): PAUSED})
    assert (found[0].root_cause, found[0].flows) == ("leaf2:3", 0)


def test_where_no_port_downstream_has_a_condition_the_switch_is_named():
    state = Driver(small_fabric()).state
    found = congestion(state, [raised("spine1:2")], {("spine1:2", 3): PAUSED})
    assert found[0].root_cause == "leaf2"


def test_another_priority_is_another_tree():
    state = Driver(small_fabric()).state
    signals = [raised("spine1:2"), raised("leaf2:3", SignalKind.CONGESTION, priority=5)]
    assert congestion(state, signals, {("spine1:2", 3): PAUSED})[0].root_cause == "leaf2"


def test_pauses_in_a_circle_are_reported_as_one():
    state = Driver(small_fabric(leaves=2)).state
    circle = ("leaf1:1", "spine1:2", "leaf2:2", "spine2:1")
    found = congestion(state, [raised("leaf1:1")], {(port, 3): PAUSED for port in circle})
    assert found[0].root_cause == "circle through leaf1:1"


def test_pauses_that_have_ended_have_no_root_cause():
    state = Driver(small_fabric()).state
    assert [found.root_cause for found in congestion(state, [raised("h1-n0"), raised("leaf1:1")], {})] == ["", ""]


def test_a_tripped_watchdog_names_the_nic_even_if_its_switch_counts_no_pause_that_it_ignores():
    state = Driver(small_fabric()).state
    assert congestion(state, [raised("leaf1:3", SignalKind.STORM)], {})[0].root_cause == "h1-n0"


def test_a_silent_port_has_no_root_cause():
    state = Driver(small_fabric()).state
    assert congestion(state, [raised("leaf2:3", SignalKind.SILENT, priority=None)], {})[0].root_cause == ""
