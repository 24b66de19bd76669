"""Work of a plan: equal phases are routed once, and a search ends however many flows share its links."""

import random

from heddle.controller.planner.proof.fluid import MAX_COMPLETION_NS
from heddle.controller.planner.route import Router
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of, plan_of

FABRIC = fabric_of(leaves=4)


def test_equal_phases_are_routed_once_and_take_the_same_paths(monkeypatch):
    routed, bundled = [], Router._bundled

    def noted(*values):
        routed.append(values)
        return bundled(*values)

    monkeypatch.setattr(Router, "_bundled", noted)
    rings = [{"members": [0, 2, 4, 6]}, {"members": [1, 2, 5, 6]}]
    phases = [{"kind": "RING_ALL_REDUCE", "bytes": 1, "phase": phase, **rings[phase % 2]} for phase in range(20)]
    (job,) = plan_of(FABRIC, job_of(FABRIC, *phases)).jobs
    assert len(routed) == 2
    paths = [[flow.links for flow in job.flows if flow.phase == phase] for phase in range(20)]
    assert all(paths[phase] == paths[phase % 2] for phase in range(20))


def test_many_flows_between_few_nics_are_planned_close_to_the_bound():
    draw = random.Random(1)
    flows = [(2 * a, 2 * b) for a, b in (draw.sample(range(4), 2) for _ in range(50_000))]
    certificate = plan_of(FABRIC, job_of(FABRIC, custom(*flows))).certificate
    assert certificate.max_link_utilisation <= 1.001 * certificate.lower_bound


def test_a_time_beyond_the_contracts_field_is_its_largest_value():
    (job,) = plan_of(FABRIC, job_of(FABRIC, custom((0, 7, 1), bytes=2**64 - 1))).jobs
    assert job.predicted_completion_ns == MAX_COMPLETION_NS == 2**64 - 1
