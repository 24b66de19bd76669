"""Jobs of reported flows have a share of rules and jobs, and leave where a submitted job needs the room."""

from dataclasses import replace

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.model.error import BudgetExceededError
from heddle.controller.model.event import Submit
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.observed import Stream, is_observed, job_for
from heddle.controller.model.plan import JobPlan
from tests.unit.brain.driver import Driver, shift_job, small_fabric

PINNED = JobRequest(
    job_id="a", ranks=tuple(f"h{number}-n0" for number in range(1, 9)), steering=Steering.PIN,
    collectives=(Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=10**6),),
)  # fmt: skip
"""It needs twelve rules on each leaf."""


class Budgeted(Driver):
    """A driver that checks the rule budgets after each step of an installation."""

    def _install(self, effect):
        found = super()._install(effect)
        for switch in self.fabric.switches:
            assert switch.rule_budget is None or len(self.held[switch.id].rules) <= switch.rule_budget
        return found


def room_for(job) -> dict[str, int]:
    """Return how many rules a job needs on each switch, without a budget."""
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=job))
    return {switch: len(rules) for switch, rules in driver.state.jobs[job.job_id].pin_rules.items()}


def budgeted(room, **settings) -> Budgeted:
    """Return a driver whose switches have room for so many rules of jobs, `room` a number or by switch."""
    fabric = small_fabric()
    underlay = Driver(fabric).state.underlay

    def budget(name):
        return len(underlay[name].rules) + (room if isinstance(room, int) else room.get(name, 0))

    switches = tuple(replace(switch, rule_budget=budget(switch.id)) for switch in fabric.switches)
    driver = Budgeted(replace(fabric, switches=switches), Settings(**settings))
    driver.connect_all()
    return driver


def report(driver, count) -> list[JobPlan | BudgetExceededError]:
    """Submit the jobs of as many streams."""
    for number in range(count):
        request = job_for(Stream(f"h{number % 2 + 1}-n0", f"h{number % 4 + 3}-n0", 50_000 + number))
        driver.feed(Submit(reply=1_000 + number, request=request))
    return [driver.reply_to(1_000 + number) for number in range(count)]


def observed(driver) -> list[str]:
    return [name for name, job in driver.state.jobs.items() if is_observed(job.request)]


def test_jobs_of_reported_flows_have_a_quarter_of_the_rules_of_a_switch():
    driver = budgeted(24)
    replies = report(driver, 10)
    refused = [each for each in replies if isinstance(each, BudgetExceededError)]
    assert refused
    assert all("has room for 6 rules of reported flows" in str(each) for each in refused)
    counts = [sum(len(driver.state.jobs[name].pin_rules.get("leaf1", ())) for name in observed(driver))]
    assert 0 < max(counts) <= 6


def test_they_leave_where_a_submitted_job_needs_their_rules():
    need = room_for(PINNED)
    driver = budgeted(need)
    report(driver, 6)
    before = observed(driver)
    assert before
    driver.feed(Submit(reply=1, request=PINNED))
    plan = driver.reply_to(1)
    assert isinstance(plan, JobPlan)
    assert plan.state is JobState.RUNNING
    gone = set(before) - set(observed(driver))
    ended = {plan.job_id for plan in driver.announced if plan.reason == "made room for job a"}
    assert gone == ended != set()
    assert not any(len(driver.held[name].rules) < len(rules.rules) for name, rules in driver.state.underlay.items())


def test_they_stay_where_a_submitted_job_would_not_fit_without_them_either():
    need = room_for(PINNED)
    driver = budgeted({switch: count - 1 for switch, count in need.items()})
    report(driver, 6)
    before = observed(driver)
    driver.feed(Submit(reply=1, request=PINNED))
    assert isinstance(driver.reply_to(1), BudgetExceededError)
    assert observed(driver) == before != []


@pytest.mark.parametrize("spare", [0, -1])
def test_a_preview_replies_as_a_submission_would(spare):
    driver = budgeted({switch: count + spare for switch, count in room_for(PINNED).items()})
    report(driver, 6)
    before = observed(driver)
    driver.feed(Submit(reply=1, request=PINNED, preview=True))
    assert isinstance(driver.reply_to(1), BudgetExceededError) == (spare < 0)
    assert observed(driver) == before


def test_they_have_a_quarter_of_the_jobs_and_take_none_from_others():
    driver = budgeted(10_000, max_jobs=8)
    report(driver, 6)
    assert len(observed(driver)) == 2
    for number in range(9):
        driver.feed(Submit(reply=number, request=shift_job(f"j{number}")))
    replies = [driver.reply_to(number) for number in range(9)]
    assert [isinstance(each, JobPlan) for each in replies] == [True] * 8 + [False]
    assert "8 jobs hold paths already" in str(replies[8])
