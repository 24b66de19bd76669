from dataclasses import replace

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Install, Place
from heddle.controller.model.error import BudgetExceededError, InputError, NoAdmissiblePlanError
from heddle.controller.model.event import (
    CablesJudged,
    Drain,
    JudgedCable,
    PortStatus,
    Submit,
    Suggest,
    Suggested,
)
from heddle.controller.model.job import Collective, CollectiveKind
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import JobPlan
from tests.unit.brain.driver import Driver, shift_job, small_fabric

RING = Shape(ranks=2, collectives=(Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000),))


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


def test_a_request_returns_places_and_changes_nothing(driver):
    before = driver.state
    driver.feed(Suggest(reply=1, shape=RING))
    assert driver.reply_to(1)[0].nics == ("h1-n0", "h2-n0")
    assert replace(driver.state, next_token=before.next_token) == before


def test_places_are_beside_the_jobs_that_run(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=6)))
    driver.feed(Suggest(reply=2, shape=RING))
    assert [place.nics for place in driver.reply_to(2)] == [("h7-n0", "h8-n0")]


def test_a_job_that_is_being_installed_holds_its_place(driver):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=6)))
    driver.feed(Suggest(reply=2, shape=replace(RING, ranks=3)))
    assert isinstance(driver.reply_to(2), NoAdmissiblePlanError)


def test_a_suggestion_sees_the_ports_that_are_down_when_it_starts(driver):
    driver.hold = (Place,)
    driver.feed(Suggest(reply=1, shape=RING))
    driver.feed(Suggest(reply=2, shape=RING))
    driver.feed(PortStatus(switch="leaf1", port=3, up=False))
    driver.release_held()
    assert "h1-n0" in driver.reply_to(1)[0].nics
    assert all("h1-n0" not in place.nics for place in driver.reply_to(2))


def test_a_suggestion_sees_what_is_drained_left_out_and_degraded(driver):
    driver.hold = (Place,)
    driver.feed(Drain(reply=1, target="leaf1", undrain=False, dry_run=False))
    cable = "leaf2:1>spine1:2"
    driver.feed(CablesJudged(cables=(JudgedCable(cable=cable, rate_share=0.5),)))
    driver.feed(Suggest(reply=2, shape=RING))
    (place,) = driver.waiting
    assert place.health == driver.state.out_of_use
    assert place.degraded == driver.state.degraded == {cable: 500_000_000}
    driver.release_held()
    assert not {"h1-n0", "h2-n0"} & {nic for place in driver.reply_to(2) for nic in place.nics}


def test_one_request_is_active_at_a_time_and_all_get_a_reply(driver):
    driver.hold = (Place,)
    for reply in range(1, 4):
        driver.feed(Suggest(reply=reply, shape=RING))
    assert [type(effect) for effect in driver.waiting] == [Place]
    driver.release_held()
    assert driver.reply_to(1) == driver.reply_to(2) == driver.reply_to(3)


def test_a_job_is_planned_while_a_suggestion_is_computed(driver):
    driver.hold = (Place,)
    driver.feed(Suggest(reply=1, shape=RING))
    driver.feed(Submit(reply=2, request=shift_job("a")))
    assert isinstance(driver.reply_to(2), JobPlan)
    assert 1 not in driver.replies


def test_too_few_free_gpus_are_no_admissible_plan(driver):
    driver.feed(Suggest(reply=1, shape=replace(RING, ranks=9)))
    assert str(driver.reply_to(1)) == "9 ranks asked for, 8 free: ask for at most 8"
    assert isinstance(driver.reply_to(1), NoAdmissiblePlanError)


def test_an_invalid_suggestion_request_is_refused_at_once(driver):
    driver.feed(Suggest(reply=1, shape=replace(RING, ranks=0)))
    assert isinstance(driver.reply_to(1), InputError)
    assert driver.state.suggestions == ()


def test_suggestion_requests_past_the_limit_are_refused():
    driver = Driver(small_fabric(), Settings(max_suggestions_waiting=2), hold=(Place,))
    for reply in range(1, 4):
        driver.feed(Suggest(reply=reply, shape=RING))
    assert isinstance(driver.reply_to(3), BudgetExceededError)
    driver.release_held()
    assert driver.reply_to(1) == driver.reply_to(2)


def test_a_reply_to_another_request_is_dropped(driver):
    driver.hold = (Place,)
    driver.feed(Suggest(reply=1, shape=RING))
    driver.feed(Suggested(token=10**6, outcome=()))
    assert 1 not in driver.replies


@pytest.mark.parametrize(("gpu_milli", "fit"), [(0, 2), (500, 4)])
def test_nics_of_other_tenants_are_not_suggested_beside_those_that_jobs_hold(driver, gpu_milli, fit):
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    shape = replace(RING, gpu_milli=gpu_milli)
    driver.feed(Suggest(reply=2, shape=replace(shape, ranks=fit), withheld=("h5-n0", "h6-n0")))
    assert {nic for place in driver.reply_to(2) for nic in place.nics} == {"h7-n0", "h8-n0"}
    driver.feed(Suggest(reply=3, shape=replace(shape, ranks=fit + 1), withheld=("h5-n0", "h6-n0")))
    assert isinstance(driver.reply_to(3), NoAdmissiblePlanError)
