"""`explain` of a sprayed flow shows its whole set: what each path carries, what selects it, and what is denied."""

from dataclasses import replace

from heddle.controller.model.event import PortStatus
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.observed import NO_REPORTS, ObservedPath, QueuePair
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.spread.explicit import path_set
from heddle.controller.views.view import explain
from tests.unit.brain.driver import Driver, shift_job, small_fabric, submitted

FABRIC = small_fabric(spines=4)


def begun(fabric=FABRIC, paths=4):
    driver = Driver(fabric)
    driver.connect_all()
    job = shift_job("a")
    submitted(driver, replace(job, collectives=tuple(replace(one, paths_per_flow=paths) for one in job.collectives)))
    return driver, driver.state.jobs["a"].flows.flows[0]


def test_every_path_is_a_line_with_its_part_of_the_list_and_its_source_port():
    driver, flow = begun()
    found = explain(driver.state, flow.flow_id)
    wanted = path_set(FABRIC, topology_of(FABRIC), flow).paths
    assert found.paths == tuple(
        f"carries 1 of 4 packets: {' '.join(path.links[1:-1])}, source port {path.udp_source_port}" for path in wanted
    )
    assert "Its NIC sprays it over 4 paths, by a list." in found.text


def test_a_flow_with_one_path_has_no_such_lines():
    driver, flow = begun(paths=1)
    found = explain(driver.state, flow.flow_id)
    assert found.paths == ()
    assert "spray" not in found.text


def test_a_path_that_has_failed_is_denied_and_names_the_link():
    driver, flow = begun()
    other = next(link for link in ("leaf1:1>spine1:1", "leaf1:2>spine2:1") if link not in flow.links)
    driver.feed(PortStatus(switch="leaf1", port=int(other[6]), up=False))
    denied = [line for line in explain(driver.state, flow.flow_id).paths if line.startswith("denied: ")]
    assert len(denied) == 1
    assert denied[0].endswith(f", as {other} is out of use")


def test_what_the_host_denies_is_marked_at_its_address():
    fabric = replace(FABRIC, steered_by=SteeredBy.SRV6)
    driver, flow = begun(fabric)
    first = path_set(fabric, topology_of(fabric), flow).paths[0]
    sids = sids_of(fabric)
    assert sids is not None
    sid = sids.destination(first.links, flow.dst_nic)
    ends = [fabric.nic_by_id[nic] for nic in (flow.src_nic, flow.dst_nic)]
    pair = QueuePair(ends[0].ip, ends[1].ip, 0, 1, 2, paths=(ObservedPath(sid, True), ObservedPath(sid + 1, False)))
    found = explain(driver.state, flow.flow_id, NO_REPORTS.with_report(fabric, ends[0].host, [pair])).paths
    assert [line.endswith("; its host denies it") for line in found] == [True, False, False, False]
