"""Submissions that wait for one plan are planned together by the next."""

import pytest

from heddle.controller.brain.transactions.submissions import MAX_TOGETHER
from heddle.controller.model.effect import Announce, Solve
from heddle.controller.model.error import NoAdmissiblePlanError, UnavailableError
from heddle.controller.model.event import PortStatus, Submit, Withdraw
from heddle.controller.model.job import Steering
from heddle.controller.model.moves import Cause, MoveLimit, Whose
from heddle.controller.model.plan import JobPlan
from tests.unit.brain.driver import Driver, shift_job, small_fabric


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    found.hold = (Solve,)
    return found


def submit(driver: Driver, *requests) -> None:
    """Submit requests, while the first plan is under way; replies are counted from 1."""
    for reply, request in enumerate(requests, 1):
        driver.feed(Submit(reply=reply, request=request))


def finish_first(driver: Driver) -> None:
    """Finish the plan under way, so that the next one, of all that wait, is under way."""
    first, driver.waiting = driver.waiting, []
    for effect in first:
        for event in driver.perform(effect):
            driver.feed(event)


def planned(driver: Driver) -> list[list[str]]:
    """Return the jobs of every plan that was asked for."""
    solves = [effect for effect in driver.effects if isinstance(effect, Solve) and effect.requests]
    return [[request.job_id for request in solve.requests] for solve in solves]


def test_those_that_wait_are_planned_together(driver):
    submit(driver, *(shift_job(name, ranks=4) for name in "abcd"))
    driver.release_held()
    assert planned(driver) == [["a"], ["b", "c", "d"]]
    assert [driver.reply_to(reply).state for reply in (1, 2, 3, 4)] == ["running"] * 4
    assert driver.differing() == []


def test_each_has_a_number_of_its_own_and_its_own_pins(driver):
    submit(driver, *(shift_job(name, by=by, steering=Steering.PIN) for by, name in ((2, "a"), (4, "b"), (6, "c"))))
    driver.release_held()
    assert planned(driver) == [["a"], ["b", "c"]]
    jobs = driver.state.jobs.values()
    assert len({job.number for job in jobs}) == 3
    assert all(job.pin_rules for job in jobs)
    assert driver.differing() == []


def test_no_more_than_a_limit_are_planned_together(driver):
    submit(driver, *(shift_job(f"j{number}", ranks=4) for number in range(MAX_TOGETHER + 3)))
    driver.release_held()
    assert [len(names) for names in planned(driver)] == [1, MAX_TOGETHER, 2]


def test_many_flows_are_not_planned_together(driver, monkeypatch):
    monkeypatch.setattr("heddle.controller.brain.transactions.submissions.MAX_FLOWS_TOGETHER", 10)
    submit(driver, *(shift_job(name, ranks=4) for name in "abcd"))
    driver.release_held()
    assert planned(driver) == [["a"], ["b", "c"], ["d"]]


def test_one_that_limits_moves_to_its_own_flows_is_planned_alone(driver):
    own = ((Cause.ARRIVAL, MoveLimit(whose=Whose.OWN_JOB, max_flows=4)),)
    submit(driver, shift_job("a", ranks=4), shift_job("b", ranks=4, move_limits=own), shift_job("c", ranks=4))
    driver.release_held()
    assert planned(driver) == [["a"], ["b"], ["c"]]


def test_what_is_refused_together_is_planned_one_by_one(driver):
    impossible = shift_job("c", require_utilisation=0.1)
    submit(driver, shift_job("a", ranks=4), shift_job("b", ranks=4), impossible, shift_job("d", ranks=4))
    driver.release_held()
    assert planned(driver) == [["a"], ["b", "c", "d"], ["b"], ["c"], ["d"]]
    assert isinstance(driver.reply_to(3), NoAdmissiblePlanError)
    assert [driver.reply_to(reply).state for reply in (1, 2, 4)] == ["running"] * 3


def test_a_caller_that_leaves_takes_only_its_own_job_away(driver):
    submit(driver, *(shift_job(name, ranks=4) for name in "abc"))
    finish_first(driver)
    driver.feed(Withdraw(reply=2))
    driver.release_held()
    assert planned(driver) == [["a"], ["b", "c"]]
    assert list(driver.state.jobs) == ["a", "c"]
    assert 2 not in driver.replies
    assert [effect for effect in driver.effects if isinstance(effect, Solve)][-1].requests == ()


def test_links_that_change_meanwhile_have_all_of_them_planned_again(driver):
    submit(driver, *(shift_job(name, ranks=4) for name in "abc"))
    finish_first(driver)
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    driver.release_held()
    assert planned(driver) == [["a"], ["b", "c"], ["b", "c"]]
    assert [isinstance(driver.reply_to(reply), JobPlan) for reply in (1, 2, 3)] == [True] * 3


def test_a_failed_installation_leaves_none_of_them(driver):
    submit(driver, *(shift_job(name, ranks=4, steering=Steering.PIN) for name in "abc"))
    finish_first(driver)
    driver.refuse = {"leaf1"}
    driver.release_held()
    assert list(driver.state.jobs) == ["a"]
    assert all(isinstance(driver.reply_to(reply), UnavailableError) for reply in (2, 3))
    ended = [e.plan.job_id for e in driver.effects if isinstance(e, Announce) and e.plan.state != "running"]
    assert ended == ["b", "c"]
