"""Wrong cables are named and left out of use, until they are heard to be right; silence changes nothing."""

from dataclasses import replace

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.brain.durable import changes, restored
from heddle.controller.brain.settings import Settings
from heddle.controller.model.cabling import CablingPolicy, Peer
from heddle.controller.model.effect import Diagnose
from heddle.controller.model.event import Diagnosed, Heard, PortStatus, Submit, Tick
from heddle.controller.model.fabric import PortRef, SteeredBy
from tests.unit.brain.driver import Driver, shift_job, small_fabric

LEAF1_1, LEAF1_2 = PortRef("leaf1", 1), PortRef("leaf1", 2)
ON_LEAF1 = {"leaf1:1>spine1:1", "leaf1:2>spine2:1"}
EXCHANGED = "leaf1:1 and leaf1:2 are exchanged"


def as_built(driver):
    """Return what all ports hear where every cable is right."""
    found = {}
    for cable in driver.fabric.cables:
        found |= {cable.lower: Peer(*cable.upper), cable.upper: Peer(*cable.lower)}
    return found


def exchanged(driver, a, b):
    """Return what the ends of two cables hear whose plugs at two ports are exchanged."""
    cables = driver.fabric.cable_by_port
    far_a, far_b = (
        cable.upper if cable.lower == port else cable.lower for port, cable in ((a, cables[a]), (b, cables[b]))
    )
    return {a: Peer(*far_b), far_b: Peer(*a), b: Peer(*far_a), far_a: Peer(*b)}


def hear(driver, changes):
    """Let ports hear, and the time pass until the verdict is there."""
    driver.feed(Heard(changes=changes))
    driver.now += 1_000
    driver.feed(Tick())


@pytest.fixture
def driver():
    return made()


def made(settings=None, spines=4):
    found = Driver(small_fabric(spines=spines), settings or Settings())
    found.connect_all()
    hear(found, as_built(found))
    return found


def crossing(driver):
    """Return the cables out of use that running jobs are planned over."""
    out = driver.state.out_of_use.down_cables
    cables = driver.fabric.cable_by_link
    loads = [job.flows.link_loads_bps for job in driver.state.jobs.values()]
    return {cables[link].id for load in loads for link in load if link in cables and load[link]} & out


def test_sound_cabling_raises_nothing_and_leaves_everything_in_use(driver):
    assert driver.conditions == {}
    assert driver.state.out_of_use.whole
    assert driver.state.cabling.verdict.unknown == frozenset()


def test_two_exchanged_plugs_are_named_and_planned_around_and_cleared_when_they_are_put_back(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    assert driver.conditions == {EXCHANGED: "cabling"}
    assert driver.state.out_of_use.down_cables == ON_LEAF1
    assert driver.state.jobs["a"].state == "degraded" or not crossing(driver)
    assert driver.differing() == []
    driver.feed(Submit(reply=2, request=shift_job("b")))
    assert not crossing(driver)
    hear(driver, as_built(driver))
    assert driver.conditions == {}
    assert driver.state.out_of_use.whole
    assert driver.state.jobs["a"].state == "running"
    assert driver.differing() == []


def test_ignore_names_the_cause_and_uses_the_cables():
    driver = made(Settings(cabling=CablingPolicy.IGNORE))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    assert driver.conditions == {EXCHANGED: "cabling"}
    assert driver.state.out_of_use.whole


def test_an_unknown_cable_stays_in_use():
    driver = Driver(small_fabric(spines=4))
    driver.connect_all()
    sound = as_built(driver)
    hear(driver, {port: peer for port, peer in sound.items() if "leaf2" not in (port.switch, peer.switch)})
    assert driver.state.cabling.verdict.unknown == {f"leaf2:{n}>spine{n}:2" for n in range(1, 5)}
    assert driver.conditions == {}
    assert driver.state.out_of_use.whole


def test_silence_does_not_repair_a_wrong_cable(driver):
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    hear(driver, dict.fromkeys(exchanged(driver, LEAF1_1, LEAF1_2)))
    assert driver.state.out_of_use.down_cables == ON_LEAF1
    hear(driver, {LEAF1_1: Peer("spine1", 1)})
    assert driver.state.out_of_use.down_cables == {"leaf1:2>spine2:1"}


def test_a_cable_that_was_right_and_goes_down_is_not_missing(driver):
    ends = (LEAF1_1, PortRef("spine1", 1))
    for port in ends:
        driver.feed(PortStatus(switch=port.switch, port=port.number, up=False))
    hear(driver, dict.fromkeys(ends))
    assert driver.conditions == {}
    assert driver.state.cabling.verdict.missing == frozenset()


def test_a_cable_that_was_never_heard_and_is_down_is_missing():
    driver = Driver(small_fabric(spines=4))
    driver.connect_all()
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    driver.feed(PortStatus(switch="spine1", port=1, up=False))
    sound = as_built(driver)
    hear(driver, {port: peer for port, peer in sound.items() if port not in (LEAF1_1, PortRef("spine1", 1))})
    assert driver.state.cabling.verdict.missing == {"leaf1:1>spine1:1"}
    assert len(driver.conditions) == 1


@pytest.mark.parametrize(("spines", "percent", "why"), [(2, 100, "cut off"), (4, 10, "more than 10 %")])
def test_what_would_cut_nics_off_or_take_too_large_a_share_stays_in_use_and_is_named(spines, percent, why):
    driver = made(Settings(cabling_max_percent=percent), spines=spines)
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    assert driver.state.out_of_use.whole
    assert EXCHANGED in driver.conditions
    assert [text for text in driver.conditions if why in text]


def test_of_several_causes_the_harmless_ones_are_left_out():
    driver = made(Settings(cabling_max_percent=15))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    hear(driver, exchanged(driver, PortRef("leaf3", 1), PortRef("leaf3", 3)))
    assert driver.state.out_of_use.down_cables == ON_LEAF1, "what is left out already stays so"
    assert len(driver.conditions) == 3


def test_a_later_failure_returns_a_wrong_cable_that_is_needed():
    driver = made(spines=3)
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    assert driver.state.out_of_use.down_cables == ON_LEAF1
    driver.feed(PortStatus(switch="leaf1", port=3, up=False))
    driver.now += 1_000
    driver.feed(Tick())
    assert driver.state.out_of_use.down_cables == {"leaf1:3>spine3:1"}
    assert [text for text in driver.conditions if "cut off" in text]


def test_ports_of_unknown_switches_do_not_count(driver):
    before = driver.state.cabling
    driver.feed(Heard(changes={PortRef("leaf99", 1): Peer("spine1", 1)}))
    assert driver.state.cabling == before


def test_exchanged_nics_are_named_and_stay_in_use(driver):
    first, second = driver.fabric.nics[:2]
    hear(driver, {first.port: Peer("", None, second.id), second.port: Peer("", None, first.id)})
    assert [text for text in driver.conditions if "are exchanged" in text]
    assert driver.state.cabling.verdict.wrong == {first.up_link, second.up_link}
    assert driver.state.out_of_use.whole
    hear(driver, {first.port: Peer("", None, first.id), second.port: Peer("", None, second.id)})
    assert driver.conditions == {}


@pytest.mark.parametrize(("acts", "out"), [(True, ON_LEAF1), (False, set())])
def test_on_a_fabric_that_hashes_wrong_cables_are_left_out_where_telemetry_may_move_flows(acts, out):
    fabric = replace(small_fabric(spines=4), steered_by=SteeredBy.HASH)
    driver = Driver(fabric, Settings(acts_on_telemetry=acts))
    hear(driver, as_built(driver))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    assert driver.conditions == {EXCHANGED: "cabling"}
    assert driver.state.out_of_use.down_cables == out
    kept = {"cabling": {name: name for name in out}}
    again = restored(begin(fabric, driver.state.settings), kept, driver.now)
    assert again.out_of_use.down_cables == out


def test_one_diagnosis_is_under_way_at_a_time_and_an_old_reply_changes_nothing(driver):
    driver.hold = (Diagnose,)
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    hear(driver, as_built(driver))
    assert len(driver.waiting) == 1
    before = driver.state.cabling
    driver.feed(Diagnosed(token=driver.waiting[0].token + 1_000, verdict=None))
    assert driver.state.cabling == before
    driver.release_held()
    assert driver.conditions == {EXCHANGED: "cabling"}
    driver.now += 4_000  # the verdict took a second
    driver.feed(Tick())
    assert driver.conditions == {}


def test_a_diagnosis_that_failed_leaves_the_verdict_as_it_was(driver):
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    driver.hold = (Diagnose,)
    hear(driver, as_built(driver))
    driver.feed(Diagnosed(token=driver.waiting[0].token, verdict=None))
    assert driver.state.out_of_use.down_cables == ON_LEAF1
    assert driver.state.cabling.token is None


def test_cables_that_were_left_out_stay_so_over_a_restart_until_they_are_heard_to_be_right(driver):
    journaled = replace(driver.state, settings=Settings(is_journaled=True))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    after = replace(driver.state, settings=Settings(is_journaled=True))
    (written,) = changes(journaled, after)
    kept = {name: value for (kind, name), value in written.values.items() if kind == "cabling"}
    assert kept.keys() == ON_LEAF1
    values = {"cabling": {**kept, "leaf9:1>spine1:9": "leaf9:1>spine1:9"}}
    again = restored(begin(driver.fabric, Settings()), values, driver.now)
    assert again.out_of_use.down_cables == ON_LEAF1
    assert again.compiled_for == again.out_of_use
    ignoring = Settings(cabling=CablingPolicy.IGNORE)
    assert restored(begin(driver.fabric, ignoring), values, driver.now).out_of_use.whole
    hashes = replace(driver.fabric, steered_by=SteeredBy.HASH)
    untrusted = Settings(acts_on_telemetry=False)
    assert restored(begin(hashes, untrusted), values, driver.now).out_of_use.whole, "what is heard there is not trusted"
