"""Give flows of a plan other paths where no source port leads over the planned ones: each the best one beside the rest.

A fabric that hashes forwards over the shortest live paths only, so a pair of leaves has no longer ones here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Amend, Infeasible
from heddle.controller.planner.ground.clos import Live
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import Placed, placed_paths
from heddle.controller.planner.route import Router


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Amended:
    """Other paths for a plan: `hops` of the `moved` running flows, then of the new flows, as `draft` takes them.

    `running` are the flows of kept jobs as they are, `stranded` by job those without a live path.
    """

    hops: Ints
    moved: Flags
    running: Paths
    stranded: Mapping[str, tuple[str, ...]]


def other_paths(
    router: Router, requests: Sequence[JobRequest], kept: Sequence[Placed], amend: Amend
) -> Amended | Infeasible:
    """Return the paths of a plan after its amendment; Infeasible where a new flow has no path left."""
    topology = router.topology
    wanted = [request for request, _ in kept] + list(requests)
    running = placed_paths(topology, kept)
    placed = placed_paths(topology, list(zip(wanted, amend.jobs, strict=True)))
    hops, old = placed.hops.copy(), len(running.hops)
    rows = _rows(amend)
    for flow_id in amend.stay:
        hops[rows[flow_id]] = running.hops[rows[flow_id]]
    open_rows = {rows[flow_id]: flow_id for flow_id in amend.avoid if flow_id not in amend.stay}
    others: Flags = np.ones(len(hops), dtype=np.bool_)
    others[list(open_rows)] = False
    loads = link_loads(topology, placed.flows.rows(others), hops[others])
    choices = _Choices(router)
    for row, flow_id in sorted(open_rows.items()):
        source, target = int(placed.flows.src_nic[row]), int(placed.flows.dst_nic[row])
        demand = int(placed.flows.demand_bps[row])
        found = choices.best(source, target, demand, loads, amend.avoid[flow_id], amend.reached.get(flow_id))
        if found is None and row >= old:
            return Infeasible(why=f"flow {flow_id} has no other path")
        hops[row] = running.hops[row] if found is None else found
        loads[hops[row][hops[row] >= 0]] += demand
    moved = (hops[:old] != running.hops).any(axis=1)
    moved |= (placed.reverse_hops[:old] != running.reverse_hops).any(axis=1)
    return Amended(
        hops=np.concatenate((hops[:old][moved], hops[old:])),
        moved=moved,
        running=running,
        stranded=_stranded(router.live, kept, running, hops[:old]),
    )


def _rows(amend: Amend) -> dict[str, int]:
    """Return the row of each flow that is named, in the joined flows of all jobs."""
    named = amend.avoid.keys() | amend.stay
    jobs = {flow_id.partition("/")[0] for flow_id in named}
    found: dict[str, int] = {}
    begin = 0
    for job in amend.jobs:
        if job.job_id in jobs:
            found |= {flow.flow_id: begin + row for row, flow in enumerate(job.flows) if flow.flow_id in named}
        begin += len(job.flows)
    return found


def _stranded(live: Live, kept: Sequence[Placed], running: Paths, hops: Ints) -> dict[str, tuple[str, ...]]:
    links, first = np.append(live.links, True), live.topology.first_nic_link
    carried = links[hops].all(axis=1) & links[first + running.flows.src_nic] & links[first + running.flows.dst_nic]
    found: dict[str, list[str]] = {}
    for row in np.flatnonzero(~carried).tolist():
        number = int(running.flows.job[row])
        begin = int(np.searchsorted(running.flows.job, number))
        job = kept[number][1]
        found.setdefault(job.job_id, []).append(job.flows[row - begin].flow_id)
    return {job_id: tuple(flows) for job_id, flows in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """The paths between leaves, found on first use."""

    router: Router
    known: dict[tuple[int, int], Ints] = field(default_factory=dict)

    def best(
        self, source: int, target: int, demand: int, loads: Floats, avoid: frozenset[tuple[str, ...]],
        reached: frozenset[str] | None,
    ) -> Ints | None:  # fmt: skip
        """Return the path whose fullest link is the least full with the flow on it; None where all are avoided."""
        topology = self.router.topology
        leaves = int(topology.nic_leaf[source]), int(topology.nic_leaf[target])
        if leaves not in self.known:
            self.known[leaves] = _paths(self.router, *leaves)
        paths, index = self.known[leaves], topology.link_index
        for path in avoid:
            tried = [index[link] for link in path[1:-1]]
            paths = paths[(paths[:, : len(tried)] != tried).any(axis=1)]
        if reached is not None and len(paths):
            top = int((paths[0] >= 0).sum()) // 2 - 1
            paths = paths[np.isin(paths[:, top], [index[link] for link in reached])]
        if not len(paths):
            return None
        used = np.where(paths >= 0, (loads[paths] + demand) / topology.capacity[paths], 0.0)
        found: Ints = paths[np.lexsort((used.sum(axis=1), used.max(axis=1)))[0]]
        return found


def _paths(router: Router, source: int, target: int) -> Ints:
    """Return the shortest live paths between two leaves, a row of links each."""
    segments, cables = router.segments, router.topology.cables
    up = np.arange(segments.start[source], segments.start[source + 1])
    down = np.arange(segments.start[target], segments.start[target + 1])
    u, w = np.nonzero(segments.top[up][:, None] == segments.top[down][None, :])
    u, w = up[u], down[w]
    apart = (segments.middle[u] != segments.middle[w]) | (segments.middle[u] < 0)
    u, w = u[apart], w[apart]
    longer = (segments.second[u] >= 0).astype(np.int64) + (segments.second[w] >= 0)
    shortest = longer == longer.min(initial=2)
    u, w = u[shortest], w[shortest]
    hops = np.column_stack((segments.first[u], segments.second[u], segments.second[w], segments.first[w]))
    hops[:, 2:] += np.where(hops[:, 2:] >= 0, cables, 0)
    padded: Ints = np.take_along_axis(hops, np.argsort(hops < 0, axis=1, kind="stable"), axis=1)
    return np.ascontiguousarray(padded)
