"""Links, ports and NICs fail and return: whose flows move, what a job becomes, and when a port is used again."""

import pytest

from heddle.controller.brain.decide import decide_all
from heddle.controller.brain.state import wanted
from heddle.controller.model.effect import Install, Note, Solve, Wake
from heddle.controller.model.error import (
    UnavailableError,
)
from heddle.controller.model.event import Due, PortStatus, Submit, Tick
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.controller.rules.pipeline import PIN_PAIR_PRIORITY
from tests.support.fabrics.planner_cases import fabric_of
from tests.unit.brain.driver import Driver, shift_job, small_fabric, submitted


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


def test_acks_leave_a_link_that_fails(driver):
    """One large flow on one spine, three small ones on the other: their ACKs use both."""
    rates = [(0, 2, 900_000_000), (1, 4, 50_000_000), (1, 5, 50_000_000), (1, 6, 50_000_000)]
    flows = tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate) for a, b, rate in rates)
    custom = Collective(kind=CollectiveKind.CUSTOM, flows=flows)
    ranks = tuple(f"h{i + 1}-n0" for i in range(8))
    plan = submitted(driver, JobRequest(job_id="a", ranks=ranks, collectives=(custom,)))
    link = min(plan.flows.reverse_links)
    assert link not in plan.flows.link_loads_bps
    fail(driver, link)
    job = driver.state.jobs["a"]
    assert (job.state, job.generation) == ("running", 2)
    assert all(link not in flow.reverse_links for flow in job.flows.flows)


def fail(driver: Driver, link: str) -> None:
    switch, port = link.split(">")[0].split(":")
    driver.feed(PortStatus(switch=switch, port=int(port), up=False))


def test_flows_leave_a_link_that_fails_and_the_job_is_degraded_while_others_are_fuller_for_it(driver):
    plan = submitted(driver, shift_job("a"))
    link = plan.flows.flows[0].links[1]
    fail(driver, link)
    job = driver.state.jobs["a"]
    assert (job.state, job.generation) == ("degraded", 2)
    why, moved, *more = job.reason.split("; ")
    assert link in why
    assert why.endswith("down")
    assert moved.endswith("flows moved")
    assert more == ["its fullest link rises from 1.00 to 2.00"]
    assert all(link not in flow.links for flow in job.flows.flows)
    assert driver.announced[-1].generation == 2
    assert driver.differing() == []
    switch, port = link.split(">")[0].split(":")
    driver.port_up(switch, int(port))
    assert (driver.state.jobs["a"].state, driver.state.jobs["a"].generation) == ("running", 3)
    assert driver.state.certificate.max_link_utilisation == 1.0
    assert driver.differing() == []


def test_a_failure_that_exceeds_a_required_utilisation_is_planned_all_the_same(driver):
    plan = submitted(driver, shift_job("a", require_utilisation=1.0))
    link = plan.flows.flows[0].links[1]
    fail(driver, link)
    job = driver.state.jobs["a"]
    assert job.state == "degraded"
    assert job.flows.own_max_link_utilisation == 2.0
    assert all(link not in flow.links for flow in job.flows.flows)


def test_a_job_that_loses_nothing_by_a_failure_keeps_running(driver):
    plan = submitted(driver, shift_job("a", ranks=4))
    assert {flow.links[1].split(":")[0] for flow in plan.flows.flows} == {"leaf1", "leaf2"}
    fail(driver, "leaf3:1>spine1:3")
    assert driver.state.jobs["a"].state == "running"
    assert driver.state.jobs["a"].generation == 1


def test_a_job_is_degraded_while_a_nic_of_it_is_down(driver):
    submitted(driver, shift_job("a"))
    driver.feed(PortStatus(switch="leaf1", port=3, up=False))
    job = driver.state.jobs["a"]
    assert job.state == "degraded"
    assert "no path for flow a/0/0-2/0 and 1 more" in job.reason
    driver.port_up("leaf1", 3)
    assert driver.state.jobs["a"].state == "running"


def test_a_job_over_planes_is_not_degraded_while_a_port_of_a_nic_is_down():
    driver = Driver(fabric_of(spines=2, leaves=2, hosts_per_leaf=2, planes=2, gbps=1))
    driver.connect_all()
    plan = submitted(driver, shift_job("a", ranks=4))
    assert {flow.rate_bps for flow in plan.flows.flows} == {10**9}
    driver.feed(PortStatus(switch="p0-leaf1", port=3, up=False))
    job = driver.state.jobs["a"]
    rates = {flow.src_nic: flow.rate_bps for flow in job.flows.flows}
    assert (rates["h1-n0/p0"], rates["h1-n0/p1"], rates["h2-n0/p0"]) == (1, 10**9, 10**9)
    assert job.state == "running"
    driver.port_up("p0-leaf1", 3)
    assert {flow.rate_bps for flow in driver.state.jobs["a"].flows.flows} == {10**9}


def test_flows_leave_a_failed_link_while_a_nic_of_the_job_is_down(driver):
    plan = submitted(driver, shift_job("a"))
    link = plan.flows.flows[0].links[1]
    other = next(flow for flow in plan.flows.flows if link in flow.links and flow.src_nic != "h4-n0")
    driver.feed(PortStatus(switch="leaf2", port=4, up=False))
    fail(driver, link)
    flows = {flow.flow_id: flow for flow in driver.state.jobs["a"].flows.flows}
    assert link not in flows[other.flow_id].links
    assert driver.differing() == []


def test_pins_on_a_failed_link_go_before_new_paths_are_planned(driver):
    plan = submitted(driver, shift_job("a", steering=Steering.PIN))
    driver.hold = (Solve,)
    fail(driver, plan.flows.flows[0].links[1])
    held = driver.held["leaf1"]
    assert all(rule in held.rules for rule in wanted(driver.state, "leaf1").rules)
    pinned = [rule for rule in held.rules if rule.priority == PIN_PAIR_PRIORITY]
    assert len(pinned) == 1
    driver.release_held()
    assert len([rule for rule in driver.held["leaf1"].rules if rule.priority == PIN_PAIR_PRIORITY]) == 2
    assert driver.differing() == []


def test_ports_that_fail_together_are_one_line_of_the_log(driver):
    down = [PortStatus(switch="leaf1", port=port, up=False) for port in (1, 2)]
    driver.state, effects = decide_all(driver.state, down, driver.now)
    (note,) = (effect for effect in effects if isinstance(effect, Note))
    cables = sorted(driver.fabric.cable_by_link[link].id for link in ("leaf1:1>spine1:1", "leaf1:2>spine2:1"))
    assert (note.severity, note.subject, note.text) == ("warning", "fabric", f"{cables[0]} down, {cables[1]} down")


def test_a_port_that_comes_up_is_used_after_its_hold_time(driver):
    link = submitted(driver, shift_job("a")).flows.flows[0].links[1]
    switch, port = link.split(">")[0].split(":")
    fail(driver, link)
    driver.feed(PortStatus(switch=switch, port=int(port), up=True))
    assert driver.state.health.down_cables == {link} or len(driver.state.health.down_cables) == 1
    driver.now += driver.settings.hold_ms
    driver.feed(Due())
    assert driver.state.health.down_cables == frozenset()


def test_what_is_due_ends_no_lease_for_which_a_renewal_may_wait(driver):
    submitted(driver, shift_job("a", lease_ms=1_000))
    driver.now += 2_000
    driver.feed(Due())
    assert "a" in driver.state.jobs
    driver.feed(Tick())
    assert "a" not in driver.state.jobs


def test_a_flapping_port_is_held_longer_each_time(driver):
    for flap in range(3):
        driver.feed(PortStatus(switch="leaf1", port=1, up=False))
        driver.feed(PortStatus(switch="leaf1", port=1, up=True))
        assert driver.effects[-1] == Wake(after_ms=driver.settings.hold_ms << flap)
    driver.now += driver.settings.hold_ms * 4 - 1
    driver.feed(Tick())
    assert driver.state.health.down_cables
    driver.now += 1
    driver.feed(Tick())
    assert not driver.state.health.down_cables


def test_a_plan_for_a_fabric_that_changed_meanwhile_is_discarded_and_planned_again(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.hold = ()
    old, driver.waiting = driver.waiting, []
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert driver.reply_to(1).state == "running"
    assert all("leaf1:1" not in link for flow in driver.reply_to(1).flows.flows for link in flow.links)
    before = driver.state
    driver.waiting = old
    driver.release_held()
    assert driver.state == before
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == 2


def test_a_fabric_that_changes_during_every_attempt_is_unavailable(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    for port in range(1, 5):
        assert 1 not in driver.replies
        driver.feed(PortStatus(switch=f"leaf{port}", port=1, up=False))
    driver.feed(PortStatus(switch="leaf1", port=3, up=False))
    assert isinstance(driver.reply_to(1), UnavailableError)
    assert driver.state.jobs == {}


def test_a_link_that_fails_during_the_installation_is_left_once_the_job_runs(driver):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    driver.release_held()
    assert driver.reply_to(1).state == "running"
    assert driver.announced[-1].state == "degraded"
    assert all("leaf1:1" not in link for flow in driver.announced[-1].flows.flows for link in flow.links)
    assert driver.differing() == []
