"""Choose paths: which engine for which flows, in which order, over which load.

Higher priorities first, each over the load of its betters. Jobs of one priority that have a single phase are planned
as one set; a job of several phases by itself, its phases one by one, for they never meet. A set of equal demands on
a regular part of the fabric is coloured; everything else is balanced; where both apply the better result stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.planner.balance import balanced_paths
from controller.planner.bound import lower_bound
from controller.planner.clos import MOST_HOPS, NO_LINK, Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Floats, Ints
from controller.planner.loads import heaviest_phases
from controller.planner.segments import Segments, segments_of
from controller.planner.shape import coloured_paths, shape_of

MOST_SETS_AGAIN = 64
"""With more sets than this each is routed once only: the work must stay linear."""
ROUNDS_AGAIN = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Router:
    """A fabric, what of it is alive, and the ways that leaves.

    `given` holds hops that are already decided, under a flow's `bundle`; flows of one bundle share one path.
    """

    topology: Topology
    live: Live

    @cached_property
    def segments(self) -> Segments:
        """Return every live way up, worked out on first use."""
        return segments_of(self.topology, self.live)

    def route(
        self, flows: Flows, priority: Ints, base: Sequence[tuple[int, Floats]], bundle: Ints, given: dict[int, Ints]
    ) -> Ints:
        """Return the hops of every flow; a row without any between two leaves is a flow that has no path.

        `priority` is each flow's job's; `base` the load of jobs that stay as they are, by their priority;
        `bundle` is -1 for a flow that goes its own way.
        """
        hops = np.full((len(flows), MOST_HOPS), NO_LINK, dtype=np.int64)
        links = 2 * self.topology.cables
        placed = np.zeros(links)
        for level in sorted(set(priority.tolist()), reverse=True):
            rows = np.flatnonzero(priority == level)
            everyone = placed + sum((load[:links] for _, load in base), np.zeros(links))
            betters = placed + sum((load[:links] for other, load in base if other >= level), np.zeros(links))
            chosen = self._level(flows.rows(rows), everyone, bundle[rows], dict(given))
            if (everyone != betters).any():
                # A priority must fare as if no lower job existed: lower load may only break ties.
                alone = self._level(flows.rows(rows), betters, bundle[rows], dict(given))
                if self._worst(flows.rows(rows), alone, betters) < self._worst(flows.rows(rows), chosen, betters):
                    chosen = alone
            hops[rows] = chosen
            placed += heaviest_phases(flows.rows(rows), chosen, links)
            given |= {key: hops[row] for row, key in zip(rows.tolist(), bundle[rows].tolist(), strict=True) if key >= 0}
        return hops

    def _worst(self, flows: Flows, hops: Ints, base: Floats) -> float:
        """Return the largest utilisation of the links these flows use, over `base`."""
        loads = heaviest_phases(flows, hops, len(base)) + base
        used = np.unique(hops[hops >= 0])
        return float((loads[used] / self.topology.capacity[used]).max(initial=0.0))

    def _level(self, flows: Flows, base: Floats, bundle: Ints, given: dict[int, Ints]) -> Ints:
        """Route the flows of one priority: set after set, then each set again where others came after it."""
        hops = np.full((len(flows), MOST_HOPS), NO_LINK, dtype=np.int64)
        batches = _batches(flows)
        loads: list[Floats] = []
        for batch in batches:
            hops[batch] = self._batch(flows.rows(batch), base + sum(loads, np.zeros(len(base))), bundle[batch], given)
            loads.append(heaviest_phases(flows.rows(batch), hops[batch], len(base)))
        if 1 < len(batches) <= MOST_SETS_AGAIN:
            self._again(flows, hops, batches, loads, base, bundle, given)
        return hops

    def _again(
        self, flows: Flows, hops: Ints, batches: list[Ints], loads: list[Floats], base: Floats, bundle: Ints,
        given: dict[int, Ints],
    ) -> None:  # fmt: skip
        """Route each set once more over all the others, and keep what lowers the fullest link."""
        goal = lower_bound(self.topology, self.live, flows).value
        for number in [*range(len(batches))] * ROUNDS_AGAIN:
            total = base + sum(loads, np.zeros(len(base)))
            if self._fullest(total) <= goal:
                return
            batch = batches[number]
            found = self._batch(flows.rows(batch), total - loads[number], bundle[batch], given)
            load = heaviest_phases(flows.rows(batch), found, len(base))
            if self._fullest(total - loads[number] + load) < self._fullest(total):
                hops[batch], loads[number] = found, load

    def _batch(self, flows: Flows, base: Floats, bundle: Ints, given: dict[int, Ints]) -> Ints:
        """Route one set, each of its layers over the same base: they never meet."""
        hops = np.full((len(flows), MOST_HOPS), NO_LINK, dtype=np.int64)
        for layer in _layers(flows):
            hops[layer] = self._bundled(flows.rows(layer), base, bundle[layer], given)
        return hops

    def _fullest(self, loads: Floats) -> float:
        return float((loads / np.maximum(self.topology.capacity[: len(loads)], 1)).max(initial=0.0))

    def _bundled(self, flows: Flows, base: Floats, bundle: Ints, given: dict[int, Ints]) -> Ints:
        """Route one layer, the flows of a bundle as one."""
        if (bundle < 0).all():
            return self._layer(flows, flows.demand_bps, base)
        key = np.where(bundle >= 0, bundle, -1 - np.arange(len(bundle)))
        _, first, member = np.unique(key, return_index=True, return_inverse=True)
        demand = np.zeros(len(first), dtype=np.int64)
        np.add.at(demand, member, flows.demand_bps)
        known = np.array([int(key[row]) in given for row in first.tolist()], dtype=np.bool_)
        hops = np.full((len(first), MOST_HOPS), NO_LINK, dtype=np.int64)
        for item in np.flatnonzero(known).tolist():
            hops[item] = given[int(key[first[item]])]
        taken = base.copy()
        for column in range(MOST_HOPS):
            on = known & (hops[:, column] >= 0)
            np.add.at(taken, hops[on, column], demand[on])
        hops[~known] = self._layer(flows.rows(first[~known]), demand[~known], taken)
        given |= {int(key[row]): hops[item] for item, row in enumerate(first.tolist()) if key[row] >= 0}
        return np.asarray(hops[member], dtype=np.int64)

    def _layer(self, flows: Flows, demand: Ints, base: Floats) -> Ints:
        """Route flows that are all active at once over a base load."""
        topology = self.topology
        source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
        hops = np.full((len(flows), MOST_HOPS), NO_LINK, dtype=np.int64)
        apart = np.flatnonzero(source != target)
        if not len(apart):
            return hops
        part, demand, source, target = flows.rows(apart), demand[apart], source[apart], target[apart]
        goal = max(lower_bound(topology, self.live, part).value, self._fullest(base))
        coloured = self._coloured(source, target) if (demand == demand[0]).all() else None
        if coloured is not None and self._over(coloured, demand, base) <= goal:
            hops[apart] = coloured
            return hops
        found = balanced_paths(topology, self.segments, self.live, source, target, demand, base, goal)
        if coloured is not None and self._over(coloured, demand, base) <= self._over(found, demand, base):
            found = coloured
        hops[apart] = found
        return hops

    def _coloured(self, source: Ints, target: Ints) -> Ints | None:
        leaves = np.unique(np.concatenate((source, target)))
        shape = shape_of(self.topology, self.live, leaves)
        return None if shape is None else coloured_paths(self.topology, shape, leaves, source, target)

    def _over(self, hops: Ints, demand: Ints, base: Floats) -> float:
        """Return the largest utilisation with these flows on top of a base load."""
        loads = base.copy()
        for column in range(hops.shape[1]):
            on = hops[:, column] >= 0
            loads += np.bincount(hops[on, column], weights=demand[on].astype(np.float64), minlength=len(loads))
        return self._fullest(loads)


def _batches(flows: Flows) -> list[Ints]:
    """Divide flows into sets to be planned one after the other: all jobs of one phase, then each other job."""
    if not len(flows):
        return []
    pairs = np.unique(np.column_stack((flows.job, flows.phase)), axis=0)
    jobs, phases = np.unique(pairs[:, 0], return_counts=True)
    simple = np.isin(flows.job, jobs[phases == 1])
    batches = [np.flatnonzero(simple)] if simple.any() else []
    return batches + [np.flatnonzero(flows.job == job) for job in jobs[phases > 1]]


def _layers(flows: Flows) -> list[Ints]:
    """Divide one set into what is active at once: a job's phases, or the whole set of jobs of one phase."""
    if len(np.unique(flows.job)) > 1:
        return [np.arange(len(flows), dtype=np.int64)]
    return [np.flatnonzero(flows.phase == phase) for phase in np.unique(flows.phase)]
