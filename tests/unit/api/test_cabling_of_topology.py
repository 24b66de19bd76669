"""GetTopology, `heddle topology` and the page's state say of each cable what its ports hear."""

import json
from dataclasses import replace

import pytest

from heddle.controller.api.services.topology import topology_to
from heddle.controller.brain.transactions.bad_cables import JUDGE_PAUSE_MS
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.state import StateText
from heddle.controller.model.cabling import Peer
from heddle.controller.model.event import CablesJudged, Heard, JudgedCable, Submit, Tick
from heddle.controller.model.fabric import PortRef
from heddle.controller.model.found_cabling import Rejoined, with_found
from heddle.controller.model.observed import Reports
from heddle.programs.console.fabric import cabling_text
from tests.unit.brain.driver import Driver, shift_job, small_fabric

WRONG = {"leaf1:1>spine1:1", "spine1:1>leaf1:1", "leaf1:2>spine2:1", "spine2:1>leaf1:2"}


@pytest.fixture
def driver():
    """Two exchanged plugs at leaf1; of leaf2's cables nothing is heard."""
    found = Driver(small_fabric(spines=4))
    found.connect_all()
    hears = {}
    for cable in found.fabric.cables:
        if cable.lower.switch != "leaf2":
            hears |= {cable.lower: Peer(*cable.upper), cable.upper: Peer(*cable.lower)}
    hears |= {PortRef("leaf1", 1): Peer("spine2", 1), PortRef("spine2", 1): Peer("leaf1", 1)}
    hears |= {PortRef("leaf1", 2): Peer("spine1", 1), PortRef("spine1", 1): Peer("leaf1", 2)}
    found.feed(Heard(changes=hears))
    found.now += 1_000
    found.feed(Tick())
    return found


def test_links_have_what_is_heard_and_the_causes_are_named(driver):
    found = topology_to(driver.state)
    links = {link.id: link for link in found.links}
    assert {name for name, link in links.items() if link.cabling == "wrong"} == WRONG
    assert {name for name, link in links.items() if link.left_out} == WRONG
    assert {name for name, link in links.items() if link.cabling == "unknown"} == {
        way for n in range(1, 5) for way in (f"leaf2:{n}>spine{n}:2", f"spine{n}:2>leaf2:{n}")
    }
    assert links["leaf1:1>spine1:1"].heard == "spine2:1"
    assert links["leaf2:1>spine1:2"].heard == ""
    assert [(cause.kind, cause.text) for cause in found.miscablings] == [
        ("exchanged", "leaf1:1 and leaf1:2 are exchanged")
    ]
    assert not found.wrong_in_use


def test_who_does_not_see_all_nics_gets_no_causes_and_no_nic_that_is_heard(driver):
    driver.feed(Heard(changes={PortRef("leaf1", 6): Peer("", None, "h1-n0")}))
    assert "h1-n0" in {link.heard for link in topology_to(driver.state).links}
    found = topology_to(driver.state, hidden=frozenset(("h1-n0",)))
    assert "h1-n0" not in {link.heard for link in found.links}
    assert not found.miscablings
    assert {link.id for link in found.links if link.cabling == "wrong"} == WRONG


def test_a_wrong_and_an_unknown_cable_are_different_texts(driver):
    texts = {link.id: cabling_text(link) for link in topology_to(driver.state).links}
    assert texts["leaf1:1>spine1:1"] == "WRONG, spine2:1 is heard, not used"
    assert texts["leaf2:1>spine1:2"] == "not heard"
    assert texts["leaf3:1>spine1:3"] == ""


def page_of(text, driver):
    """Return the links of the page's state, and their names."""
    moment = Moment(driver.now, driver.state, None, False, Reports(by_host={}))
    return json.loads("{" + text.content(moment).text + "}")["links"]


def test_the_page_follows_a_cable_that_goes_bad_is_left_out_and_is_repaired(driver):
    text, names = StateText(), [link.id for link in driver.fabric.directed_links]
    driver.feed(Submit(reply=1, request=shift_job("a")))
    cable = "leaf3:3>spine3:3"
    both = {cable, "spine3:3>leaf3:3"}
    assert sum(page_of(text, driver)["bad"]) == 0
    driver.feed(CablesJudged(cables=(JudgedCable(cable=cable, loss=0.2),)))
    driver.now += JUDGE_PAUSE_MS
    driver.feed(Tick())
    assert driver.state.left_out == {cable}
    links = page_of(text, driver)
    for flag in ("bad", "drained"):
        assert {name for name, is_set in zip(names, links[flag], strict=True) if is_set} == both
    driver.feed(CablesJudged(cables=()))
    links = page_of(text, driver)
    assert (sum(links["bad"]), sum(links["drained"])) == (0, 0)


def test_the_state_of_the_page_has_a_number_for_each_link_and_the_sentences(driver):
    content = json.loads(
        "{" + StateText().content(Moment(driver.now, driver.state, None, False, Reports(by_host={}))).text + "}"
    )
    links = [link.id for link in driver.fabric.directed_links]
    marks = dict(zip(links, content["links"]["cabling"], strict=True))
    assert {name for name, mark in marks.items() if mark == 1} == WRONG
    assert sum(mark == 3 for mark in marks.values()) == 8
    assert content["miscablings"] == ["leaf1:1 and leaf1:2 are exchanged"]


def test_cables_that_are_used_as_found_say_so():
    file = small_fabric(spines=4)
    a, b = file.cable_by_link["leaf1:1>spine1:1"], file.cable_by_link["leaf1:2>spine2:1"]
    found = Rejoined((a.id, b.id), (replace(a, upper=b.upper), replace(b, upper=a.upper)))
    driver = Driver(with_found(file, [found]))
    links = {link.id: link for link in topology_to(driver.state).links}
    marked = {"leaf1:1>spine2:1", "spine2:1>leaf1:1", "leaf1:2>spine1:1", "spine1:1>leaf1:2"}
    assert {name for name, link in links.items() if link.as_found} == marked
    assert cabling_text(links["leaf1:1>spine2:1"]) == "as found"
    assert cabling_text(links["leaf1:3>spine3:1"]) == ""
