"""The columns of running jobs are those of reading every job again, whatever comes, goes and changes."""

from dataclasses import fields, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.health import Health
from heddle.controller.model.plan import Plan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.placed import Placed, placed_paths
from heddle.controller.planner.running import Running
from heddle.controller.planner.solve import solve
from tests.support.examples import examples
from tests.unit.brain.driver import shift_job, small_fabric

FABRIC = small_fabric()
TOPOLOGY = topology_of(FABRIC)


def placed(name: str, ranks: int, by: int) -> Placed:
    request = shift_job(name, ranks=ranks, by=by)
    plan = solve(FABRIC, (request,), health=Health())
    assert isinstance(plan, Plan)
    return request, plan.jobs[0]


JOBS = [placed(f"j{n}", 4 + n % 5, 2 + n % 3) for n in range(6)]


@given(
    st.lists(st.lists(st.integers(0, len(JOBS) - 1), unique=True), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
@settings(max_examples=examples(60), deadline=None)
def test_columns_follow_the_jobs(steps, replaced):
    running = Running(TOPOLOGY)
    for kept, again in zip(steps, replaced, strict=False):
        jobs = [JOBS[number] for number in kept]
        if again and jobs:  # a job with other paths: the same request, another table
            request, job = jobs[0]
            assert isinstance(job.flows, FlowTable)
            jobs[0] = request, replace(job, flows=job.flows.with_rates(job.flows.rates))
        found = running.follow(jobs)
        expected = placed_paths(TOPOLOGY, jobs)
        for column in ("hops", "ports", "reverse_hops", "reverse_ports"):
            assert np.array_equal(getattr(found, column), getattr(expected, column))
        for name in (column.name for column in fields(Flows) if column.name != "logical"):  # unique, but not dense
            assert np.array_equal(getattr(found.flows, name), getattr(expected.flows, name))
        pairs = zip(found.flows.logical.tolist(), expected.flows.logical.tolist(), strict=True)
        assert len(set(pairs)) == len(set(expected.flows.logical.tolist()))
