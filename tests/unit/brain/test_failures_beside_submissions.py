"""A failure that finds submissions waiting is planned twice: paths for its flows at once, then the moves of others."""

import pytest

from heddle.controller.brain.decide import decide_all
from heddle.controller.brain.transactions.submissions import waiting_submissions
from heddle.controller.model.effect import Reply, Solve
from heddle.controller.model.error import AlreadyExistsError
from heddle.controller.model.event import PortStatus, Submit
from heddle.controller.model.moves import NO_MOVES, Cause
from tests.unit.brain.driver import Driver, shift_job, small_fabric


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    found.feed(Submit(reply=1, request=shift_job("running")))
    found.hold = (Solve,)
    return found


def fail(driver: Driver) -> None:
    """Let the first cable fail that the running job uses."""
    link = driver.state.jobs["running"].flows.flows[0].links[1]
    switch, port = link.split(">")[0].split(":")
    driver.feed(PortStatus(switch=switch, port=int(port), up=False))


def replans(driver: Driver) -> list[tuple[bool, bool]]:
    """Return of every plan without new jobs whether it is urgent, and whether it may move others."""
    solves = [effect for effect in driver.effects if isinstance(effect, Solve) and not effect.requests]
    return [(solve.urgent, solve.limit != NO_MOVES) for solve in solves]


def test_paths_come_first_and_moves_next_before_the_submissions(driver):
    for reply, name in enumerate("abc", 2):
        driver.feed(Submit(reply=reply, request=shift_job(name)))
    fail(driver)
    driver.release_held()
    assert replans(driver) == [(True, False), (False, True)]
    of_jobs = [len(effect.requests) for effect in driver.effects if isinstance(effect, Solve)]
    assert of_jobs[1:] == [1, 0, 0, 1, 2]  # the first submission was interrupted, and is planned again alone
    assert [driver.reply_to(reply).state for reply in (2, 3, 4)] == ["running"] * 3
    assert driver.differing() == []


def test_the_moves_have_the_limit_of_failures(driver):
    for reply, name in enumerate("ab", 2):
        driver.feed(Submit(reply=reply, request=shift_job(name)))
    fail(driver)
    driver.release_held()
    relief = [effect for effect in driver.effects if isinstance(effect, Solve) and not effect.requests][-1]
    assert relief.limit == driver.settings.moves[Cause.FAILURE]


def test_without_submissions_a_failure_is_planned_once(driver):
    fail(driver)
    driver.release_held()
    assert replans(driver) == [(True, True)]


def test_another_failure_takes_the_place_of_the_moves_that_wait(driver):
    for reply, name in enumerate("ab", 2):
        driver.feed(Submit(reply=reply, request=shift_job(name)))
    fail(driver)
    driver.feed(PortStatus(switch="leaf4", port=1, up=False))
    driver.release_held()
    urgent = [is_urgent for is_urgent, _ in replans(driver)]
    assert urgent[:2] == [True, True]
    assert replans(driver)[-1] == (False, True)
    assert driver.differing() == []


def test_two_submissions_of_one_id_in_a_turn_are_one_job_or_a_conflict(driver):
    same, other = shift_job("a"), shift_job("a", by=4)
    events = tuple(Submit(reply=reply, request=request) for reply, request in ((2, same), (3, same), (4, other)))
    state, effects = decide_all(driver.state, events, driver.now)
    refused = [effect for effect in effects if isinstance(effect, Reply)]
    assert [(effect.reply, type(effect.outcome)) for effect in refused] == [(4, AlreadyExistsError)]
    assert next(waiting_submissions(state)).replies == (2, 3)
