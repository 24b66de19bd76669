"""Audits: rules that a switch holds are compared with those installed, and what differs is reported and repaired."""

from dataclasses import replace

import pytest

from heddle.controller.model.effect import Install, ReadRules
from heddle.controller.model.event import RulesRead, Submit, SwitchDown, SwitchUp, Tick
from heddle.controller.model.job import Steering
from tests.unit.brain.driver import Driver, shift_job, small_fabric


@pytest.fixture
def driver():
    found = Driver(small_fabric())
    found.connect_all()
    found.now += found.settings.audit_ms
    found.hold = (ReadRules,)
    return found


def audits(driver):
    """Let the time of a whole round of audits pass; return what is read."""
    for _ in range(10):
        driver.now += driver.settings.audit_ms // 10
        driver.feed(Tick())
    return driver.waiting


def read(driver, switch, rules):
    (audit, *_) = [effect.audit for effect in audits(driver) if effect.switch == switch]
    before = len(driver.effects)
    driver.feed(RulesRead(switch=switch, installed=rules, audit=audit))
    return [type(effect).__name__ for effect in driver.effects[before:] if isinstance(effect, Install)]


def test_a_round_reads_every_switch(driver):
    assert {effect.switch for effect in audits(driver)} == {switch.id for switch in driver.fabric.switches}


def test_a_switch_that_holds_what_was_installed_is_left_alone(driver):
    notes = len(driver.notes)
    assert read(driver, "leaf1", driver.held["leaf1"]) == []
    assert driver.notes[notes:] == []


def test_a_rule_that_is_missing_is_named_with_its_switch_and_installed_again(driver):
    wanted = driver.held["leaf1"]
    driver.held["leaf1"] = replace(wanted, rules=wanted.rules[1:])
    assert read(driver, "leaf1", driver.held["leaf1"]) == ["Install"]
    note = driver.notes[-1]
    assert (note.severity, note.subject) == ("warning", "leaf1")
    assert note.text == "audit: 1 rules or groups differ from what was installed; repaired"
    assert set(driver.held["leaf1"].rules) == set(wanted.rules)


def test_what_was_read_of_a_switch_that_has_left_is_ignored(driver):
    wanted = driver.held["leaf1"]
    (audit, *_) = [effect.audit for effect in audits(driver) if effect.switch == "leaf1"]
    driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    before = driver.state
    driver.feed(RulesRead(switch="leaf1", installed=replace(wanted, rules=()), audit=audit))
    assert driver.state == before


def test_what_was_read_during_an_installation_is_ignored(driver):
    driver.hold = (Install, ReadRules)
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    assert driver.state.installing is not None
    assert "leaf1" in driver.state.installing.target
    (audit, *_) = [
        effect.audit for effect in audits(driver) if isinstance(effect, ReadRules) and effect.switch == "leaf1"
    ]
    before = driver.state
    driver.feed(RulesRead(switch="leaf1", installed=replace(driver.held["leaf1"], rules=()), audit=audit))
    assert driver.state == before


@pytest.mark.parametrize("is_known_to_be_gone", [True, False])
def test_a_switch_that_connects_anew_during_an_installation_is_no_longer_part_of_it(driver, is_known_to_be_gone):
    driver.hold = (Install,)
    driver.feed(Submit(reply=1, request=shift_job("a", steering=Steering.PIN)))
    if is_known_to_be_gone:
        driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    driver.feed(SwitchUp(switch="leaf1", ports={}, installed=driver.held["leaf1"]))
    assert driver.state.installing is not None
    assert "leaf1" not in driver.state.installing.target
    assert "leaf2" in driver.state.installing.target
