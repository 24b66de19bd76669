"""The cabling is followed once it was found alike for a while, as far as no running flow is harmed."""

from dataclasses import replace

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.brain.cabling.following import MAX_DOUBLINGS, STABLE_MS
from heddle.controller.brain.durable import changes, restored
from heddle.controller.brain.settings import Settings
from heddle.controller.model.cabling import CablingPolicy, Peer
from heddle.controller.model.effect import Follow
from heddle.controller.model.event import Drain, NotFollowed, Submit, Tick
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.found_cabling import as_found, with_found
from heddle.controller.rules.trace import Packet, Tracer
from tests.unit.brain.driver import Driver, shift_job, small_fabric
from tests.unit.brain.test_cabling import EXCHANGED, LEAF1_1, LEAF1_2, as_built, crossing, exchanged, hear, made

FOLLOW = Settings(cabling=CablingPolicy.FOLLOW)
ON_LEAF1 = ("leaf1:1>spine1:1", "leaf1:2>spine2:1")
FOUND = ("leaf1:1>spine2:1", "leaf1:2>spine1:1")


@pytest.fixture
def driver():
    return made(FOLLOW)


def follows(driver):
    return [effect for effect in driver.effects if isinstance(effect, Follow)]


def passes(driver, ms):
    driver.now += ms
    driver.feed(Tick())


def next_life(driver):
    """Return a driver of the fabric as followed, in which all ports hear what they heard."""
    after = Driver(with_found(driver.fabric, follows(driver)[-1].found), FOLLOW, now=driver.now + 1_000)
    joining = {name: name for name in driver.state.cabling.joining}
    after.state = restored(after.state, {"joining": joining}, after.now)
    assert after.state.out_of_use.down_cables == driver.state.cabling.joining
    after.connect_all()
    hear(after, dict(driver.state.cabling.heard))
    assert after.state.cabling.joining == frozenset()
    return after


def test_an_exchange_is_left_out_at_once_and_followed_once_it_was_found_for_a_while(driver):
    driver.feed(Submit(reply=1, request=shift_job("a")))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    assert driver.state.out_of_use.down_cables == set(ON_LEAF1)
    assert not crossing(driver)
    passes(driver, STABLE_MS - 1_100)
    assert follows(driver) == []
    passes(driver, 1_100)
    (effect,) = follows(driver)
    (found,) = effect.found
    assert (sorted(found.gone), sorted(cable.id for cable in found.cables)) == ([*ON_LEAF1], [*FOUND])
    passes(driver, 100 * STABLE_MS)
    assert len(follows(driver)) == 1, "one change is under way at a time"


def test_the_followed_fabric_uses_the_cables_and_still_names_what_is_wrong(driver):
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    passes(driver, STABLE_MS)
    after = next_life(driver)
    assert as_found(after.fabric) == {*FOUND}
    assert after.conditions == {EXCHANGED: "cabling"}
    assert after.state.out_of_use.whole
    after.feed(Submit(reply=1, request=shift_job("a")))
    assert after.state.jobs["a"].flows.own_max_link_utilisation == 1
    passes(after, 100 * STABLE_MS)
    assert follows(after) == []


def test_once_put_back_the_cables_are_left_out_and_the_file_is_followed(driver):
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    passes(driver, STABLE_MS)
    after = next_life(driver)
    hear(after, as_built(driver))
    assert after.conditions == {}
    assert after.state.out_of_use.down_cables == {*FOUND}
    passes(after, STABLE_MS)
    assert with_found(after.fabric, follows(after)[-1].found) == driver.fabric


@pytest.mark.parametrize("policy", [CablingPolicy.EXCLUDE, CablingPolicy.IGNORE])
def test_another_policy_follows_nothing(policy):
    driver = made(Settings(cabling=policy))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    passes(driver, 100 * STABLE_MS)
    assert follows(driver) == []


def test_what_was_found_for_a_shorter_while_begins_anew(driver):
    for _ in range(5):
        hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
        hear(driver, as_built(driver))
    assert follows(driver) == []


def test_a_drained_cable_or_switch_is_somebodys_work_and_stays(driver):
    for target in ("leaf1:2>spine2:1", "spine1"):
        driver.feed(Drain(reply=7, target=target, undrain=False))
        hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
        passes(driver, 10 * STABLE_MS)
        assert follows(driver) == []
        driver.feed(Drain(reply=8, target=target, undrain=True))
    for _ in range(2):  # judged anew, then followed
        passes(driver, 10 * STABLE_MS)
    assert len(follows(driver)) == 1


def test_cables_that_running_flows_cross_are_not_followed_and_others_are():
    driver = made(replace(FOLLOW, cabling_max_percent=15))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    hear(driver, exchanged(driver, PortRef("leaf3", 1), PortRef("leaf3", 3)))  # stays in use: more than 15 %
    passes(driver, STABLE_MS)
    (effect,) = follows(driver)
    assert [sorted(each.gone) for each in effect.found] == [[*ON_LEAF1]]
    after = next_life(driver)
    after.feed(Submit(reply=1, request=shift_job("a")))
    assert as_found(after.fabric) == {*FOUND}


def test_what_running_flows_cross_is_named_and_followed_once_they_have_ended():
    driver = made(replace(FOLLOW, cabling_max_percent=0))
    driver.feed(Submit(reply=1, request=shift_job("a")))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    passes(driver, STABLE_MS)
    assert follows(driver) == []
    text = "the cabling as found is not followed: running flows cross leaf1:1>spine1:1, leaf1:2>spine2:1"
    assert driver.conditions.get(text) == "cabling"
    hear(driver, as_built(driver))
    assert driver.conditions == {}


def test_a_refusal_is_named_and_each_attempt_waits_twice_as_long(driver):
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    wait_ms = STABLE_MS
    for attempt in range(1, 4):
        passes(driver, wait_ms)
        assert len(follows(driver)) == attempt
        driver.feed(NotFollowed(token=follows(driver)[-1].token, reason="no journal"))
        driver.feed(NotFollowed(token=12345, reason="of another time"))
        assert "the cabling as found is not followed: no journal" in driver.conditions
        wait_ms *= 2
        passes(driver, wait_ms - 1)
        assert len(follows(driver)) == attempt
    assert STABLE_MS << MAX_DOUBLINGS <= 900_000


def test_the_limit_holds_over_the_lives_of_a_controller(driver):
    journaled = replace(driver.state, settings=replace(FOLLOW, is_journaled=True))
    hear(driver, exchanged(driver, LEAF1_1, LEAF1_2))
    passes(driver, STABLE_MS)
    after = replace(driver.state, settings=replace(FOLLOW, is_journaled=True))
    (written,) = changes(journaled, after)
    kept = {name: value for (kind, name), value in written.values.items() if kind == "follow"}
    assert list(kept.values()) == [driver.now]
    again = restored(begin(driver.fabric, FOLLOW), {"follow": kept}, driver.now)
    assert again.cabling.followed == (driver.now,)


def test_a_cycle_with_a_silent_end_is_left_out_and_not_followed(driver):
    heard = exchanged(driver, LEAF1_1, LEAF1_2)
    hear(driver, {port: peer for port, peer in heard.items() if port != LEAF1_1} | {LEAF1_1: None})
    passes(driver, 10 * STABLE_MS)
    assert driver.state.out_of_use.down_cables == {*ON_LEAF1}
    assert follows(driver) == []


def test_cables_of_different_rates_are_left_out_and_not_followed():
    """It is not known which of the two rates each has now."""
    fabric = small_fabric(spines=4)
    first, *others = fabric.cables
    driver = Driver(replace(fabric, cables=(replace(first, capacity_bps=10**10), *others)), FOLLOW)
    driver.connect_all()
    hear(driver, as_built(driver) | exchanged(driver, LEAF1_1, LEAF1_2))
    passes(driver, 10 * STABLE_MS)
    assert driver.state.out_of_use.down_cables == {*ON_LEAF1}
    assert follows(driver) == []


def test_a_fabric_of_another_shape_is_followed_as_it_is():
    """Plugs of two spines: one spine reaches a leaf twice, the other not at all."""
    driver = Driver(small_fabric(spines=4), FOLLOW)
    driver.connect_all()
    hear(driver, as_built(driver))
    hear(driver, exchanged(driver, PortRef("spine2", 3), PortRef("spine3", 4)))
    passes(driver, STABLE_MS)
    after = next_life(driver)
    assert as_found(after.fabric) == {"leaf3:2>spine3:4", "leaf4:3>spine2:3"}
    after.feed(Submit(reply=1, request=shift_job("a")))
    assert after.state.jobs["a"].state == "running"


@pytest.mark.parametrize("end", [LEAF1_1, PortRef("spine2", 3)])
def test_a_plug_in_a_spare_port_of_its_switch_is_followed_and_ports_of_running_flows_lead_where_they_did(driver, end):
    cable = driver.fabric.cable_by_port[end]
    far, spare = (cable.upper if end == cable.lower else cable.lower), end._replace(number=40)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    hear(driver, as_built(driver) | {end: None, spare: Peer(*far), far: Peer(*spare)})
    assert driver.state.out_of_use.down_cables == {cable.id}
    passes(driver, STABLE_MS)
    after = next_life(driver)
    assert as_found(after.fabric) == {cable.id.replace(str(end), str(spare))}
    tracer, nics = Tracer(after.fabric, after.state.underlay), after.fabric.nic_by_id
    for flow in driver.state.jobs["a"].flows.flows:
        packet = Packet.roce(src_ip=nics[flow.src_nic].ip, dst_ip=nics[flow.dst_nic].ip, udp_src=flow.udp_source_port)
        assert list(tracer.trace(flow.src_nic, packet).links) == list(flow.links)
    hear(after, as_built(driver) | {spare: None})
    passes(after, 2 * STABLE_MS)
    assert with_found(after.fabric, follows(after)[-1].found) == driver.fabric


def test_a_plug_in_a_spare_port_of_another_switch_stays_left_out(driver):
    spare = PortRef("leaf2", 40)
    hear(driver, as_built(driver) | {LEAF1_1: None, spare: Peer("spine1", 1), PortRef("spine1", 1): Peer(*spare)})
    passes(driver, 10 * STABLE_MS)
    assert follows(driver) == []
