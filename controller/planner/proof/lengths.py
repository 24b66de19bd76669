"""A lower bound by link lengths, for flows that may be split over all their paths: the dual of the linear program.

Give every link a length. A flow of d bit/s travels at least d times its shortest path, however it is split, so the sum
over links of length times load is at least the sum of these; and the fullest link is at least as full as the mean of
all, weighted by length times capacity. Any lengths are a proof; good ones are powers of the utilisation of a good plan.
"""

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Floats, Ints
from heddle.controller.planner.ground.loads import layers_of
from heddle.controller.planner.ground.segments import Segments

POWERS = (3, 7, 15, 31, 63, 127, 255, 511)
MAX_PAIRS = 100_000
"""The limit of pairs of leaves; above it there is no bound by lengths."""
MAX_CELLS = 4_000_000


def bound_by_lengths(topology: Topology, segments: Segments, flows: Flows, used: Floats) -> float:
    """Return the best bound of the lengths that the utilisations `used` of links between switches suggest; 0: none."""
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    apart = np.flatnonzero(source != target)
    pairs, pair = np.unique(np.stack((source[apart], target[apart])), axis=1, return_inverse=True)
    if not (used > 0).any() or pairs.shape[1] > MAX_PAIRS:
        return 0.0
    layers, demand = layers_of(flows), flows.demand_bps[apart].astype(np.float64)
    capacity, fullest, best = topology.capacity[: len(used)].astype(np.float64), float(used.max()), 0.0
    for power in POWERS:
        length = np.divide((used / fullest) ** power, capacity, out=np.zeros(len(used)), where=capacity > 0)
        travelled = demand * _shortest(topology, segments, pairs, length)[pair.reshape(-1)]
        by_layer = np.bincount(layers.of_flow[apart], travelled, len(layers.job))
        of_jobs = np.zeros(int(layers.job.max()) + 1)
        np.maximum.at(of_jobs, layers.job, by_layer)
        best = max(best, float(of_jobs.sum() / (length * capacity).sum()))
    return best


def _shortest(topology: Topology, segments: Segments, pairs: Ints, length: Floats) -> Floats:
    """Return the length of the shortest path of each pair of leaves; 0 where there is none."""
    leaf, tops = np.repeat(np.arange(len(segments.start) - 1), np.diff(segments.start)), np.unique(segments.top)
    top = np.searchsorted(tops, segments.top)
    up, down = (np.full((len(segments.start) - 1, len(tops)), np.inf) for _ in range(2))
    for table, by in ((up, 0), (down, topology.cables)):
        second = np.where(segments.second >= 0, length[segments.second + by], 0.0)
        np.minimum.at(table, (leaf, top), length[segments.first + by] + second)
    found, step = np.empty(pairs.shape[1]), max(1, MAX_CELLS // max(1, len(tops)))
    for begin in range(0, pairs.shape[1], step):
        source, target = pairs[:, begin : begin + step]
        found[begin : begin + step] = (up[source] + down[target]).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(found), found, 0.0)
