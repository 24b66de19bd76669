"""Plans with degraded cables follow the contract at what the cables have left, by ports of the fabric as built."""

import json
from dataclasses import replace

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.config.write import fabric_document
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.moves import MoveLimit, Whose
from heddle.controller.model.plan import Plan, Replan
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.listing import group_rows, rows
from heddle.testing.plans.plan_checker import check
from tests.oracles.openflow_interpreter import Network
from tests.property.planner.test_planner_steering import check_flow
from tests.support.examples import examples
from tests.support.fabrics.planner_cases import fabric_of
from tests.support.fabrics.planning import fabric_file, job_files, plan_as_json, shapes

ANY = MoveLimit(whose=Whose.ANY, max_flows=64)


def left_of(fabric, degraded):
    """Return the fabric file in which degraded cables have no more than they have left."""
    cables = tuple(replace(one, capacity_bps=degraded.get(one.id, one.capacity_bps)) for one in fabric.cables)
    return json.loads(json.dumps(fabric_document(replace(fabric, cables=cables))))


def walk(fabric):
    """Return the switches' rules for the fabric as built, run by the interpreter."""
    compiled = compile_fabric(fabric, layout_of(fabric), Health())
    return Network(fabric, rows(fabric, compiled), group_rows(fabric, compiled), frozenset(), frozenset())


def as_plan(found):
    assert isinstance(found, Replan)
    return Plan(jobs=found.jobs, certificate=found.certificate)


@given(data=st.data(), shape=shapes())
@settings(max_examples=examples(12), phases=(Phase.explicit, Phase.generate))
def test_plans_follow_the_contract_at_what_cables_have_left_and_ports_keep_their_meaning(data, shape):
    written = fabric_file(**shape)
    fabric = parse_fabric(json.dumps(written), "fabric.yaml")
    jobs = data.draw(job_files(written, most=2))
    requests = parse_jobs(json.dumps(jobs), "jobs.yaml", fabric)
    planner, network = OnlinePlanner(fabric), walk(fabric)
    kept: tuple[Placed, ...] = ()
    cables = {one.id: one.capacity_bps for one in fabric.cables}
    parts = st.dictionaries(st.sampled_from(sorted(cables)), st.integers(1, 8), max_size=3)
    for wanted in (requests, (), ()):
        degraded = {name: cables[name] * part // 8 for name, part in data.draw(parts).items()}
        found = planner.solve(wanted, health=Health(), kept=kept, limit=ANY, degraded=degraded, has_happened=not wanted)
        plan = as_plan(found)
        ids = frozenset(flow.flow_id for _, job in kept for flow in job.flows)
        assert check(left_of(fabric, degraded), jobs, plan_as_json(plan), ids) == []
        kept = tuple(zip(requests, plan.jobs, strict=True))
        for job in plan.jobs:
            for flow in job.flows:
                if not flow.pinned:
                    check_flow(fabric, network, flow)


def ring(fabric):
    """Return a ring whose steps all cross the spines."""
    order = sorted(fabric.nics, key=lambda nic: (nic.port.number, nic.port.switch))
    one = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
    return JobRequest(job_id="ring", ranks=tuple(nic.id for nic in order), collectives=(one,))


def test_flows_leave_a_degraded_cable_where_there_is_room_and_come_back_to_no_loss():
    fabric = fabric_of(spines=4, leaves=4, hosts_per_leaf=2)
    planner, request, cable = OnlinePlanner(fabric), ring(fabric), fabric.cables[0]
    kept: tuple[Placed, ...] = ()
    found = {}
    for name, degraded in (("whole", {}), ("bad", {cable.id: cable.capacity_bps // 4}), ("repaired", {})):
        wanted = () if kept else (request,)
        plan = as_plan(
            planner.solve(wanted, health=Health(), kept=kept, limit=ANY, degraded=degraded, has_happened=True)
        )
        kept = ((request, plan.jobs[0]),)
        used = {link for flow in plan.jobs[0].flows for link in flow.links}
        found[name] = plan.certificate.max_link_utilisation, bool({cable.up_link, cable.down_link} & used)
    assert found["whole"] == (1.0, True)
    assert found["bad"] == (1.0, False)
    assert found["repaired"][0] == 1.0


def test_a_full_fabric_keeps_a_cable_at_what_it_has_left_and_lowers_the_rates_there():
    fabric = fabric_of(spines=2, leaves=2, hosts_per_leaf=2)
    cable = fabric.cables[0]
    left = cable.capacity_bps * 9 // 10
    request = ring(fabric)
    plan = as_plan(OnlinePlanner(fabric).solve((request,), health=Health(), kept=(), degraded={cable.id: left}))
    there = [flow for flow in plan.jobs[0].flows if {cable.up_link, cable.down_link} & set(flow.links)]
    assert {flow.rate_bps for flow in there} == {left}
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound == cable.capacity_bps / left


def test_a_rate_of_zero_leaves_a_thousandth_so_that_no_load_is_divided_by_zero():
    fabric = fabric_of(spines=4, leaves=4, hosts_per_leaf=2)
    first, other, faster = fabric.cables[0], fabric.cables[5], fabric.cables[10]
    cables = {first.id: 0, other.id: -5, faster.id: 10**18}
    plan = as_plan(OnlinePlanner(fabric).solve((ring(fabric),), health=Health(), kept=(), degraded=cables))
    assert plan.certificate.max_link_utilisation == 1.0
    built = topology_of(fabric)
    lowered = built.lowered(cables)
    left = dict(zip(lowered.cable_ids, lowered.cable_capacity.tolist(), strict=True))
    assert left[first.id] == left[other.id] == first.capacity_bps // 1000
    assert left[faster.id] == faster.capacity_bps
    assert lowered.lowered({}) is built
    assert built.capacity.min() == first.capacity_bps


def test_degraded_cables_do_not_change_the_layout_of_ports():
    fabric = fabric_of(spines=16, leaves=8, hosts_per_leaf=2)
    before = layout_of(fabric)
    as_plan(OnlinePlanner(fabric).solve((ring(fabric),), health=Health(), kept=(), degraded={fabric.cables[3].id: 1}))
    assert layout_of(fabric) == before


def test_flows_leave_a_cable_where_they_do_not_fit_any_more_though_a_job_beside_them_gets_less():
    """As after a failure: a move of theirs harms the other job, but they have lost what they had."""
    fabric = fabric_of(spines=2, leaves=2, hosts_per_leaf=1)
    planner, nics = OnlinePlanner(fabric), tuple(nic.id for nic in fabric.nics)
    one = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
    requests = [JobRequest(job_id=f"job{n}", ranks=nics, collectives=(one,)) for n in range(2)]
    plan = as_plan(planner.solve(requests, health=Health(), kept=()))
    kept = tuple(zip(requests, plan.jobs, strict=True))
    cable = fabric.cables[0]
    left = {cable.id: cable.capacity_bps // 8}
    plan = as_plan(planner.solve((), health=Health(), kept=kept, limit=ANY, degraded=left, has_happened=True))
    assert plan.certificate.max_link_utilisation == 2.0
