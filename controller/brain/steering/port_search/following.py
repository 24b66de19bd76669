"""Follow a changed hash: keep the paths that it gave to running flows, where the fabric stays within its bound.

A flow that keeps its port costs its host nothing; a flow that gets another port is moved by us. So the paths that
probes have seen are tried first, and planned as they are; only flows that they make too slow are led elsewhere.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from heddle.controller.brain.intent import dead_links
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.plan import JobFlows, Replan
from heddle.controller.planner.ground.flow_table import FlowTable

SLACK = 1.02
"""As the planner: running flows move only where the fullest link is above the lower bound by more than this factor."""
ROUNDING = 1 + 1e-9
Seen = Mapping[str, tuple[str, ...]]
"""By flow id the links, NIC to NIC, over which a flow's port leads."""


def live_paths(fabric: Fabric, health: Health, plan: Replan, seen: Seen) -> dict[str, tuple[str, ...]]:
    """Return the seen paths that lead from link to link to their flow's leaf, over nothing that is out of use."""
    dead = dead_links(fabric, health)
    planned = {flow.flow_id: flow.path for rows in plan.wanted.values() for flow in rows.flows}
    return {
        flow_id: path
        for flow_id, path in seen.items()
        if flow_id in planned and not dead.intersection(path) and _is_joined(fabric, path, planned[flow_id])
    }


def _is_joined(fabric: Fabric, path: tuple[str, ...], planned: tuple[str, ...]) -> bool:
    inner = path[1:-1]
    if not inner or any(link not in fabric.cable_by_link for link in inner):
        return False
    ends = [_ends(link) for link in inner]
    first, last = _ends(planned[1])[0], _ends(planned[-2])[1]
    along = all(before[1] == after[0] for before, after in pairwise(ends))
    return along and ends[0][0] == first and ends[-1][1] == last


def _ends(link: str) -> tuple[str, str]:
    """Return the switches that a directed link leads from and to."""
    source, _, target = link.partition(">")
    return source.rpartition(":")[0], target.rpartition(":")[0]


def with_paths(plan: Replan, seen: Seen) -> tuple[JobFlows, ...]:
    """Return the jobs of a plan with flows on the paths that were seen; their other figures are those of the plan."""
    jobs = []
    for job in plan.jobs:
        wanted, table = plan.wanted.get(job.job_id), job.flows
        at = {} if wanted is None else dict(zip((flow.flow_id for flow in wanted.flows), wanted.rows, strict=True))
        rows = {at[flow_id]: path for flow_id, path in seen.items() if flow_id in at}
        if rows and isinstance(table, FlowTable):
            hops = table.hops.copy()
            for row, path in rows.items():
                hops[row] = -1
                hops[row, : len(path) - 2] = [table.topology.link_index[link] for link in path[1:-1]]
            paths = replace(table.paths, hops=hops)
            job = replace(job, flows=table.with_paths(paths))
        jobs.append(job)
    return tuple(jobs)


def is_within_bound(plan: Replan, followed: Replan) -> bool:
    """Return whether no job is worse on the seen paths than planned, other than within the slack of the bound."""
    bounds = _bounds(plan)
    return all(job.own_max_link_utilisation <= bounds[job.job_id] * ROUNDING for job in followed.jobs)


def _bounds(plan: Replan) -> dict[str, float]:
    least = plan.certificate.lower_bound * SLACK
    return {job.job_id: max(job.own_max_link_utilisation, least) for job in plan.jobs}


def that_fit(fabric: Fabric, plan: Replan, seen: Seen) -> dict[str, tuple[str, ...]]:
    """Return some of the seen paths, each of which fits beside the others; none if all seem to.

    An estimate: it takes the phases of a job as simultaneous with those of others. Their plan is checked as any other.
    """
    capacity = {link.id: link.capacity_bps for link in fabric.directed_links}
    limit = max(_bounds(plan).values(), default=0.0) * ROUNDING
    loads: Counter[str] = Counter()
    demand: dict[str, tuple[int, tuple[str, ...]]] = {}
    for job in plan.jobs:
        loads.update(job.link_loads_bps)
        wanted, table = plan.wanted.get(job.job_id), job.flows
        if wanted is not None and isinstance(table, FlowTable):
            pairs = zip(wanted.rows, wanted.flows, strict=True)
            demand |= {flow.flow_id: (int(table.flows.demand_bps[row]), flow.path) for row, flow in pairs}
    found = {}
    for flow_id, path in sorted(seen.items()):
        bps, planned = demand[flow_id]
        joined, left = set(path) - set(planned), set(planned) - set(path)
        if all(loads[link] + bps <= limit * capacity[link] for link in joined):
            found[flow_id] = path
            loads.update(dict.fromkeys(joined, bps))
            loads.subtract(dict.fromkeys(left, bps))
    return found if len(found) < len(seen) else {}
