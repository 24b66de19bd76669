"""Lower bounds on the largest utilisation that hold for flows split over any number of paths in any parts."""

import numpy as np

from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.loads import heaviest_phases
from heddle.controller.planner.proof.bound import Bound, lower_bound


def splittable_bound(topology: Topology, live: Live, flows: Flows, split: Flags) -> Bound:
    """Return the largest bound where the flows marked in `split` may be split over all their paths.

    It is that of the leaves and pods as cuts, for all flows, or any bound of the flows with one path alone.
    `lengths.bound_by_lengths` may be larger.
    """
    whole = flows.rows(~split)
    found = lower_bound(topology, live, whole) if len(whole) else Bound(0.0, "cut")
    cut = max(_cut_bound(topology, live, flows, around) for around in (np.arange(len(topology.tier)), topology.pod))
    return found if found.value > cut else Bound(cut, "cut")


def _cut_bound(topology: Topology, live: Live, flows: Flows, around: Ints) -> float:
    """Return the largest load of a leaf or pod, out of it or into it, over what its live uplinks carry."""
    inside = around[: len(topology.tier)]
    rising = live.links[: topology.cables] & (inside[topology.lower] != inside[topology.upper])
    rising &= (topology.tier[topology.lower] == 0) | (inside[topology.lower] == topology.pod[topology.lower])
    cables = np.flatnonzero(rising & (inside[topology.lower] >= 0))
    width = np.bincount(inside[topology.lower[cables]], topology.cable_capacity[cables], len(inside))
    near, far = inside[topology.nic_leaf[flows.src_nic]], inside[topology.nic_leaf[flows.dst_nic]]
    worst = 0.0
    for end in (near, far):
        crossing = np.where(near != far, end, -1)
        loads = heaviest_phases(flows, crossing[:, None], len(inside))
        worst = max(worst, float(np.divide(loads, width, out=np.zeros(len(loads)), where=width > 0).max(initial=0.0)))
    return worst
