"""Running jobs over several planes: what a failure in one costs, and what returns with it."""

import random
from dataclasses import replace

import pytest

from heddle.controller.model.fabric import PortRef, Role
from heddle.controller.model.health import Health
from heddle.controller.model.plan import Replan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.session.state import Store
from heddle.controller.runtime.planning.wire import columns_of, job_of
from tests.support.fabrics.planner_cases import custom, fabric_of
from tests.support.fabrics.planner_cases import job_of as request_of
from tests.support.fabrics.service import Service, any_flows

GBPS = 10**9
RING = {"kind": "RING_ALL_REDUCE", "bytes": 10**6}
PLANE_1_GONE = Health(down_switches=frozenset({"p1-spine1", "p1-spine2"}))


def two_planes() -> Service:
    return Service(fabric_of(spines=2, leaves=2, hosts_per_leaf=2, planes=2))


def begun(collective: dict) -> tuple[Service, Replan]:
    service = two_planes()
    ranks = [f"h{host}-n0" for host in (1, 3, 2, 4)]
    return service, service.arrive(request_of(service.fabric, collective, ranks=ranks))


def rates(plan: Replan) -> dict[str, int]:
    """Return the rate in Gbit/s that each NIC sends at, over all its ports."""
    found: dict[str, int] = {}
    for flow in plan.jobs[0].flows:
        nic = flow.src_nic.split("/")[0]
        found[nic] = found.get(nic, 0) + flow.rate_bps
    return {nic: rate // GBPS for nic, rate in sorted(found.items())}


def test_a_port_of_a_nic_that_fails_costs_its_nic_a_half_and_those_that_do_not_send_to_it_nothing():
    service, plan = begun(RING)
    assert rates(plan) == {"h1-n0": 200, "h2-n0": 200, "h3-n0": 200, "h4-n0": 200}
    failed = service.become(Health(down_nics=frozenset({"h1-n0/p1"})))
    assert rates(failed) == {"h1-n0": 100, "h2-n0": 200, "h3-n0": 200, "h4-n0": 100}
    assert not failed.stranded
    assert rates(service.become(Health())) == rates(plan)


def test_a_flow_of_a_rate_of_its_own_goes_on_over_the_planes_that_are_left():
    service, _ = begun(custom((0, 1, 80 * GBPS)))
    failed = service.become(PLANE_1_GONE)
    assert [flow.rate_bps for flow in failed.jobs[0].flows] == [80 * GBPS, 1]
    assert not failed.stranded
    assert [flow.rate_bps for flow in service.become(Health()).jobs[0].flows] == [40 * GBPS, 40 * GBPS]


def test_a_job_that_begins_while_a_plane_is_gone_uses_it_once_it_is_back():
    service = two_planes()
    service.become(PLANE_1_GONE)
    plan = service.arrive(request_of(service.fabric, RING, ranks=["h1-n0", "h3-n0"]))
    assert rates(plan) == {"h1-n0": 100, "h3-n0": 100}
    assert not plan.stranded
    back = service.become(Health())
    assert rates(back) == {"h1-n0": 200, "h3-n0": 200}
    assert all(flow.links[1].startswith(f"p{flow.src_nic[-1]}-") for flow in back.jobs[0].flows)


def test_flows_without_a_path_in_any_plane_are_stranded():
    service, _ = begun(RING)
    gone = frozenset(f"p{plane}-spine{spine}" for plane in (0, 1) for spine in (1, 2))
    assert len(service.become(Health(down_switches=gone)).stranded["job"]) == 8


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ({"spines": 2, "leaves": 3, "hosts_per_leaf": 2}, "p1-leaf1:9>p1-spine1:9"),
        ({"kind": "clos3", "pods": 2, "aggs_per_pod": 2, "spines": 4, "leaves": 2, "hosts_per_leaf": 2}, ""),
    ],
)
def test_a_session_places_flows_one_by_one_in_planes_that_are_alike(shape, more):
    fabric = fabric_of(**shape, planes=3)
    store = Store(topology_of(fabric))
    assert store.regular
    leaves = [switch.id for switch in fabric.switches if switch.role is Role.LEAF]
    for leaf, cables in zip(leaves, store.s.up_leaf, strict=True):
        assert {fabric.cables[cable].lower.switch for cable in cables} == {leaf}
    if more:
        lower, upper = (PortRef(*end.rsplit(":", 1)) for end in more.split(">"))
        cable = replace(fabric.cables[0], lower=lower, upper=upper)
        assert not Store(topology_of(replace(fabric, cables=(*fabric.cables, cable)))).regular


def test_jobs_that_come_and_go_fill_no_link_of_three_tiers_twice_in_any_plane():
    service = Service(fabric_of(kind="clos3", pods=4, aggs_per_pod=4, spines=16, leaves=4, hosts_per_leaf=4, planes=2))
    draw, free, running = random.Random(7), list(service.fabric.ports_of), []
    draw.shuffle(free)
    for number in range(40):
        if len(free) < 8 or (running and draw.random() < 0.2):
            gone = running.pop(draw.randrange(len(running)))
            service.leave(gone.job_id, any_flows(64))
            free += gone.ranks
        else:
            ranks, free = free[:8], free[8:]
            shift = draw.randint(1, 7)
            pairs = [(a, (a + shift) % 8) for a in range(8)]
            running.append(replace(request_of(service.fabric, custom(*pairs), ranks=ranks), job_id=f"job{number}"))
            service.arrive(running[-1], any_flows(64))
        assert service.fullest() <= 1


def test_demands_cross_to_the_controller_and_back():
    service, plan = begun(custom((0, 1, 80 * GBPS)))
    topology, before = topology_of(service.fabric), (service.kept[0][0], plan.jobs[0])
    after = service.become(PLANE_1_GONE).jobs[0]
    columns = columns_of(topology, (before[0], after), before[1])
    assert columns.paths is None
    found = job_of(topology, before[0], columns, before[1])
    assert [flow.demand_bps for flow in found.flows] == [80 * GBPS, 1]
    assert found.link_loads_bps == after.link_loads_bps
