"""Compute the speed of jobs: how long an iteration takes at full demand, over how long it takes with a plan's paths."""

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Floats, Ints
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.proof.fluid import completion_ns, planned_rates


def job_speeds(topology: Topology, flows: Flows, hops: Ints, jobs: int) -> Floats:
    """Return the speed of `jobs` jobs, numbered from 0: 1 where none of a job's flows is slowed.

    It is that of the fluid model at the planned rates (`completion_ns`). A job without sizes has the mean of its rates
    over its demands, one without flows 1, and one with a flow that has no rate 0.
    """
    loads = link_loads(topology, flows, hops)
    rates = planned_rates(topology, flows, hops, loads)
    begins = np.searchsorted(flows.job, np.arange(jobs + 1))
    speeds = np.ones(jobs)
    for number in range(jobs):
        part = slice(int(begins[number]), int(begins[number + 1]))
        if begins[number] == begins[number + 1] or (rates[part] == flows.demand_bps[part]).all():
            continue
        own = flows.rows(part)
        least_ns, taken_ns = completion_ns(own, own.demand_bps), completion_ns(own, rates[part])
        if taken_ns:
            speeds[number] = least_ns / taken_ns
        else:
            speeds[number] = 0.0 if least_ns else float((rates[part] / np.maximum(own.demand_bps, 1)).mean())
    return speeds
