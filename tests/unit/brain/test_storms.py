"""NICs that send pause without end are quarantined, at most two at a time, and return when they have been well."""

import pytest

from heddle.controller.brain.settings import Settings
from heddle.controller.model.event import Congested, Submit
from heddle.controller.model.rule import Masked, Match
from tests.unit.brain.driver import Driver, shift_job, small_fabric

WAIT_MS = 1_000


@pytest.fixture
def driver() -> Driver:
    found = Driver(small_fabric(), Settings(quarantine_ms=WAIT_MS, period_ms=100))
    found.connect_all()
    found.feed(Submit(reply=1, request=shift_job("a")))
    return found


def storm(driver: Driver, *nics: str, ms: int = 0) -> None:
    driver.now += ms
    driver.feed(Congested(hot=(), storms=nics))


def dropped(driver: Driver, nic: str) -> bool:
    """Return whether the leaf of a NIC drops what is sent to it."""
    found = driver.fabric.nic_by_id[nic]
    exact = Masked(found.ip, 0xFFFFFFFF)
    rules = driver.held[found.port.switch].rules
    (rule,) = [rule for rule in rules if isinstance(rule.match, Match) and rule.match.ipv4_dst == exact]
    return rule.actions == ()


def test_a_storming_nic_is_quarantined_at_its_leaf_and_its_jobs_are_notified(driver):
    storm(driver, "h3-n0")
    assert dropped(driver, "h3-n0")
    assert not dropped(driver, "h4-n0")
    job = driver.announced[-1]
    assert (job.job_id, job.state) == ("a", "degraded")
    assert "NIC h3-n0 in quarantine: it sends pause without end" in job.reason
    assert "no path for flow a/0/0-2/0 and 1 more" in job.reason
    assert driver.differing() == []


def test_it_returns_when_it_has_not_stormed_for_the_time_which_doubles_with_each_episode(driver):
    for episode in range(3):
        storm(driver, "h3-n0")
        storm(driver, "h3-n0", ms=WAIT_MS - 1)
        storm(driver, ms=(WAIT_MS << episode) - 1)
        assert dropped(driver, "h3-n0")
        storm(driver, ms=1)
        assert not dropped(driver, "h3-n0")
        assert driver.state.jobs["a"].state == "running"
    assert driver.differing() == []


def test_a_third_nic_is_named_and_not_quarantined(driver):
    storm(driver, "h1-n0", "h3-n0", "h5-n0")
    assert [dropped(driver, nic) for nic in ("h1-n0", "h3-n0", "h5-n0")] == [True, True, False]
    assert driver.notes[-1].text == "sends pause without end; no quarantine: 2 NICs are in quarantine already"


def test_telemetry_that_cannot_be_trusted_quarantines_nothing():
    driver = Driver(small_fabric(), Settings(acts_on_telemetry=False))
    driver.connect_all()
    storm(driver, "h3-n0")
    assert not dropped(driver, "h3-n0")
    assert driver.notes[-1].text == "sends pause without end; no quarantine: telemetry raises alarms only"
