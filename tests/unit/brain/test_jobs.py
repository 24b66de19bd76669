from dataclasses import replace

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Install, Solve
from heddle.controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from heddle.controller.model.event import Release, Renew, Submit, SwitchDown, Tick
from heddle.controller.model.job import Steering
from heddle.controller.model.plan import JobPlan
from tests.unit.brain.driver import Driver, shift_job, small_fabric, submitted


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


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
