"""Submissions that need a switch which lags wait for it, and nothing else does."""

from dataclasses import replace

import pytest

from heddle.controller.brain.install import start_install
from heddle.controller.brain.state import Active, PlanWork
from heddle.controller.brain.transactions.jobs import MAX_ATTEMPTS
from heddle.controller.model.effect import GiveUp, Install, Note, ReadRules, Solve
from heddle.controller.model.error import UnavailableError
from heddle.controller.model.event import (
    Drain,
    InstallFailed,
    InstallLags,
    PortStatus,
    Release,
    RulesRead,
    Submit,
    SwitchCaughtUp,
    SwitchDown,
    SwitchUp,
    Tick,
    Withdraw,
)
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair, Steering
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.rule import ChangeOp, SwitchRules
from tests.unit.brain.driver import Driver, small_fabric


def pair(name: str, a: int, b: int, steering: Steering = Steering.PIN) -> JobRequest:
    """A job of two hosts that send to each other; hosts 1 and 2 are at leaf1, and so on."""
    pairs = (RankPair(src_rank=0, dst_rank=1), RankPair(src_rank=1, dst_rank=0))
    sends = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs)
    return JobRequest(job_id=name, ranks=(f"h{a}-n0", f"h{b}-n0"), collectives=(sends,), steering=steering)


@pytest.fixture
def driver() -> Driver:
    """Leaf1 replies to no barrier."""
    found = Driver(small_fabric())
    found.connect_all()
    found.mute = {"leaf1"}
    return found


def of(driver: Driver, kind: type) -> list:
    return [effect for effect in driver.effects if isinstance(effect, kind)]


def test_a_job_waits_for_its_switch_as_long_as_nothing_else_waits(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    assert driver.replies == {}
    assert of(driver, GiveUp) == []
    driver.speak("leaf1")
    assert isinstance(driver.reply_to(1), JobPlan)


def test_a_job_elsewhere_is_answered_while_one_waits(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    assert isinstance(driver.reply_to(2), JobPlan)
    assert 1 not in driver.replies
    assert [note.text for note in driver.notes[-1:]] == ["no reply to its barrier yet; other work goes on without it"]


def test_the_job_that_waited_runs_once_its_switch_has_caught_up(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    driver.speak("leaf1")
    assert isinstance(driver.reply_to(1), JobPlan)
    assert driver.differing() == []
    assert driver.state.parked == ()


def test_jobs_that_wait_for_a_switch_keep_their_order(driver):
    for number in range(1, 5):
        driver.feed(Submit(reply=number, request=pair(f"j{number}", 1, 2 + number)))
    driver.speak("leaf1")
    assert list(driver.replies) == [1, 2, 3, 4]
    assert all(isinstance(driver.reply_to(number), JobPlan) for number in range(1, 5))


def test_pins_that_a_slow_switch_has_installed_stay_for_the_job_that_is_planned_again(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    driver.effects.clear()
    driver.speak("leaf1")
    deletes = [
        change
        for install in of(driver, Install)
        for step in install.steps
        for change in step.changes.get("leaf1", ())
        if change.op is ChangeOp.RULE_DELETE
    ]
    assert deletes == []
    assert isinstance(driver.reply_to(1), JobPlan)


def test_a_switch_whose_session_ends_ends_the_wait_of_its_jobs(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    driver.miss_barrier("leaf1")
    refused = driver.reply_to(1)
    assert isinstance(refused, UnavailableError)
    assert "leaf1 is not connected" in str(refused)


def test_without_other_work_the_end_of_the_session_is_the_reply(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.miss_barrier("leaf1")
    assert "leaf1 did not acknowledge the plan (no reply to a barrier)" in str(driver.reply_to(1))
    assert driver.state.jobs == {}


def test_jobs_that_were_planned_together_wait_each_for_its_own_switches(driver):
    driver.hold = (Solve,)
    for reply, request in enumerate((pair("z", 5, 7), pair("a", 1, 3), pair("b", 5, 8), pair("c", 6, 7)), 1):
        driver.feed(Submit(reply=reply, request=request))
    driver.release_held()
    driver.feed(Submit(reply=5, request=pair("d", 6, 8)))
    assert {reply for reply in driver.replies if isinstance(driver.reply_to(reply), JobPlan)} == {1, 3, 4, 5}
    driver.speak("leaf1")
    assert isinstance(driver.reply_to(2), JobPlan)


def test_a_failed_link_elsewhere_gets_its_rules_while_a_switch_lags(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(PortStatus(switch="leaf4", port=1, up=False))
    assert [name for name in driver.differing() if name != "leaf1"] == []
    assert 1 not in driver.replies


def test_a_caller_that_leaves_takes_its_parked_submission_with_it(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    driver.feed(Withdraw(reply=1))
    assert driver.state.parked == ()
    driver.speak("leaf1")
    assert set(driver.state.jobs) == {"b"}
    assert driver.differing() == []


def test_a_second_caller_joins_a_parked_submission(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    driver.feed(Submit(reply=3, request=pair("a", 1, 3)))
    driver.speak("leaf1")
    assert driver.reply_to(1) == driver.reply_to(3)


def test_a_parked_submission_can_be_released(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    driver.feed(Release(reply=3, job_id="a"))
    assert driver.reply_to(3) == 0
    assert "released before" in str(driver.reply_to(1))


def test_a_drain_that_needs_a_switch_that_lags_makes_way_and_says_so(driver):
    driver.feed(Drain(reply=1, target="spine1", undrain=False))
    assert driver.replies == {}
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    assert "leaf1 did not acknowledge" in str(driver.reply_to(1))
    assert isinstance(driver.reply_to(2), JobPlan)
    driver.speak("leaf1")
    assert driver.differing() == []


def test_a_transaction_that_fails_for_a_switch_that_it_does_not_need_is_begun_again(driver):
    driver.mute = set()
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=pair("b", 5, 7)))
    (install,) = driver.waiting
    driver.waiting.clear()
    driver.hold = ()
    driver.feed(InstallFailed(token=install.token, switch="leaf1", reason="BAD_MATCH"))
    assert isinstance(driver.reply_to(1), JobPlan)


def test_a_job_whose_switch_is_being_read_waits_for_that(driver):
    driver.mute = set()
    driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    driver.hold = (Install,)
    driver.feed(SwitchUp(switch="leaf1", ports={}, installed=SwitchRules()))
    (install,) = driver.waiting
    driver.feed(InstallFailed(token=install.token, switch="leaf1", reason="TABLE_FULL", lagging=frozenset({"leaf1"})))
    driver.waiting.clear()
    driver.hold = ()
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    assert driver.replies == {}
    driver.feed(SwitchCaughtUp(switch="leaf1"))
    assert isinstance(driver.reply_to(1), JobPlan)


def test_a_submission_is_not_delayed_without_end(driver):
    """A switch that lags anew behind every plan, while other work waits each time."""
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    for number in range(2, MAX_ATTEMPTS + 2):
        driver.feed(Submit(reply=number, request=pair(f"b{number}", 5, 7)))
        driver.held["leaf1"] = SwitchRules()
        driver.speak("leaf1")
        driver.mute = {"leaf1"}
        if 1 in driver.replies:
            break
        driver.feed(Release(reply=100 + number, job_id=f"b{number}"))
    driver.mute = set()
    driver.speak("leaf1")
    assert 1 in driver.replies


def test_reports_of_other_installations_change_nothing(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    before = driver.state
    driver.feed(InstallLags(token=10**6, switches=frozenset({"leaf2"})))
    driver.feed(SwitchCaughtUp(switch="leaf2"))
    driver.feed(SwitchCaughtUp(switch="gone"))
    assert driver.state == before


def test_a_switch_that_lags_is_noted_once_as_a_warning(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    for reply in range(2, 5):
        driver.feed(Submit(reply=reply, request=pair(f"b{reply}", 5, 7)))
    warnings = [note for note in of(driver, Note) if note.subject == "leaf1" and note.severity != "info"]
    assert [note.severity for note in warnings] == ["warning"]


def test_a_plan_that_waits_to_be_installed_does_not_go_without_a_switch_whose_rules_became_unknown(driver):
    """Two leaves have lost their rules; the installation of both fails on one while a job over the other waits."""
    driver.mute = set()
    driver.hold = (Install, ReadRules)
    lost = {name: replace(driver.state.switches[name], installed=SwitchRules()) for name in ("leaf2", "leaf3")}
    driver.held |= dict.fromkeys(lost, SwitchRules())
    driver.state = replace(driver.state, switches=driver.state.switches | lost, dirty=frozenset(lost))
    driver.feed(Tick())
    (install,) = (effect for effect in driver.waiting if isinstance(effect, Install))
    driver.feed(Submit(reply=1, request=pair("a", 5, 7)))
    driver.waiting.clear()
    driver.feed(InstallFailed(token=install.token, switch="leaf2", reason="BAD_MATCH"))
    while driver.waiting:
        effect = driver.waiting.pop(0)
        if effect != ReadRules(switch="leaf3"):
            for event in driver.perform(effect):
                driver.feed(event)
    assert driver.replies == {}
    driver.feed(RulesRead(switch="leaf3", installed=SwitchRules()))
    driver.release_held()
    assert isinstance(driver.reply_to(1), JobPlan)
    assert driver.differing() == []


def test_a_switch_that_has_refused_rules_is_in_no_installation_of_a_job_that_does_not_need_it(driver):
    suspect = replace(driver.state.switches["leaf1"], installed=SwitchRules(), refusal="TABLE_FULL", failures=1)
    work = PlanWork(submissions=())
    state = replace(
        driver.state,
        switches={**driver.state.switches, "leaf1": suspect},
        dirty=frozenset({"leaf1"}),
        active=Active(token=7, work=work, health=driver.state.out_of_use, before={}, barriers=frozenset({"leaf3"})),
    )
    _, (effect,) = start_install(state, driver.now)
    assert isinstance(effect, Install)
    assert [set(step.changes) for step in effect.steps] == [{"leaf3"}]
    _, (effect,) = start_install(replace(state, active=None), driver.now)
    assert isinstance(effect, Install)
    assert {name for step in effect.steps for name in step.changes} == {"leaf1"}


@pytest.fixture
def moving() -> Driver:
    """A job of three hosts, one of them at leaf1: a job of others is planned best where some of its flows move."""
    found = Driver(small_fabric())
    found.connect_all()
    found.feed(Submit(reply=1, request=circle("a", 1, 5, 4)))
    return found


def circle(name: str, *hosts: int) -> JobRequest:
    """A job in which each of these hosts sends to the next, and the last to the first."""
    pairs = tuple(RankPair(src_rank=rank, dst_rank=(rank + 1) % len(hosts)) for rank in range(len(hosts)))
    sends = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs)
    ranks = tuple(f"h{host}-n0" for host in hosts)
    return JobRequest(job_id=name, ranks=ranks, collectives=(sends,), steering=Steering.PIN)


def test_the_arrival_of_the_next_tests_moves_flows_at_leaf1(moving):
    moving.feed(Submit(reply=2, request=circle("b", 3, 5)))
    moved = [step for each in of(moving, Install)[-2:] for step in each.steps if "leaf1" in step.changes]
    assert moved


@pytest.mark.parametrize("fault", ["mute", "refuse"])
def test_a_job_that_needs_a_switch_for_moves_alone_is_planned_without_them_where_it_fails(moving, fault):
    getattr(moving, fault).add("leaf1")
    before = [flow.links for flow in moving.state.jobs["a"].flows.flows]
    moving.feed(Submit(reply=2, request=circle("b", 3, 5)))
    assert isinstance(moving.reply_to(2), JobPlan)
    assert [flow.links for flow in moving.state.jobs["a"].flows.flows] == before
    assert moving.state.jobs["a"].state == "running"
