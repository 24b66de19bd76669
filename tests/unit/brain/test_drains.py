"""Drains: flows leave first, rules follow, and the caller learns when both are acknowledged."""

from dataclasses import replace

import pytest

from heddle.controller.model.effect import Announce, Drained, Install, Solve
from heddle.controller.model.error import NoAdmissiblePlanError, NotFoundError, UnavailableError
from heddle.controller.model.event import Drain, PortStatus, Solved, Submit
from heddle.controller.model.job import Steering
from heddle.controller.model.plan import Infeasible
from heddle.controller.views.view import explain
from tests.unit.brain.driver import Driver, shift_job, small_fabric

LINK = "leaf1:1>spine1:1"


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric(spines=3))
    found.connect_all()
    return found


def links_of(driver: Driver, job_id: str) -> set[str]:
    return {link for flow in driver.state.jobs[job_id].flows.flows for link in (*flow.links, *flow.reverse_links)}


@pytest.mark.parametrize("steering", Steering)
def test_flows_leave_a_drained_link_and_its_caller_waits_for_the_switches(driver, steering):
    driver.feed(Submit(reply=1, request=shift_job("a", steering=steering)))
    assert LINK in links_of(driver, "a")
    driver.hold = (Install,)
    driver.feed(Drain(reply=2, target=LINK))
    assert 2 not in driver.replies
    driver.release_held()
    done = driver.reply_to(2)
    assert isinstance(done, Drained)
    assert done.flows_moved >= 1
    assert done.certificate.max_link_utilisation == 1.0
    cable = driver.fabric.cable_by_link[LINK]
    assert links_of(driver, "a").isdisjoint({cable.up_link, cable.down_link})
    assert driver.state.jobs["a"].state == "running"
    assert driver.differing() == []


def test_either_direction_names_the_link(driver):
    driver.feed(Drain(reply=1, target=driver.fabric.cable_by_link[LINK].down_link))
    assert driver.state.drained == {driver.fabric.cable_by_link[LINK].id}


def test_a_drained_switch_carries_no_flow_until_it_is_returned(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Drain(reply=2, target="spine1"))
    assert isinstance(driver.reply_to(2), Drained)
    assert all("spine1:" not in link for link in links_of(driver, "a"))
    driver.feed(Drain(reply=3, target="spine1", undrain=True))
    assert driver.state.drained == frozenset()
    assert driver.differing() == []
    driver.feed(Submit(reply=4, request=shift_job("b", by=4)))
    assert any("spine1:" in link for link in links_of(driver, "b") | links_of(driver, "a"))


@pytest.mark.parametrize("steering", Steering)
def test_flows_return_with_a_switch_that_is_returned_to_use(steering):
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", steering=steering)))
    driver.feed(Drain(reply=2, target="spine1"))
    assert driver.state.certificate.max_link_utilisation == 2.0
    driver.feed(Drain(reply=3, target="spine1", undrain=True))
    assert driver.state.certificate.max_link_utilisation == 1.0
    assert driver.differing() == []


def test_a_drain_that_strands_a_flow_is_refused_and_names_it(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    for reply, target in enumerate(("spine1", "spine2"), 2):
        driver.feed(Drain(reply=reply, target=target))
    before = driver.state.jobs, driver.state.underlay
    driver.feed(Drain(reply=4, target="spine3"))
    refused = driver.reply_to(4)
    assert isinstance(refused, NoAdmissiblePlanError)
    assert "a/0/0-2/0" in str(refused)
    assert (driver.state.jobs, driver.state.underlay) == before
    assert driver.state.drained == {"spine1", "spine2"}


def decided(driver: Driver, target: str, *, undrain: bool = False, dry_run: bool = False) -> object:
    """Return what a drain, or its dry run, replies: the class of a refusal with its text, or what moved."""
    reply = len(driver.replies) + 1_000
    driver.feed(Drain(reply=reply, target=target, undrain=undrain, dry_run=dry_run))
    outcome = driver.reply_to(reply)
    return outcome if isinstance(outcome, Drained) else (type(outcome), str(outcome))


@pytest.mark.parametrize("undrain", [False, True])
@pytest.mark.parametrize("target", ["spine1", "spine2", "spine3", "leaf1", LINK, "leaf1:3>spine3:1", "leaf9"])
@pytest.mark.parametrize("drained", [(), ("spine2",), ("spine2", "spine3"), (LINK,)])
def test_a_dry_run_changes_nothing_and_replies_as_the_drain_then_does(driver, drained, target, undrain):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    for each in drained:
        assert isinstance(decided(driver, each), Drained)
    before = driver.state
    dry = decided(driver, target, undrain=undrain, dry_run=True)
    assert replace(driver.state, next_token=before.next_token) == before
    wet = decided(driver, target, undrain=undrain)
    if isinstance(dry, Drained) and isinstance(wet, Drained):
        assert (dry.flows_moved, dry.jobs, dry.undrain) == (wet.flows_moved, wet.jobs, wet.undrain)
        assert dry.certificate.max_link_utilisation == wet.certificate.max_link_utilisation
    else:
        assert dry == wet


def test_draining_twice_and_returning_what_is_in_use_change_nothing(driver):
    driver.feed(Drain(reply=1, target=LINK, undrain=True))
    driver.feed(Drain(reply=2, target=LINK))
    driver.feed(Drain(reply=3, target=LINK))
    assert [driver.reply_to(reply).flows_moved for reply in (1, 2, 3)] == [0, 0, 0]


def test_an_unknown_target_is_not_found(driver):
    driver.feed(Drain(reply=1, target="leaf9"))
    assert isinstance(driver.reply_to(1), NotFoundError)


def test_a_drained_link_stays_out_of_use_when_another_fails_and_returns(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.feed(Drain(reply=2, target=LINK))
    driver.feed(PortStatus(switch="leaf2", port=1, up=False))
    driver.port_up("leaf2", 1)
    assert LINK not in links_of(driver, "a")
    assert driver.differing() == []


def test_explain_says_why_a_flow_has_moved(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    flow = next(flow for flow in driver.state.jobs["a"].flows.flows if LINK in flow.links)
    driver.feed(Drain(reply=2, target=LINK))
    (line,) = explain(driver.state, flow.flow_id).moves
    assert f"generation 2: left {' '.join(flow.links)}" in line
    assert f"{LINK} drained" in line


def installed_and_published(driver: Driver, since: int) -> list[object]:
    """Return the installations, as how long they wait, and the published generations, in order."""
    found: list[object] = []
    for effect in driver.effects[since:]:
        if isinstance(effect, Announce):
            found.append((effect.plan.generation, {flow.rate_bps for flow in effect.plan.flows.flows}))
        elif isinstance(effect, Install) and effect.steps:
            found.append(f"install after {effect.after_ms} ms")
    return found


FULL, HALF = {10**9}, {10**9 // 2}


def test_where_switches_move_flows_rates_fall_first_and_hosts_have_time_to_follow():
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    before, since = driver.announced[-1], len(driver.effects)
    driver.feed(Drain(reply=2, target="spine1"))
    wait = f"install after {driver.settings.follow_ms} ms"
    assert installed_and_published(driver, since) == [(2, HALF), wait, (3, HALF)]
    slower = driver.announced[-2]
    assert [flow.links for flow in slower.flows.flows] == [flow.links for flow in before.flows.flows]
    driver.feed(Drain(reply=3, target="spine1", undrain=True))
    assert installed_and_published(driver, since)[3:] == ["install after 0 ms", (4, FULL)]


def test_flows_that_choose_their_path_leave_a_drained_switch_before_rules_divert_them():
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=shift_job("a")))
    since = len(driver.effects)
    driver.feed(Drain(reply=2, target="spine1"))
    driver.feed(Drain(reply=3, target="spine1", undrain=True))
    wait = f"install after {driver.settings.follow_ms} ms"
    assert installed_and_published(driver, since) == [(2, HALF), wait, "install after 0 ms", (3, FULL)]


def test_a_switch_that_does_not_acknowledge_is_named_and_the_flows_that_moved_are_published(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    driver.refuse = {"leaf2"}
    driver.feed(Drain(reply=2, target="spine1"))
    failed = driver.reply_to(2)
    assert isinstance(failed, UnavailableError)
    assert str(failed) == (
        "switch leaf2 did not acknowledge (refused by the test); the target stays drained, and rules follow"
    )
    assert driver.state.drained == {"spine1"}
    newest = driver.announced[-1]
    assert newest.generation == driver.state.jobs["a"].generation > 1
    assert all("spine1:" not in link for flow in newest.flows.flows for link in flow.links)


@pytest.mark.parametrize("undrain", [False, True])
def test_a_drain_that_gave_way_and_is_requested_again_is_done_once_the_switch_has_acknowledged(driver, undrain):
    if undrain:
        driver.feed(Drain(reply=1, target="spine1"))
    driver.mute = {"leaf2"}
    driver.feed(Drain(reply=2, target="spine1", undrain=undrain))
    driver.feed(Drain(reply=3, target="spine1", undrain=undrain))
    stays = "stays in use" if undrain else "stays drained"
    for reply in (2, 3):
        late = driver.reply_to(reply)
        assert isinstance(late, UnavailableError)
        assert "switch leaf2" in str(late)
        assert f"{stays}, and rules follow" in str(late)
    driver.speak("leaf2")
    driver.feed(Drain(reply=4, target="spine1", undrain=undrain))
    done = driver.reply_to(4)
    assert isinstance(done, Drained)
    assert done.flows_moved == 0


@pytest.mark.parametrize("outcome", [Infeasible(why="no room"), UnavailableError("the planner ended")])
def test_a_drain_that_cannot_be_planned_is_refused_with_the_reason_and_the_next_work_begins(driver, outcome):
    driver.hold = (Solve,)
    driver.feed(Drain(reply=1, target="spine1"))
    driver.feed(Drain(reply=2, target="spine2"))
    (solve,) = driver.waiting
    driver.feed(Solved(token=solve.token, outcome=outcome, solve_ns=1))
    refused = driver.reply_to(1)
    assert isinstance(refused, NoAdmissiblePlanError if isinstance(outcome, Infeasible) else UnavailableError)
    assert ("no room" if isinstance(outcome, Infeasible) else "the planner ended") in str(refused)
    assert driver.state.drained == frozenset()
    del driver.waiting[0]
    driver.release_held()
    assert isinstance(driver.reply_to(2), Drained)


def test_a_drain_that_was_planned_for_another_fabric_is_planned_again(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    driver.hold = (Solve,)
    driver.feed(Drain(reply=2, target="spine1"))
    driver.feed(PortStatus(switch="leaf1", port=2, up=False))
    driver.release_held()
    assert isinstance(driver.reply_to(2), Drained)
    cable = driver.fabric.cable_by_link["leaf1:2>spine2:1"]
    gone = {cable.up_link, cable.down_link}
    assert all(link not in gone and "spine1:" not in link for link in links_of(driver, "a"))
