"""Plan flows of a session by the full planner: some flows beside the others, or all flows."""

from collections.abc import Sequence

import numpy as np

from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Topology
from heddle.controller.planner.ground.expand import Flows, joined_flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import heaviest_phases, link_loads
from heddle.controller.planner.ground.paths import packed
from heddle.controller.planner.ground.streams import Streams
from heddle.controller.planner.ports.pins import bundles, given_paths
from heddle.controller.planner.route import Router
from heddle.controller.planner.session.delta import SessionJob, by_role
from heddle.controller.planner.session.state import Store


def replanned(router: Router, jobs: Sequence[SessionJob], paths: Ints, again: Flags, background: Floats) -> Ints:
    """Return new paths, as links by role, for the flows marked in `again`, in the order of their rows.

    `jobs` are all jobs of the session; `paths` and `again` have a row per flow, job by job. Priorities and pins by
    addresses apply as in a full plan. `background` is the load in bit/s of traffic of no job, which does not give way.
    """
    flows, topology = _numbered(jobs), router.topology
    priority = np.array([job.request.priority for job in jobs], dtype=np.int64)
    hops = packed(paths)
    old, new = flows.rows(~again), flows.rows(again)
    stay = hops[~again]
    base = []
    for level in np.unique(priority[old.job]).tolist():
        rows = priority[old.job] == level
        base.append((level, link_loads(topology, old.rows(rows), stay[rows])))
    if background.any():
        base.append((int(priority.max()), background))
    running = _streams(topology, old, stay)
    bundle = bundles(topology, running, new, priority[new.job])
    given = given_paths(running, bundle)
    # A kept flow may be stranded: it does not determine the path of others.
    given = {key: path for key, path in given.items() if path[0] >= 0}
    found = router.route(new, priority[new.job], base, bundle, given)
    return by_role(found, topology.cables)


def beside(router: Router, jobs: Sequence[SessionJob], store: Store, rows: Ints) -> tuple[Ints, Ints]:
    """Return rows of flows without a path, job by job, and new paths for them as links by role.

    `jobs` are theirs; all jobs of the session have one priority, and nothing binds the flows to the paths of others.
    """
    number = store.s.flow["job"][rows]
    order = [rows[number == job.number] for job in jobs]
    flows = joined_flows(
        [job.flows.rows(store.index[mine]).as_job(n) for n, (job, mine) in enumerate(zip(jobs, order, strict=True))]
    )
    level, free = jobs[0].request.priority, np.full(len(flows), -1, dtype=np.int64)
    priority = np.full(len(flows), level, dtype=np.int64)
    found = router.route(flows, priority, [(level, store.s.load.copy())], free, {})
    return np.concatenate(order), by_role(found, router.topology.cables)


def evened(router: Router, jobs: Sequence[SessionJob], store: Store, rows: Ints) -> tuple[Ints, Ints]:
    """Return the rows, of those given, whose paths `Router.evened` changes, and the new paths as links by role.

    `jobs` are the jobs of these rows.
    """
    every, flows = np.concatenate([job.rows for job in jobs]), _numbered(jobs)
    hops = packed(store.paths[every])
    others = np.maximum(store.s.load - heaviest_phases(flows, hops, store.links), 0.0)
    base = np.where(np.isfinite(store.divisor), others, 0.0)  # without load on dead links
    found = router.evened(flows, hops, base, np.isin(every, rows))
    moved = (found != hops).any(axis=1)
    return every[moved], by_role(found[moved], router.topology.cables)


def crowded(store: Store, jobs: Sequence[SessionJob], bound: float) -> Ints:
    """Return the rows of these jobs' flows on links above `bound`: the lowest priority first.

    Of equal priorities, those on the fullest links come first. Flows without a path are left out. A flow that is bound
    to the path of others stays with them when it is planned again.
    """
    rows = np.concatenate([np.empty(0, dtype=np.int64), *(job.rows for job in jobs)])
    priority = np.repeat([job.request.priority for job in jobs], [len(job.rows) for job in jobs])
    used = np.append(store.s.load / store.divisor, 0.0)
    fullest = used[store.paths[rows]].max(axis=1, initial=0.0)
    order = np.lexsort((-fullest, priority))
    leaves = (fullest > bound) & ~store.stranded[rows]
    return rows[order[leaves[order]]]


def _numbered(jobs: Sequence[SessionJob]) -> Flows:
    """Return the flows of all jobs, numbered in their order."""
    return joined_flows([job.flows.as_job(number) for number, job in enumerate(jobs)])


def _streams(topology: Topology, flows: Flows, hops: Ints) -> Streams:
    """Return the streams of running flows; only fixed ports are known here."""
    free: Ints = np.zeros(len(flows), dtype=np.int64)
    no_hops: Ints = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
    return Streams.of(topology, flows, flows.fixed_port, hops, free, no_hops)
