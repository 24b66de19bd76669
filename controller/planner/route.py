"""Choose paths: which engine for which flows, in which order, over which load.

Higher priorities first, each over the load of its betters. Jobs of one priority that have a single phase are planned
as one set; a job of several phases by itself, its phases one by one, for they never meet. A set of equal demands on
a regular part of the fabric is coloured; everything else is balanced; where both apply the better result stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.model.health import Health
from controller.planner.clos import MAX_HOPS, NO_LINK, Live, Topology
from controller.planner.exact.equal import Coloured, coloured_paths
from controller.planner.exact.shape import Shape, shape_of
from controller.planner.expand import Flows
from controller.planner.jit import Floats, Ints
from controller.planner.proof.bound import lower_bound
from controller.planner.proof.loads import heaviest_phases
from controller.planner.search.balance import balanced_paths
from controller.planner.search.regular import regular_paths
from controller.planner.search.segments import Segments, segments_of

MAX_SETS_AGAIN = 64
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

    @cached_property
    def _whole_shape(self) -> tuple[Shape | None, Ints]:
        """Return how all leaves are joined where that is regular, and the leaves."""
        leaves = np.flatnonzero(self.topology.tier == 0)
        return shape_of(self.topology, self.live, leaves), leaves

    @cached_property
    def _built_shape(self) -> tuple[Shape | None, Ints]:
        """Return how all leaves were joined before anything failed where that was regular, and the leaves."""
        if self.live.whole:
            return self._whole_shape
        leaves = np.flatnonzero(self.topology.tier == 0)
        return shape_of(self.topology, Live.of(self.topology, Health()), leaves), leaves

    def route(
        self, flows: Flows, priority: Ints, base: Sequence[tuple[int, Floats]], bundle: Ints, given: dict[int, Ints]
    ) -> Ints:
        """Return the hops of every flow; a row without any between two leaves is a flow that has no path.

        `priority` is each flow's job's; `base` the load of jobs that stay as they are, by their priority;
        `bundle` is -1 for a flow that goes its own way.
        """
        if not len(flows):
            return np.empty((0, MAX_HOPS), dtype=np.int64)
        links = 2 * self.topology.cables
        if not self.live.whole:
            # Load there is left over from jobs that wait for their new paths: it must not hide the live maximum.
            base = [(level, np.where(self.live.links[:links], load[:links], 0.0)) for level, load in base]
        placed, bundled = np.zeros(links), bool((bundle >= 0).any())
        everybody = (priority == priority[0]).all()
        levels = [int(priority[0])] if everybody else sorted(set(priority.tolist()), reverse=True)
        hops = np.full((0 if everybody else len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        for level in levels:
            rows = np.arange(len(flows)) if everybody else np.flatnonzero(priority == level)
            part = flows if everybody else flows.rows(rows)
            everyone = placed + sum((load[:links] for _, load in base), np.zeros(links))
            betters = placed + sum((load[:links] for other, load in base if other >= level), np.zeros(links))
            chosen = self._level(part, everyone, bundle[rows], dict(given))
            if (everyone != betters).any():
                # A priority must fare as if no lower job existed: lower load may only break ties.
                alone = self._level(part, betters, bundle[rows], dict(given))
                if self._worst(part, alone, betters) < self._worst(part, chosen, betters):
                    chosen = alone
            if everybody:
                return chosen
            hops[rows] = chosen
            placed += heaviest_phases(part, chosen, links)
            if bundled:
                given |= {key: hops[n] for n, key in zip(rows.tolist(), bundle[rows].tolist(), strict=True) if key >= 0}
        return hops

    def _worst(self, flows: Flows, hops: Ints, base: Floats) -> float:
        """Return the largest utilisation of the links these flows use, over `base`."""
        loads = heaviest_phases(flows, hops, len(base)) + base
        used = np.unique(hops[hops >= 0])
        return float((loads[used] / self.topology.capacity[used]).max(initial=0.0))

    def _level(self, flows: Flows, base: Floats, bundle: Ints, given: dict[int, Ints]) -> Ints:
        """Route the flows of one priority: set after set, then each set again where others came after it."""
        batches = _batches(flows)
        if len(batches) == 1:
            return self._batch(flows, base, bundle, given)
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        loads: list[Floats] = []
        for batch in batches:
            hops[batch] = self._batch(flows.rows(batch), base + sum(loads, np.zeros(len(base))), bundle[batch], given)
            loads.append(heaviest_phases(flows.rows(batch), hops[batch], len(base)))
        if len(batches) <= MAX_SETS_AGAIN:
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
        layers = _layers(flows)
        if len(layers) == 1:
            return self._bundled(flows, base, bundle, given)
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        for layer in layers:
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
        hops = np.full((len(first), MAX_HOPS), NO_LINK, dtype=np.int64)
        for item in np.flatnonzero(known).tolist():
            hops[item] = given[int(key[first[item]])]
        taken = base.copy()
        for column in range(MAX_HOPS):
            on = known & (hops[:, column] >= 0)
            np.add.at(taken, hops[on, column], demand[on])
        hops[~known] = self._layer(flows.rows(first[~known]), demand[~known], taken)
        given |= {int(key[row]): hops[item] for item, row in enumerate(first.tolist()) if key[row] >= 0}
        return np.asarray(hops[member], dtype=np.int64)

    def _layer(self, flows: Flows, demand: Ints, base: Floats) -> Ints:
        """Route flows that are all active at once over a base load."""
        topology = self.topology
        source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
        if not (source != target).any():
            return np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        equal = bool((demand == demand[0]).all())
        coloured = self._coloured(source, target) if equal else None
        if coloured is not None and coloured.optimal and not base.any():
            return coloured.hops
        apart = np.flatnonzero(source != target)
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        demand, source, target = demand[apart], source[apart], target[apart]

        shape, leaves = self._built_shape
        found = None
        if shape is not None:
            found = regular_paths(topology, self.live, shape, leaves, source, target, demand, base)
        if found is None:
            goal = max(lower_bound(topology, self.live, flows.rows(apart)).value, self._fullest(base))
            found = balanced_paths(topology, self.segments, self.live, source, target, demand, base, goal)
        if coloured is not None and self._over(coloured.hops[apart], demand, base) <= self._over(found, demand, base):
            return coloured.hops
        hops[apart] = found
        return hops

    def _coloured(self, source: Ints, target: Ints) -> Coloured | None:
        shape, leaves = self._whole_shape
        if shape is None:
            used = np.zeros(len(self.topology.switch_ids), dtype=np.bool_)
            used[source[source != target]] = used[target[source != target]] = True
            leaves = np.flatnonzero(used)
            shape = shape_of(self.topology, self.live, leaves) if len(leaves) else None
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
    job, phase = flows.job, flows.phase
    if (phase == phase[0]).all() or (job == job[0]).all():
        return [np.arange(len(flows), dtype=np.int64)]
    jobs, member = np.unique(job, return_inverse=True)
    first, last = np.full(len(jobs), np.iinfo(np.int64).max), np.full(len(jobs), np.iinfo(np.int64).min)
    np.minimum.at(first, member, phase)
    np.maximum.at(last, member, phase)
    simple = first == last
    batches = [np.flatnonzero(simple[member])] if simple.any() else []
    return batches + [np.flatnonzero(member == number) for number in np.flatnonzero(~simple).tolist()]


def _layers(flows: Flows) -> list[Ints]:
    """Divide one set into what is active at once: a job's phases, or the whole set of jobs of one phase."""
    job, phase = flows.job, flows.phase
    if (phase == phase[0]).all() or (job != job[0]).any():
        return [np.arange(len(flows), dtype=np.int64)]
    return [np.flatnonzero(phase == one) for one in np.unique(phase)]
