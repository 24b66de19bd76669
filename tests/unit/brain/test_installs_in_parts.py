"""Large changes of the underlay are installed a few switches at a time, and compilations of a flapping fabric pause."""

from dataclasses import replace

import pytest

from heddle.controller.brain import install
from heddle.controller.model.effect import Compile, Install, Wake
from heddle.controller.model.event import Compiled, PortStatus, Submit, Tick
from heddle.controller.model.job import Steering
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.rule import FlowRule
from heddle.controller.rules.pins import is_pin
from tests.unit.brain.driver import Driver, shift_job, small_fabric

LEAVES = 6


@pytest.fixture
def driver(monkeypatch) -> Driver:
    found = Driver(small_fabric(spines=3, leaves=LEAVES))
    found.connect_all()
    monkeypatch.setattr(install, "MAX_CHANGES", 1)
    return found


def installs(driver: Driver) -> list[Install]:
    return [effect for effect in driver.effects if isinstance(effect, Install)]


def switches_of(effect: Install) -> set[str]:
    return {switch for step in effect.steps for switch in step.changes}


def test_exceptions_arrive_a_bounded_number_of_switches_at_a_time_and_all_arrive(driver):
    driver.effects.clear()
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert all(len(switches_of(effect)) == 1 for effect in installs(driver))
    assert set().union(*map(switches_of, installs(driver))) == {f"leaf{n}" for n in range(1, LEAVES + 1)}
    assert driver.differing() == []
    assert driver.state.dirty == frozenset()


def test_few_changes_are_one_installation(driver, monkeypatch):
    monkeypatch.setattr(install, "MAX_CHANGES", 1_000)
    driver.effects.clear()
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert len(installs(driver)) == 1


def test_a_new_switch_gets_its_pins_after_its_underlay(driver):
    driver.feed(Submit(reply=1, request=shift_job("a", ranks=2 * LEAVES, steering=Steering.PIN), preview=False))
    driver.held = dict.fromkeys(driver.held, type(driver.held["leaf1"])())
    driver.effects.clear()
    driver.connect_all()
    for effect in installs(driver):
        kinds = {
            is_pin(change.item)
            for step in effect.steps
            for changes in step.changes.values()
            for change in changes
            if isinstance(change.item, FlowRule)
        }
        assert kinds in ({True}, {False}) or len(switches_of(effect)) == 1
    assert driver.differing() == []


def test_a_transaction_ends_with_its_pins_not_with_a_part_of_the_underlay(driver):
    driver.hold = (Compile,)
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    request = shift_job("a", ranks=2 * LEAVES, steering=Steering.PIN)
    driver.hold = (Compile, Install)
    driver.feed(Submit(reply=1, request=request, preview=False))
    driver.hold = (Install,)
    parts = 0
    while driver.waiting:
        waiting, driver.waiting = driver.waiting, []
        for effect in waiting:
            parts += isinstance(effect, Install)
            assert 1 not in driver.replies or not driver.waiting
            for event in driver.perform(effect):
                driver.feed(event)
    assert parts > LEAVES - 1
    assert isinstance(driver.reply_to(1), JobPlan)
    assert driver.differing() == []


def test_the_first_failure_is_compiled_at_once_and_the_next_waits_as_long_as_that_took(driver):
    driver.hold = (Compile,)
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert len(driver.waiting) == 1
    driver.now += 300
    (first,), driver.waiting = driver.waiting, []
    (done,) = driver.perform(first)
    assert isinstance(done, Compiled)
    driver.feed(done)
    assert Wake(after_ms=300) in driver.effects
    driver.feed(PortStatus(switch="leaf2", port=1, up=False))
    assert driver.waiting == []
    driver.now += 299
    driver.feed(Tick())
    assert driver.waiting == []
    driver.now += 1
    driver.feed(Tick())
    (second,) = driver.waiting
    assert isinstance(second, Compile)
    assert second.health == driver.state.out_of_use


def test_a_clock_that_is_set_back_stops_no_compilation(driver):
    driver.state = replace(driver.state, compile_pause_unix_ms=driver.now + 3_600_000)
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    assert driver.state.compiled_for == driver.state.health
