"""Jobs whose flows NICs spray, in a running controller: failures of paths that are planned, and of others."""

from dataclasses import replace

from heddle.controller.api.path_sets import every_path
from heddle.controller.model.event import PortStatus
from heddle.controller.model.job import JobRequest
from tests.unit.brain.driver import Driver, shift_job, small_fabric, submitted

FABRIC = small_fabric(spines=8)


def sprayed_job() -> JobRequest:
    job = shift_job("a")
    return replace(job, collectives=tuple(replace(one, paths_per_flow=8) for one in job.collectives))


def links_of(driver: Driver) -> set[str]:
    """Return the links between switches over which flows are sprayed."""
    write, found = every_path(FABRIC), set()
    for flow in driver.state.jobs["a"].flows.flows:
        message = write(flow)
        assert message is not None
        found.update(link for path in message.paths for link in path.links[1:-1])
    return found


def test_a_path_that_fails_is_denied_without_a_move_where_it_is_no_planned_one():
    driver = Driver(FABRIC)
    driver.connect_all()
    plan = submitted(driver, sprayed_job())
    planned = {link for flow in plan.flows.flows for link in (*flow.links, *flow.reverse_links)}
    back = {">".join(reversed(link.split(">"))) for link in planned}
    (link, *_) = sorted(link for link in links_of(driver) - planned - back if link.startswith("leaf1:"))
    switch, port = link.split(">")[0].split(":")
    driver.feed(PortStatus(switch=switch, port=int(port), up=False))
    job = driver.state.jobs["a"]
    assert (job.generation, job.effort.flows_moved) == (2, 0)
    assert link not in links_of(driver)
    assert link not in job.flows.link_loads_bps
    driver.port_up(switch, int(port))
    assert link in links_of(driver)
    assert driver.differing() == []


def test_a_planned_path_that_fails_moves_its_flow_and_leaves_all_sets():
    driver = Driver(FABRIC)
    driver.connect_all()
    plan = submitted(driver, sprayed_job())
    link = plan.flows.flows[0].links[1]
    switch, port = link.split(">")[0].split(":")
    driver.feed(PortStatus(switch=switch, port=int(port), up=False))
    job = driver.state.jobs["a"]
    assert job.generation == 2
    assert job.effort.flows_moved >= 1
    assert link not in links_of(driver)
