"""A cable over which NICs of two hosts deny paths: plans do without it at once, and use it again afterwards."""

from heddle.controller.model.event import CablesJudged, Tick
from heddle.controller.runtime.judged_cables import denied_cable
from tests.unit.brain.driver import Driver, small_fabric
from tests.unit.brain.test_bad_cables import CABLE, running, used

HOSTS = ("h1", "h2")


def judged(driver: Driver, *cables: str) -> None:
    driver.feed(CablesJudged(cables=tuple(denied_cable(cable, HOSTS) for cable in cables)))


def test_a_denied_cable_is_out_of_use_at_once_and_again_in_use_when_nothing_denies_it():
    driver = running()
    judged(driver, CABLE)
    assert CABLE not in used(driver)
    assert CABLE in driver.state.out_of_use.down_cables
    driver.now += 60_000
    driver.feed(Tick())
    assert CABLE in driver.state.out_of_use.down_cables
    judged(driver)
    assert driver.state.out_of_use.down_cables == frozenset()
    assert driver.state.bad_cables == {}
    assert CABLE in used(driver)


def test_a_cable_without_which_nics_are_cut_off_keeps_what_little_it_has_left():
    fabric = small_fabric()
    uplinks = [cable.id for cable in fabric.cables if cable.lower.switch == "leaf1"]
    driver = Driver(fabric)
    judged(driver, *uplinks)
    assert driver.state.out_of_use.down_cables == set(uplinks[:-1])
    assert 0 < driver.state.degraded[uplinks[-1]] < fabric.cables[0].capacity_bps // 100


def test_a_denied_cable_names_the_hosts_and_the_repair():
    driver = Driver(small_fabric())
    judged(driver, CABLE)
    (text,) = [note.text for note in driver.notes if note.subject == CABLE]
    assert text.startswith("NICs of h1 and h2 deny their paths over it; check that its plugs are in these ports")
