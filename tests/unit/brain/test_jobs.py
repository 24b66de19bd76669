from dataclasses import replace

import pytest

from heddle.controller.brain.decide import decide_all
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.state import wanted
from heddle.controller.model.effect import Install, Note, Solve, Wake
from heddle.controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from heddle.controller.model.event import PortStatus, Release, Renew, Submit, SwitchDown, Tick
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.controller.model.plan import JobPlan
from heddle.controller.rules.pipeline import PIN_PAIR_PRIORITY
from tests.unit.brain.driver import Driver, shift_job, small_fabric


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


def submitted(driver: Driver, request, reply: int = 1) -> JobPlan:
    driver.feed(Submit(reply=reply, request=request))
    plan = driver.reply_to(reply)
    assert isinstance(plan, JobPlan), plan
    return plan


def test_a_connected_switch_gets_the_wanted_rules(driver):
    assert driver.differing() == []
    assert all(rules.rules for rules in driver.held.values())


def test_a_submitted_job_runs_once_every_switch_of_its_paths_has_replied_to_a_barrier(driver):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert 1 not in driver.replies
    (install,) = driver.waiting
    assert set(install.steps[-1].changes) == {"spine1", "spine2", "leaf1", "leaf2", "leaf3", "leaf4"}
    driver.release_held()
    plan = driver.reply_to(1)
    assert (plan.state, plan.generation, plan.reason) == ("running", 1, "submitted")
    assert plan.certificate.install_ns == 7
    assert driver.announced == [plan]


def test_a_job_steered_by_its_source_ports_needs_no_rule(driver):
    plan = submitted(driver, shift_job("a"))
    assert plan.certificate.rules_installed == 0
    assert plan.certificate.max_rules_on_a_switch == max(len(rules.rules) for rules in driver.held.values())


def test_a_pinned_job_adds_rules_that_go_with_its_release(driver):
    before = dict(driver.held)
    plan = submitted(driver, shift_job("a", steering=Steering.PIN))
    assert plan.certificate.rules_installed > 0
    assert driver.differing() == []
    assert driver.held != before
    driver.feed(Release(reply=2, job_id="a"))
    assert driver.reply_to(2) == 8
    assert driver.differing() == []
    assert {switch: len(rules.rules) for switch, rules in driver.held.items()} == {
        switch: len(rules.rules) for switch, rules in before.items()
    }


def test_the_same_request_again_returns_the_same_plan(driver):
    first = submitted(driver, shift_job("a"))
    assert submitted(driver, shift_job("a"), reply=2) == first
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == 1


def test_callers_of_the_same_request_wait_for_one_plan(driver):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Submit(reply=2, request=shift_job("a")))
    driver.release_held()
    assert driver.reply_to(1) == driver.reply_to(2)


def test_a_job_id_in_use_with_a_different_request_is_refused(driver):
    submitted(driver, shift_job("a"))
    driver.feed(Submit(reply=2, request=shift_job("a", by=4)))
    assert isinstance(driver.reply_to(2), AlreadyExistsError)


def test_a_job_id_being_planned_with_a_different_request_is_refused(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Submit(reply=2, request=shift_job("a", by=4)))
    assert isinstance(driver.reply_to(2), AlreadyExistsError)


def test_a_preview_leaves_no_trace(driver):
    before = driver.state
    driver.feed(Submit(reply=1, request=shift_job("a"), preview=True))
    plan = driver.reply_to(1)
    assert (plan.state, plan.lease_expires_unix_ms) == ("planned", 0)
    assert replace(driver.state, next_token=before.next_token) == before


def test_a_preview_gives_the_paths_that_submitting_gives(driver):
    driver.feed(Submit(reply=1, request=shift_job("a"), preview=True))
    assert list(driver.reply_to(1).flows.flows) == list(submitted(driver, shift_job("a"), reply=2).flows.flows)


def test_a_malformed_request_is_refused_with_the_path_of_the_key(driver):
    driver.feed(Submit(reply=1, request=replace(shift_job("a"), ranks=("h1-n0", "unknown"))))
    error = driver.reply_to(1)
    assert isinstance(error, InputError)
    assert "ranks[1]" in str(error)


def test_a_required_utilisation_that_cannot_be_met_is_no_admissible_plan(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", require_utilisation=0.01)))
    assert isinstance(driver.reply_to(1), NoAdmissiblePlanError)
    assert driver.state.jobs == {}


def test_a_plan_whose_buffers_could_wait_for_each_other_is_refused(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    (solve,) = driver.waiting
    (event,) = driver.perform(solve)
    plan = event.outcome
    driver.feed(replace(event, outcome=replace(plan, certificate=replace(plan.certificate, deadlock_free=False))))
    refused = driver.reply_to(1)
    assert isinstance(refused, NoAdmissiblePlanError)
    assert "wait for each other" in str(refused)
    assert driver.state.jobs == {}


def test_a_job_over_a_switch_that_is_not_connected_is_refused_by_its_name(driver):
    driver.feed(SwitchDown(switch="spine2", reason="gone"))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert isinstance(driver.reply_to(1), UnavailableError)
    assert "spine2" in str(driver.reply_to(1))
    assert driver.state.jobs == {}


def test_a_failed_installation_leaves_nothing_of_the_job(driver):
    before = {switch: frozenset(rules.rules) for switch, rules in driver.held.items()}
    driver.refuse = {"leaf3"}
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    assert isinstance(driver.reply_to(1), UnavailableError)
    driver.refuse = set()
    assert driver.state.jobs == {}
    driver.feed(Submit(reply=2, request=shift_job("b")))
    assert {switch: frozenset(rules.rules) for switch, rules in driver.held.items()} == before


def test_a_switch_that_fails_repeatedly_gets_no_more_installations(driver):
    driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    driver.held["leaf1"] = type(driver.held["leaf1"])()
    driver.refuse = {"leaf1"}
    driver.connect_all()
    assert any("left as it is" in note.text for note in driver.notes)


def test_a_rule_budget_that_would_be_passed_is_refused_and_names_the_switch():
    fabric = small_fabric()
    switches = tuple(replace(s, rule_budget=40) if s.id == "leaf2" else s for s in fabric.switches)
    driver = Driver(replace(fabric, switches=switches))
    driver.connect_all()
    budget = len(driver.held["leaf2"].rules) + 1
    switches = tuple(replace(s, rule_budget=budget) if s.id == "leaf2" else s for s in fabric.switches)
    driver = Driver(replace(fabric, switches=switches))
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    error = driver.reply_to(1)
    assert isinstance(error, BudgetExceededError)
    assert "leaf2" in str(error)


def test_a_renewed_lease_counts_from_now(driver):
    submitted(driver, shift_job("a", lease_ms=5_000))
    driver.now += 3_000
    driver.feed(Renew(reply=2, job_id="a", lease_ms=10_000))
    assert driver.reply_to(2).lease_expires_unix_ms == driver.now + 10_000


def test_a_job_whose_lease_ends_is_released(driver):
    submitted(driver, shift_job("a", lease_ms=5_000, steering=Steering.PIN))
    driver.now += 4_999
    driver.feed(Tick())
    assert "a" in driver.state.jobs
    driver.now += 1
    driver.feed(Tick())
    assert driver.state.jobs == {}
    assert driver.differing() == []
    assert (driver.announced[-1].state, driver.announced[-1].reason) == ("released", "lease ended")


def test_a_lease_is_not_renewed_for_longer_than_allowed_and_stays_as_it_was():
    driver = Driver(small_fabric(), Settings(max_lease_ms=1_000, default_lease_ms=1_000))
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a")))
    before = driver.state.jobs["a"]
    driver.feed(Renew(reply=2, job_id="a", lease_ms=1_001))
    refused = driver.reply_to(2)
    assert isinstance(refused, InputError)
    assert "lease_ms: 1001 is more than the 1000 allowed here" in str(refused)
    assert driver.state.jobs["a"] is before
    driver.feed(Renew(reply=3, job_id="a", lease_ms=1_000))
    assert not isinstance(driver.reply_to(3), InputError)


def test_a_lease_longer_than_allowed_is_refused():
    driver = Driver(small_fabric(), Settings(max_lease_ms=1_000))
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", lease_ms=1_001)))
    assert isinstance(driver.reply_to(1), InputError)


def test_an_unknown_job_is_not_found(driver):
    driver.feed(Release(reply=1, job_id="unknown"))
    driver.feed(Renew(reply=2, job_id="unknown"))
    assert isinstance(driver.reply_to(1), NotFoundError)
    assert isinstance(driver.reply_to(2), NotFoundError)


def test_a_release_waits_for_the_job_that_is_being_installed(driver):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Release(reply=2, job_id="a"))
    driver.release_held()
    assert driver.reply_to(1).state == "running"
    assert driver.reply_to(2) == 8
    assert driver.state.jobs == {}


def test_more_requests_than_may_wait_are_refused():
    driver = Driver(small_fabric(), Settings(max_waiting=2))
    driver.connect_all()
    driver.hold = (Solve,)
    for reply in range(1, 5):
        driver.feed(Submit(reply=reply, request=shift_job(f"j{reply}")))
    assert isinstance(driver.reply_to(4), BudgetExceededError)
    assert set(driver.replies) == {4}


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
    driver.feed(Tick())
    assert driver.state.health.down_cables == frozenset()


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


def test_a_second_job_is_planned_beside_the_first(driver):
    first = submitted(driver, shift_job("a"))
    second = submitted(driver, shift_job("b", by=4), reply=2)
    now, before = driver.state.jobs["a"].flows.flows, first.flows.flows
    assert [(flow.links, flow.udp_source_port) for flow in now] == [(f.links, f.udp_source_port) for f in before]
    assert second.certificate.max_link_utilisation >= 1.0
    assert driver.state.certificate.max_link_utilisation == second.certificate.max_link_utilisation


def test_a_switch_that_reconnects_with_its_rules_is_sent_nothing(driver):
    driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    driver.effects.clear()
    driver.connect_all()
    assert all(not effect.steps for effect in driver.effects if isinstance(effect, Install))


def test_a_switch_that_lost_a_rule_is_sent_that_rule_alone(driver):
    held = driver.held["leaf1"]
    driver.held["leaf1"] = replace(held, rules=held.rules[1:])
    driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    driver.effects.clear()
    driver.connect_all()
    installs = [effect for effect in driver.effects if isinstance(effect, Install) and effect.steps]
    assert [len(changes) for step in installs[0].steps for changes in step.changes.values()] == [1]
    assert driver.differing() == []


def test_watchers_of_a_job_that_a_switch_refuses_get_its_end(driver):
    driver.refuse = {"leaf1"}
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    assert isinstance(driver.reply_to(1), UnavailableError)
    (ended,) = driver.announced
    assert (ended.job_id, ended.state, ended.reason) == ("a", "released", "switch leaf1 did not acknowledge it")


def test_an_unknown_job_id_is_shortened_in_the_error(driver):
    driver.feed(Release(reply=1, job_id="x" * 100_000))
    assert len(str(driver.reply_to(1))) < 200


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


def test_a_caller_joins_the_same_request_while_it_waits_in_the_queue(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Submit(reply=2, request=shift_job("b", by=4)))
    driver.feed(Submit(reply=3, request=shift_job("b", by=4)))
    driver.release_held()
    assert isinstance(driver.reply_to(2), JobPlan)
    assert driver.reply_to(2) == driver.reply_to(3)
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == 2


def test_a_job_beyond_the_limit_is_refused_until_one_is_released():
    driver = Driver(small_fabric(), Settings(max_jobs=1))
    driver.connect_all()
    submitted(driver, shift_job("a"))
    driver.feed(Submit(reply=2, request=shift_job("b", by=4)))
    assert isinstance(driver.reply_to(2), BudgetExceededError)
    driver.feed(Release(reply=3, job_id="a"))
    submitted(driver, shift_job("b", by=4), reply=4)
