"""A switch that refuses rules: no new job uses it, jobs that cross it are degraded, and others are not touched."""

import pytest

from heddle.controller.brain.install import MAX_LOST
from heddle.controller.brain.state import wanted
from heddle.controller.model.effect import Install, ReadRules
from heddle.controller.model.error import UnavailableError
from heddle.controller.model.event import Drain, Release, RulesRead, Submit, SwitchDown, SwitchUp
from heddle.controller.model.job_state import JobState
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.rule import ChangeOp, SwitchRules
from heddle.controller.views.switch_faults import fault_of
from heddle.controller.views.view import explain
from tests.unit.brain.driver import Driver, shift_job, small_fabric
from tests.unit.brain.test_parking import pair


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric())
    found.connect_all()
    return found


def refuses_after_a_reboot(driver: Driver, switch: str = "leaf1") -> None:
    driver.feed(SwitchDown(switch=switch, reason="rebooted"))
    driver.held[switch] = SwitchRules()
    driver.refuse = {switch}
    driver.feed(SwitchUp(switch=switch, ports={}, installed=SwitchRules()))


def accepts(driver: Driver, switch: str = "leaf1") -> None:
    driver.refuse = set()
    driver.feed(SwitchDown(switch=switch, reason="repaired"))
    driver.feed(SwitchUp(switch=switch, ports={}, installed=driver.held[switch]))


def test_a_new_job_over_it_is_refused_and_the_reason_names_the_error(driver):
    refuses_after_a_reboot(driver)
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    refused = driver.reply_to(1)
    assert isinstance(refused, UnavailableError)
    assert str(refused) == "switch leaf1 lacks rules that it should hold, so no job uses it: refused by the test"


def test_jobs_are_planned_around_a_spine_that_is_drained(driver):
    refuses_after_a_reboot(driver, "spine1")
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert str(driver.reply_to(1)).endswith("; `heddle drain spine1` plans around it")
    driver.feed(Drain(reply=2, target="spine1", undrain=False))
    driver.feed(Submit(reply=3, request=shift_job("a")))
    plan = driver.reply_to(3)
    assert isinstance(plan, JobPlan)
    assert not any("spine1" in link for flow in plan.flows.flows for link in flow.links)


def test_a_new_job_elsewhere_runs(driver):
    refuses_after_a_reboot(driver)
    driver.feed(Submit(reply=1, request=pair("b", 5, 7)))
    assert isinstance(driver.reply_to(1), JobPlan)


def test_a_running_job_over_it_is_degraded_and_recovers(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 5, 7)))
    refuses_after_a_reboot(driver)
    assert {name: job.state for name, job in driver.state.jobs.items()} == {
        "a": JobState.DEGRADED, "b": JobState.RUNNING,
    }  # fmt: skip
    assert (driver.announced[-1].job_id, driver.announced[-1].state) == ("a", JobState.DEGRADED)
    assert "leaf1 lacks rules" in driver.announced[-1].reason
    accepts(driver)
    assert driver.state.jobs["a"].state is JobState.RUNNING
    assert (driver.announced[-1].job_id, driver.announced[-1].state) == ("a", JobState.RUNNING)
    assert driver.announced[-1].generation == driver.state.jobs["a"].generation


def test_a_degraded_job_stays_so_where_it_is_planned_again(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    driver.feed(Submit(reply=2, request=pair("b", 3, 7)))
    refuses_after_a_reboot(driver)
    driver.feed(Release(reply=3, job_id="b"))
    assert driver.state.jobs["a"].state is JobState.DEGRADED


def test_it_stays_lacking_while_it_is_away(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    refuses_after_a_reboot(driver)
    generation = driver.state.jobs["a"].generation
    driver.feed(SwitchDown(switch="leaf1", reason="gone"))
    driver.feed(SwitchUp(switch="leaf1", ports={}, installed=SwitchRules()))
    assert driver.state.jobs["a"].state is JobState.DEGRADED
    assert driver.state.jobs["a"].generation == generation


def test_it_gets_three_installations_a_session_and_none_with_those_of_others(driver):
    refuses_after_a_reboot(driver)
    driver.effects.clear()
    for reply in range(1, 6):
        driver.feed(Submit(reply=reply, request=pair(f"b{reply}", 5, 7)))
    sent = [step.changes for each in driver.effects if isinstance(each, Install) for step in each.steps]
    assert not any("leaf1" in changes for changes in sent)
    assert all(isinstance(driver.reply_to(reply), JobPlan) for reply in range(1, 6))


def test_events_say_how_many_rules_it_lacks_and_why_and_when_it_has_them(driver):
    refuses_after_a_reboot(driver)
    count = len(driver.state.underlay["leaf1"].rules) + len(driver.state.underlay["leaf1"].groups)
    texts = [(note.severity, note.text) for note in driver.notes if note.subject == "leaf1"]
    assert texts[-1] == ("error", f"lacks {count} rules, so no new job uses it: refused by the test")
    accepts(driver)
    texts = [(note.severity, note.text) for note in driver.notes if note.subject == "leaf1"]
    assert ("info", "holds its rules again; jobs may use it") in texts


def test_explain_and_the_topology_say_so(driver):
    driver.feed(Submit(reply=1, request=pair("a", 1, 3)))
    refuses_after_a_reboot(driver)
    text = "it lacks rules that it should hold: refused by the test"
    assert fault_of(driver.state, "leaf1") == text
    assert fault_of(driver.state, "leaf2") == ""
    assert f"Switch leaf1: {text}." in explain(driver.state, "a/0/0-1/0").text


def test_a_switch_that_refused_the_rules_of_one_job_is_used_by_the_next(driver):
    """A table that was full for pins: all that the switch should hold without that job, it holds."""
    for reply in range(1, 6):
        driver.refuse = {"leaf1"}
        driver.feed(Submit(reply=reply, request=pair(f"j{reply}", 1, 3)))
        assert isinstance(driver.reply_to(reply), UnavailableError)
        driver.refuse = set()
    driver.feed(Submit(reply=9, request=pair("a", 1, 3)))
    assert isinstance(driver.reply_to(9), JobPlan)
    assert driver.state.lacking == frozenset()


class Liar(Driver):
    """A leaf that acknowledges every rule and holds none, while `lies`."""

    lies = True

    def audit(self) -> None:
        """Let the leaf be read."""
        audit = self.state.next_token
        self.feed(RulesRead(switch="leaf1", installed=self.read(), audit=audit))

    def read(self) -> SwitchRules:
        return SwitchRules() if self.lies else self.held["leaf1"]

    def _readrules(self, effect):
        if effect.switch == "leaf1":
            return [RulesRead(switch="leaf1", installed=self.read(), audit=effect.audit)]
        return super()._readrules(effect)


@pytest.fixture
def liar() -> Liar:
    found = Liar(small_fabric())
    found.connect_all()
    found.feed(Submit(reply=1, request=pair("a", 1, 3)))
    return found


def test_a_switch_that_loses_what_it_acknowledges_is_named_after_three_audits_and_no_new_job_uses_it(liar):
    for number in range(1, MAX_LOST + 1):
        assert not liar.state.lacking
        liar.audit()
        assert liar.state.switches["leaf1"].lost == number
    assert liar.state.lacking == {"leaf1"}
    assert liar.state.jobs["a"].state is JobState.DEGRADED
    liar.feed(Submit(reply=2, request=pair("b", 1, 5)))
    refused = liar.reply_to(2)
    assert isinstance(refused, UnavailableError)
    why = "it acknowledged them, and 3 readings in a row did not show"
    assert f"switch leaf1 lacks rules that it should hold, so no job uses it: {why}" in str(refused)
    assert any(note.severity == "error" and note.subject == "leaf1" and why in note.text for note in liar.notes)
    assert why in fault_of(liar.state, "leaf1")
    liar.feed(Submit(reply=3, request=pair("c", 5, 7)))
    assert isinstance(liar.reply_to(3), JobPlan)


def test_it_is_not_believed_when_it_connects_again_but_read_and_used_once_it_holds_its_rules(liar):
    for _ in range(MAX_LOST):
        liar.audit()
    for lies in (True, False):
        liar.lies = lies
        liar.feed(SwitchDown(switch="leaf1", reason="restarted"))
        liar.feed(SwitchUp(switch="leaf1", ports={}, installed=SwitchRules()))
        assert liar.state.lacking == ({"leaf1"} if lies else frozenset())
    assert liar.state.jobs["a"].state is JobState.RUNNING
    assert liar.state.switches["leaf1"].lost == 0


def test_rules_that_are_lost_now_and_then_are_repaired_and_no_more(liar):
    for _ in range(4):
        for lies in (True, True, False):
            liar.lies = lies
            liar.audit()
    assert not liar.state.lacking
    assert liar.state.jobs["a"].state is JobState.RUNNING


def test_an_audit_that_finds_every_rule_begins_the_count_anew(liar):
    for lies, lost in ((True, 1), (True, 2), (False, 0), (True, 1)):
        liar.lies = lies
        liar.audit()
        assert liar.state.switches["leaf1"].lost == lost


def test_it_gets_its_rules_once_an_audit_while_it_lacks_them(liar):
    for _ in range(MAX_LOST):
        liar.audit()
    for reply in (10, 11, 12):
        liar.effects.clear()
        liar.audit()
        liar.feed(Submit(reply=reply, request=pair(f"b{reply}", 5, 7)))
        steps = [step for each in liar.effects if isinstance(each, Install) for step in each.steps]
        changes = [change for step in steps for change in step.changes.get("leaf1", ())]
        added = {change.item for change in changes if change.op is ChangeOp.RULE_ADD}
        assert added == set(wanted(liar.state, "leaf1").rules)
        assert sum(isinstance(each, ReadRules) and each.switch == "leaf1" for each in liar.effects) == 1


def test_what_removes_its_rules_again_and_again_is_named_until_the_repair_stays(liar):
    for _ in range(2 * MAX_LOST):
        liar.audit()
    assert liar.state.lacking == {"leaf1"}
    liar.lies = False
    liar.audit()
    assert not liar.state.lacking
    assert liar.state.jobs["a"].state is JobState.RUNNING
    assert liar.state.switches["leaf1"].failures == liar.state.switches["leaf1"].lost == 0


def test_it_gets_its_rules_although_other_rules_turn_up_there(liar):
    for _ in range(MAX_LOST):
        liar.audit()
    liar.lies, whole = False, liar.held["leaf1"]
    liar.held["leaf1"] = SwitchRules(rules=whole.rules[:1])
    liar.audit()
    assert {rule.key for rule in liar.held["leaf1"].rules} == {rule.key for rule in whole.rules}
    assert not liar.state.lacking
