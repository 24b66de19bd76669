"""Requests whose callers left."""

from dataclasses import replace

import pytest

from heddle.controller.model.effect import Install, Place, Solve
from heddle.controller.model.event import Submit, Suggest, Withdraw
from heddle.controller.model.job import Steering
from heddle.controller.model.placement import Shape
from tests.unit.brain.driver import Driver, shift_job, small_fabric


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


def test_a_waiting_submission_is_dropped(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    driver.feed(Submit(reply=2, request=shift_job("b", ranks=4)))
    driver.feed(Withdraw(reply=2))
    driver.release_held()
    assert list(driver.state.jobs) == ["a"]
    assert list(driver.replies) == [1]


def test_a_waiting_submission_stays_while_another_caller_waits_for_it(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    driver.feed(Submit(reply=2, request=shift_job("b", ranks=4)))
    driver.feed(Submit(reply=3, request=shift_job("b", ranks=4)))
    driver.feed(Withdraw(reply=2))
    driver.release_held()
    assert list(driver.state.jobs) == ["a", "b"]
    assert list(driver.replies) == [1, 3]


def test_a_waiting_preview_is_dropped(driver):
    driver.hold = (Solve,)
    for reply in (1, 2):
        driver.feed(Submit(reply=reply, request=shift_job("a", ranks=4), preview=True))
    driver.feed(Withdraw(reply=2))
    driver.release_held()
    assert list(driver.replies) == [1]
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == 1


def test_a_plan_that_no_caller_waits_for_is_discarded_and_the_next_request_starts(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    driver.feed(Submit(reply=2, request=shift_job("b", ranks=4)))
    driver.feed(Withdraw(reply=1))
    assert sum(isinstance(effect, Solve) for effect in driver.effects) == 1
    driver.release_held()
    assert list(driver.state.jobs) == ["b"]
    assert list(driver.replies) == [2]


def test_a_caller_that_asks_for_what_another_left_gets_it(driver):
    driver.hold = (Solve,)
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    driver.feed(Withdraw(reply=1))
    driver.feed(Submit(reply=2, request=shift_job("a", ranks=4)))
    driver.release_held()
    assert driver.reply_to(2).job_id == "a"


def test_a_job_that_is_being_installed_is_finished_and_the_same_request_returns_it(driver):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4, steering=Steering.PIN)))
    driver.feed(Withdraw(reply=1))
    driver.release_held()
    assert driver.state.jobs["a"].state == "running"
    driver.feed(Submit(reply=2, request=shift_job("a", ranks=4, steering=Steering.PIN)))
    assert driver.reply_to(2).generation == 1


def test_a_waiting_suggestion_is_dropped(driver):
    driver.hold = (Place,)
    for reply in (1, 2, 3):
        driver.feed(Suggest(reply=reply, shape=Shape(ranks=2, collectives=())))
    driver.feed(Withdraw(reply=2))
    driver.release_held()
    assert list(driver.replies) == [1, 3]


def test_a_caller_that_has_its_reply_or_never_called_withdraws_nothing(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=4)))
    before = driver.state
    driver.feed(Withdraw(reply=1))
    driver.feed(Withdraw(reply=7))
    assert replace(driver.state, next_token=before.next_token) == before
