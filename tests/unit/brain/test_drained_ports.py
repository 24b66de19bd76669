"""Draining a port of a NIC: its flows go on over other planes, and a NIC is drained port by port."""

import pytest

from heddle.controller.model.effect import Drained
from heddle.controller.model.error import NoAdmissiblePlanError, NotFoundError
from heddle.controller.model.event import Drain
from heddle.controller.model.plan import JobPlan
from heddle.controller.views.link_states import link_states
from heddle.controller.views.view import explain
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.fabrics.planner_cases import job_of as request_of
from tests.unit.brain.driver import Driver, submitted

RING = {"kind": "RING_ALL_REDUCE", "bytes": 10**6}
FABRIC = fabric_of(spines=2, leaves=2, hosts_per_leaf=2, planes=2)
PORT = next(nic for nic in FABRIC.nics if nic.id == "h1-n0/p1")


@pytest.fixture
def driver() -> Driver:
    found = Driver(FABRIC)
    found.connect_all()
    assert isinstance(submitted(found, request_of(FABRIC, RING, ranks=["h1-n0", "h3-n0"])), JobPlan)
    return found


def rates(driver: Driver) -> set[tuple[str, int]]:
    (job,) = driver.state.jobs.values()
    return {(flow.src_nic, flow.rate_bps) for flow in job.flows.flows if flow.src_nic.startswith("h1-n0")}


@pytest.mark.parametrize("target", [PORT.id, PORT.up_link, PORT.down_link])
def test_flows_leave_a_port_for_the_other_plane_until_it_is_returned(driver, target):
    before = rates(driver)
    driver.feed(Drain(reply=2, target=target))
    assert isinstance(driver.reply_to(2), Drained)
    assert rates(driver) == {("h1-n0/p0", 100 * 10**9), (PORT.id, 1)}
    links, (up, drained) = FABRIC.directed_links, link_states(driver.state)
    marked = {link.id: (bool(is_up), bool(out)) for link, is_up, out in zip(links, up, drained, strict=True)}
    assert marked[PORT.up_link] == marked[PORT.down_link] == (True, True)
    assert marked["h1-n0/p0>p0-leaf1:3"] == (True, False)
    driver.feed(Drain(reply=3, target=PORT.id, undrain=True))
    assert rates(driver) == before


def test_the_part_in_a_plane_with_nothing_left_is_explained_as_such(driver):
    idle = "Nothing is left for it in plane 1: its parts in other planes carry the data."
    driver.feed(Drain(reply=2, target=PORT.id))
    (job,) = driver.state.jobs.values()
    texts = {flow.src_nic: explain(driver.state, flow.flow_id).text for flow in job.flows.flows}
    assert {nic for nic, text in texts.items() if idle in text} == {"h1-n0/p1", "h3-n0/p1"}


def test_a_nic_with_several_ports_names_them(driver):
    driver.feed(Drain(reply=2, target="h1-n0"))
    why = driver.reply_to(2)
    assert isinstance(why, NotFoundError)
    assert str(why) == "target: h1-n0 is a NIC with several ports: drain one of them, h1-n0/p0 or h1-n0/p1"


def test_the_last_port_of_a_nic_with_flows_stays_in_use(driver):
    driver.feed(Drain(reply=2, target=PORT.id))
    driver.feed(Drain(reply=3, target="h1-n0/p0"))
    assert isinstance(driver.reply_to(3), NoAdmissiblePlanError)
    assert "without h1-n0/p0; release its job first" in str(driver.reply_to(3))
