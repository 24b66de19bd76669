"""Packets that name their paths: a job waits for nothing, and another path is an announcement alone."""

from dataclasses import replace

from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Announce, Compile, FindPorts, Install
from heddle.controller.model.event import PortStatus, Submit
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.job_state import JobState
from heddle.controller.views.view import explain
from tests.unit.brain.driver import Driver, shift_job, small_fabric

FABRIC = replace(small_fabric(), steered_by=SteeredBy.SRV6)


def test_a_cut_cable_moves_its_flows_by_one_announcement_and_no_switch_changes():
    driver = Driver(FABRIC)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    assert driver.state.jobs["a"].state is JobState.RUNNING
    before = driver.state.jobs["a"].flows.flows
    driver.effects.clear()
    driver.feed(PortStatus(switch="leaf1", port=1, up=False))
    after = driver.state.jobs["a"].flows.flows
    assert not any("leaf1:1" in link for flow in after for link in flow.links)
    assert [one.links for one in before] != [one.links for one in after]
    assert len([effect for effect in driver.effects if isinstance(effect, Announce)]) == 1
    assert not any(isinstance(effect, Compile | FindPorts) for effect in driver.effects)
    assert not any(effect.steps for effect in driver.effects if isinstance(effect, Install))
    assert steering_of(FABRIC).awaited(after[0].links) == frozenset()


def test_a_flow_is_explained_by_the_usid_of_each_hop():
    driver = Driver(FABRIC)
    driver.feed(Submit(reply=1, request=shift_job("a")))
    flow = next(flow for flow in driver.state.jobs["a"].flows.flows if flow.src_nic == "h1-n0")
    found = explain(driver.state, flow.flow_id)
    assert [hop.split(": uSID")[0] for hop in found.hops] == list(flow.links[1:])
    ports = [link.split(">")[0].rpartition(":")[2] for link in flow.links[1:]]
    assert [int(hop.rpartition(" ")[2], 16) - 0xE000 for hop in found.hops] == [int(port) for port in ports]
    assert "its destination address names the path" in found.text
