"""Choose paths for new flows beside the load of running flows, which keep their paths."""

from collections.abc import Sequence

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Floats, Ints
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.streams import Streams
from heddle.controller.planner.incast.incast import confined
from heddle.controller.planner.ports.pins import bundles, given_paths
from heddle.controller.planner.route import Router


def priorities(jobs: Sequence[JobRequest]) -> Ints:
    """Return the priority of each job."""
    return np.array([job.priority for job in jobs], dtype=np.int64)


def base_loads(topology: Topology, priority: Ints, old: Paths) -> list[tuple[int, Floats]]:
    """Return the load in bit/s of running jobs on every link, for each of their priorities."""
    base = []
    for level in np.unique(priority[old.flows.job]).tolist():
        rows = priority[old.flows.job] == level
        base.append((level, link_loads(topology, old.flows.rows(rows), old.hops[rows])))
    return base


def paths_beside(
    router: Router, jobs: Sequence[JobRequest], old: Paths, running: Streams, new: Flows, hops: Ints | None = None,
    base: Sequence[tuple[int, Floats]] | None = None,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Return the hops of new flows beside the load of running ones: as routed, and after incasts were confined.

    Flows with given `hops` are not routed, but those that share the path of a running flow take it. `jobs` are the
    running and the new ones, `base` is the result of `base_loads`, if the caller has it. Both results are the same
    array where no incast moved.
    """
    priority = priorities(jobs)
    bundle = bundles(router.topology, running, new, priority[new.job])
    given = given_paths(running, bundle)
    if hops is None:
        base = base_loads(router.topology, priority, old) if base is None else base
        routed = router.route(new, priority[new.job], base, bundle, given)
    else:
        routed = _along(router, hops, bundle, given)
    return routed, confined(router, jobs, old, new, routed, bundle)


def _along(router: Router, hops: Ints, bundle: Ints, given: dict[int, Ints]) -> Ints:
    """Return the hops of flows, of which those in a bundle that has a live path take that path."""
    rows = [row for row in np.flatnonzero(bundle >= 0).tolist() if int(bundle[row]) in given]
    live, taken = np.append(router.live.links, True), hops.copy() if rows else hops
    for row in rows:
        path = given[int(bundle[row])]
        if live[path].all():
            taken[row] = path
    return taken
