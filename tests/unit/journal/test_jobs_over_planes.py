"""Jobs over several planes go on after a restart with the demands that they were split into."""

from dataclasses import replace

from heddle.controller.model.health import Health
from heddle.controller.model.plan import Replan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.runtime.journal import jobs
from tests.unit.journal.test_another_fabric import fabric_of, kept, started

PLANES = "version: 1\nname: yard\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 1, planes: 2}\n"
RING = "{kind: RING_ALL_REDUCE, bytes: 3000}"


def test_a_job_over_planes_has_its_flows_again_after_a_restart():
    (job,) = started(PLANES, kept(PLANES, collective=RING)).jobs.values()
    assert job.request.ranks == ("h1-n0", "h2-n0")
    assert {flow.src_nic for flow in job.flows.flows} == {"h1-n0/p0", "h1-n0/p1", "h2-n0/p0", "h2-n0/p1"}


def test_demands_are_kept_while_a_plane_is_gone():
    fabric = fabric_of(PLANES)
    (job,) = started(PLANES, kept(PLANES, collective=RING)).jobs.values()
    gone = Health(down_switches=frozenset({"p1-spine1", "p1-spine2"}))
    plan = OnlinePlanner(fabric).solve((), health=gone, kept=[(job.request, job.flows)], has_happened=True)
    assert isinstance(plan, Replan)
    written = jobs.encode(topology_of(fabric), replace(job, flows=plan.jobs[0]))
    read = jobs.decode(topology_of(fabric), written, None)
    assert [flow.demand_bps for flow in read.flows.flows] == [100 * 10**9, 1, 100 * 10**9, 1]
