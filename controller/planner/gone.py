"""Give parts of flows in a plane that is gone a path of the fabric as built, as running flows that lose theirs keep it.

The other planes go on. Such a part exists from the beginning, so that it may carry data again once its plane lives.
"""

from dataclasses import replace

import numpy as np

from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.refusal import without_other_plane
from heddle.controller.planner.route import Router


def staying(topology: Topology, live: Live, running: Paths) -> Flags:
    """Return which running flows keep their paths: live ones, and parts with nothing left where another part is alive.

    Demands are by what planes have left now, as `splits` and `expand` make them.
    """
    alive = running.alive(live)
    if topology.ports_of_rank is None or alive.all():
        return alive
    gone: Flags = ~alive & (running.flows.demand_bps == 1)
    gone[without_other_plane(topology, running.flows, gone)] = False
    return np.asarray(alive | gone)


def with_gone(router: Router, flows: Flows, hops: Ints) -> Ints:
    """Return the hops of flows, where those without a live path have one over failed links; the same array if none."""
    leaf = router.topology.nic_leaf
    rows = np.flatnonzero((hops[:, 0] < 0) & (leaf[flows.src_nic] != leaf[flows.dst_nic]))
    if not len(rows):
        return hops
    built = Router(topology=router.topology, live=Live.of(router.topology, Health()))
    alike = replace(flows.rows(rows), demand_bps=np.ones(len(rows), dtype=np.int64))
    # Those of one pair share a path, as pins by addresses must.
    _, pair = np.unique(alike.src_nic * router.topology.nics + alike.dst_nic, return_inverse=True)
    found = hops.copy()
    found[rows] = built.route(alike, np.zeros(len(rows), dtype=np.int64), [], pair.reshape(-1).astype(np.int64), {})
    return found
