"""Choose paths for new flows beside the load of running flows, which keep their paths."""

from collections.abc import Sequence

import numpy as np

from controller.model.job import JobRequest
from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.incast.incast import confined
from controller.planner.jit import Floats, Ints
from controller.planner.placed import Paths
from controller.planner.ports.pins import Streams, bundles, given_paths
from controller.planner.proof.loads import link_loads
from controller.planner.route import Router


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
    router: Router, jobs: Sequence[JobRequest], base: Sequence[tuple[int, Floats]], old: Paths, running: Streams,
    new: Flows, hops: Ints | None = None,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Return the hops of new flows beside the load of running ones: as routed, and after incasts were confined.

    Flows with given `hops` are not routed.

    `jobs` are the running and the new ones, `base` is the result of `base_loads`. Both results are the same array where
    no incast moved.
    """
    priority = priorities(jobs)
    bundle = bundles(router.topology, running, new, priority[new.job])
    routed = hops
    if routed is None:
        routed = router.route(new, priority[new.job], base, bundle, given_paths(running, bundle))
    return routed, confined(router, jobs, old, new, routed, bundle)
