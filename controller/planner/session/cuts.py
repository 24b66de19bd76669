"""Maintain the lower bound of a session: the traffic across each leaf and each pod, and the flows by size.

The bound of a cut is the largest of these: its load over its live capacity; with m equal links, ceil(n / m) of the n
flows of at least some size on one link; the two flows that share a link where m + 1 cross; the largest flow over the
widest link. These are the cut, pigeonhole and largest-flow bounds of `planner.proof.bound`, in time that does not grow
with the number of flows.
"""

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel, kernel
from heddle.controller.planner.ground.loads import heaviest_phases

MAX_SIZES = 64
"""The distinct demands counted; others only add to the load of their cut, so the bound is valid."""


@kernel
def _cross(cuts: Ints, size: Ints, demand: Floats, load: Floats, count: Ints, sign: int) -> None:
    """Add flows to the cuts in their rows of `cuts` (-1: none), or with `sign` -1 remove them."""
    for i in range(cuts.shape[0]):
        for column in range(cuts.shape[1]):
            cut = cuts[i, column]
            if cut >= 0:
                load[cut] += sign * demand[i]
                if size[i] >= 0:
                    count[cut, size[i]] += sign


@bare_kernel
def _join(cables: Ints, cuts: Ints, width: Ints, capacity: Floats, links: Ints, sign: int) -> None:
    """Count cables as alive in the cuts that they cross, or with `sign` -1 as dead."""
    for i in range(cables.shape[0]):
        cable = cables[i]
        for column in range(cuts.shape[1] if width[cable] > 0 else 0):
            cut = cuts[cable, column]
            if cut >= 0:
                capacity[cut] += sign * width[cable]
                links[cut] += sign


@kernel
def _bounds(
    load: Floats, count: Ints, order: Ints, demand: Floats, capacity: Floats, links: Ints, widest: Floats, even: Flags,
    bound: Floats,
) -> float:  # fmt: skip
    """Write the bound of every cut to `bound` and return the largest; `order` lists the sizes, largest first."""
    largest = 0.0
    for cut in range(load.shape[0]):
        bound[cut] = 0.0
        if capacity[cut] <= 0:
            continue
        best, seen, before, m = load[cut] / capacity[cut], 0, 0.0, links[cut]
        for i in range(order.shape[0]):
            n, d = count[cut, order[i]], demand[order[i]]
            if n == 0:
                continue
            if seen == 0:
                best = max(best, d / widest[cut])
            if seen <= m < seen + n:
                # Flow m + 1 by size shares a link with one of the m larger ones, of which the m-th is the smallest.
                best = max(best, (d + (d if m > seen else before)) / widest[cut])
            seen += n
            before = d
            if even[cut] and seen > m:
                best = max(best, (seen + m - 1) // m * d / widest[cut])
        bound[cut] = best
        largest = max(largest, best)
    return largest


class Cuts:
    """The load and the live links of each cut: leaves out, leaves in, pods out, pods in.

    `leaf_row` is the number of a leaf by switch, `pod_row` the number of a pod by leaf; a fabric without a middle tier
    has 0 pods.
    """

    def __init__(self, topology: Topology, leaf_row: Ints, pod_row: Ints, pods: int) -> None:
        """Count the links of a fabric without failures and flows."""
        self._topology, self._pod_row, self._pods = topology, pod_row, pods
        self._leaves = int((leaf_row >= 0).sum())
        size = 2 * (self._leaves + pods)
        self.bound: Floats = np.zeros(size)
        self._load: Floats = np.zeros(size)
        self._count: Ints = np.zeros((size, MAX_SIZES), dtype=np.int64)
        self._capacity: Floats = np.zeros(size)
        self._links: Ints = np.zeros(size, dtype=np.int64)
        self._widest: Floats = np.zeros(size)
        self._sizes: Floats = np.zeros(MAX_SIZES)
        self._users: Ints = np.zeros(MAX_SIZES, dtype=np.int64)
        self._order: Ints = np.empty(0, dtype=np.int64)
        self._cut_of_cable = self._cuts_of_cables(leaf_row)
        every = np.arange(topology.cables, dtype=np.int64)
        self.join(every)
        width = topology.cable_capacity.astype(np.float64)
        for cuts in self._cut_of_cable.T:
            np.maximum.at(self._widest, cuts[cuts >= 0], width[cuts >= 0])
        self._even: Flags = self._capacity == self._links * self._widest

    def _cuts_of_cables(self, leaf_row: Ints) -> Ints:
        """Return the cuts of each cable, -1 for none: of its leaf and of its pod, out and in."""
        topology, leaves = self._topology, self._leaves
        cuts = np.full((topology.cables, 4), -1, dtype=np.int64)
        row = leaf_row[topology.lower]
        cuts[:, 0], cuts[:, 1] = row, np.where(row >= 0, leaves + row, -1)
        if self._pods:
            pod_of: Ints = np.full(len(topology.switch_ids), -1, dtype=np.int64)
            known = np.flatnonzero(leaf_row >= 0)
            pod_of[topology.pod[known]] = self._pod_row[leaf_row[known]]
            below = topology.pod[topology.lower]
            pod = np.where((topology.tier[topology.upper] == 2) & (below >= 0), pod_of[below], -1)
            cuts[:, 2] = np.where(pod >= 0, 2 * leaves + pod, -1)
            cuts[:, 3] = np.where(pod >= 0, 2 * leaves + self._pods + pod, -1)
        return cuts

    def join(self, cables: Ints, sign: int = 1) -> None:
        """Count cables as alive, or with `sign` -1 as dead; cables without capacity do not count."""
        width = self._topology.cable_capacity
        _join(cables, self._cut_of_cable, width, self._capacity, self._links, sign)

    def enter(self, flows: Flows, source: Ints, target: Ints, phases: bool) -> Ints:
        """Add the flows of one job, between these leaf rows; return the size numbers that `leave` takes.

        A job of several phases adds the load of its heaviest phase to each cut, and no sizes.
        """
        sizes = np.full(len(flows), -1, dtype=np.int64) if phases else self._sizes_of(flows.demand_bps)
        self._cross(flows, source, target, phases, sizes, 1)
        return sizes

    def leave(self, flows: Flows, source: Ints, target: Ints, phases: bool, sizes: Ints) -> None:
        """Remove the flows of a job."""
        self._cross(flows, source, target, phases, sizes, -1)

    def _cross(self, flows: Flows, source: Ints, target: Ints, phases: bool, sizes: Ints, sign: int) -> None:
        cuts = self._cuts_of_flows(source, target)
        if phases:
            self._load += sign * heaviest_phases(flows, cuts, len(self._load))
            return
        _cross(cuts, sizes, flows.demand_bps.astype(np.float64), self._load, self._count, sign)
        self._users += sign * np.bincount(sizes[sizes >= 0], minlength=MAX_SIZES)
        used = np.flatnonzero(self._users)
        self._order = used[np.argsort(-self._sizes[used], kind="stable")]

    def _cuts_of_flows(self, source: Ints, target: Ints) -> Ints:
        cuts = np.full((len(source), 4), -1, dtype=np.int64)
        apart = source != target
        cuts[:, 0], cuts[:, 1] = np.where(apart, source, -1), np.where(apart, self._leaves + target, -1)
        if self._pods:
            p, q, first = self._pod_row[source], self._pod_row[target], 2 * self._leaves
            cuts[:, 2], cuts[:, 3] = np.where(p != q, first + p, -1), np.where(p != q, first + self._pods + q, -1)
        return cuts

    def _sizes_of(self, demand: Ints) -> Ints:
        """Return the number of each flow's size, assigned if new; -1 where there are too many sizes."""
        if not len(demand) or demand.min() == demand.max():
            return np.full(len(demand), self._number_of(int(demand[0])) if len(demand) else -1, dtype=np.int64)
        sizes, inverse = np.unique(demand, return_inverse=True)
        numbers = np.full(len(sizes), -1, dtype=np.int64)
        for index, size in enumerate(sizes.tolist()[::-1]):
            numbers[len(sizes) - 1 - index] = number = self._number_of(size)
            if number < 0:
                break
            self._users[number] += 1  # reserved until the flows themselves are counted
        self._users -= np.bincount(numbers[numbers >= 0], minlength=MAX_SIZES)
        return np.asarray(numbers[inverse], dtype=np.int64)

    def _number_of(self, size: int) -> int:
        found = np.flatnonzero((self._sizes == size) & (self._users > 0))
        found = found if len(found) else np.flatnonzero(self._users == 0)
        if not len(found):
            return -1
        self._sizes[found[0]] = size
        return int(found[0])

    @property
    def one_size(self) -> float:
        """Return the demand of the flows that cross a cut if all are equal, else 0.0."""
        return float(self._sizes[self._order[0]]) if len(self._order) == 1 else 0.0

    def lower_bound(self) -> float:
        """Update `bound` and return its largest value."""
        return _bounds(
            self._load, self._count, self._order, self._sizes, self._capacity, self._links, self._widest, self._even,
            self.bound,
        )  # fmt: skip
