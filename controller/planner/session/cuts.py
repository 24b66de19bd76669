"""Keep a session's lower bound up to date: what crosses each leaf and each pod, and the flows by size.

For each cut: all that crosses it over what is alive of it; with m even links, ceil(n / m) of the n flows of at least
some size on one of them; the two that must meet where m + 1 cross; the largest flow over the widest link. These are
the cut, pigeonhole and largest-flow bounds of `planner.proof.bound`, in time that does not grow with the flows.
"""

import numpy as np

from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.jit import Flags, Floats, Ints, kernel
from controller.planner.proof.loads import heaviest_phases

MAX_SIZES = 64
"""Demands told apart; flows of further ones count for their cut's load only, which keeps the bound sound."""


@kernel
def _cross(cuts: Ints, size: Ints, demand: Floats, load: Floats, count: Ints, sign: int) -> None:
    """Add flows to the cuts of their rows of `cuts` (-1: none), or take them away."""
    for i in range(cuts.shape[0]):
        for column in range(cuts.shape[1]):
            cut = cuts[i, column]
            if cut >= 0:
                load[cut] += sign * demand[i]
                if size[i] >= 0:
                    count[cut, size[i]] += sign


@kernel
def _bounds(
    load: Floats, count: Ints, order: Ints, demand: Floats, capacity: Floats, links: Ints, widest: Floats, even: Flags,
    bound: Floats,
) -> float:  # fmt: skip
    """Write the bound of every cut and return the largest; `order` lists the sizes, the largest first."""
    most = 0.0
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
                # The (m + 1)-th largest meets one of the m before it, of which the m-th is the smallest.
                best = max(best, (d + (d if m > seen else before)) / widest[cut])
            seen += n
            before = d
            if even[cut] and seen > m:
                best = max(best, (seen + m - 1) // m * d / widest[cut])
        bound[cut] = best
        most = max(most, best)
    return most


class Cuts:
    """What crosses each cut and what of it is alive: leaves out, leaves in, pods out, pods in.

    `leaf_row` gives a leaf's number by switch, `pod_row` a pod's by leaf row; no pods where there is no middle tier.
    """

    def __init__(self, topology: Topology, leaf_row: Ints, pod_row: Ints, pods: int) -> None:
        """Start with a whole fabric and no flow."""
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
        """Return the cuts of each cable, -1 for none: its leaf's and its pod's, out and in."""
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
        """Count cables as alive (or, with -1, no longer); one of no capacity never is."""
        cables = cables[self._topology.cable_capacity[cables] > 0]
        width = self._topology.cable_capacity[cables].astype(np.float64)
        for cuts in self._cut_of_cable[cables].T:
            known = cuts >= 0
            np.add.at(self._capacity, cuts[known], sign * width[known])
            np.add.at(self._links, cuts[known], sign)

    def enter(self, flows: Flows, source: Ints, target: Ints, phases: bool) -> Ints:
        """Add the flows of one job, between these leaf rows; returns what `leave` wants back.

        A job of several phases adds to each cut what its heaviest phase sends across, and no sizes.
        """
        sizes = np.full(len(flows), -1, dtype=np.int64) if phases else self._sizes_of(flows.demand_bps)
        self._cross(flows, source, target, phases, sizes, 1)
        return sizes

    def leave(self, flows: Flows, source: Ints, target: Ints, phases: bool, sizes: Ints) -> None:
        """Take the flows of a job away again."""
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
        """Return the number of each flow's size, new ones included; -1 where there are too many."""
        if not len(demand) or demand.min() == demand.max():
            return np.full(len(demand), self._number_of(int(demand[0])) if len(demand) else -1, dtype=np.int64)
        sizes, inverse = np.unique(demand, return_inverse=True)
        numbers = np.full(len(sizes), -1, dtype=np.int64)
        for index, size in enumerate(sizes.tolist()[::-1]):
            numbers[len(sizes) - 1 - index] = number = self._number_of(size)
            if number < 0:
                break
            self._users[number] += 1  # taken, until the flows themselves are counted
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
        """Return the demand of every flow where all that cross a cut are alike; else 0.0."""
        return float(self._sizes[self._order[0]]) if len(self._order) == 1 else 0.0

    def lower_bound(self) -> float:
        """Bring `bound` up to date and return its largest value."""
        return _bounds(
            self._load, self._count, self._order, self._sizes, self._capacity, self._links, self._widest, self._even,
            self.bound,
        )  # fmt: skip
