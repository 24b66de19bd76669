"""Choose the path of every flow: which flows are planned together, in which order, by which method.

Priorities are planned from the highest down, each beside the load of the higher ones; then flows of the higher ones
make room for it, where these keep the maximum that they have without it. Flows that run at the same time are planned
exactly (edge colouring) where the fabric is regular and the demands are equal, else by search; where both apply, the
lower maximum wins. Where several jobs have phases, a plan by jobs and one by phases are improved by a search over all
of them, and the better one stays. Then flows move so that as few as possible are slowed. Last, where one priority is
planned beside other load, the phases of a job move to the same links, so that others stay empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from heddle.controller.model.health import Health
from heddle.controller.planner.exact.equal import Coloured, coloured_paths
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.loads import heaviest_phases, layers_of
from heddle.controller.planner.ground.segments import Segments, segments_of
from heddle.controller.planner.ground.shape import Shape, shape_of
from heddle.controller.planner.proof.bound import lower_bound
from heddle.controller.planner.search.balance import balanced_paths
from heddle.controller.planner.search.fullest import fullest_beside
from heddle.controller.planner.search.joint import Joint, above
from heddle.controller.planner.search.regular import regular_paths

MAX_SETS_AGAIN = 64
"""The number of sets above which each is routed once only, so that the work stays linear."""
ROUNDS_AGAIN = 2
MAX_GREEDY = 400_000
"""The limit of flows times paths of a leaf for a second start by a greedy, which takes some 20 ms."""
ROUNDING = 1e-9
"""Sums of demands, each rounded to a whole bit/s, differ by this much without a reason."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Router:
    """Routes flows over the live links of a fabric.

    In its methods, `bundle` is a number for each flow: flows of the same number must take the same path (pins by
    addresses), and -1 stands for none. `given` maps the number of a bundle that is already routed to its hops.
    """

    topology: Topology
    live: Live
    plane: int | None = None
    """The plane that all its flows are in, where there are several; `whole` is then the router of the fabric."""
    whole: "Router | None" = None

    @cached_property
    def planes(self) -> tuple["Router", ...]:
        """Return a router for each plane of the fabric; itself alone where there is one."""
        count = 1 if self.whole else 1 + int(self.topology.plane.max(initial=0))
        return (self,) if count == 1 else tuple(replace(self, plane=each, whole=self) for each in range(count))

    @cached_property
    def segments(self) -> Segments:
        """Return the live segments of all leaves, computed on first use."""
        return segments_of(self.topology, self.live) if self.whole is None else self.whole.segments

    @cached_property
    def _leaves(self) -> Ints:
        leaves = np.flatnonzero(self.topology.tier == 0)
        return leaves if self.plane is None else leaves[self.topology.plane[leaves] == self.plane]

    @cached_property
    def _whole_shape(self) -> tuple[Shape | None, Ints]:
        """Return the shape of the fabric with its failures, None if irregular, and the leaves."""
        return shape_of(self.topology, self.live, self._leaves), self._leaves

    @cached_property
    def _built_shape(self) -> tuple[Shape | None, Ints]:
        """Return the shape of the fabric without failures, None if irregular, and the leaves."""
        if self.live.whole:
            return self._whole_shape
        return shape_of(self.topology, Live.of(self.topology, Health()), self._leaves), self._leaves

    def route(
        self, flows: Flows, priority: Ints, base: Sequence[tuple[int, Floats]], bundle: Ints, given: dict[int, Ints]
    ) -> Ints:
        """Return the hops of every flow; a row of -1 between two leaves is a flow without a path.

        `priority` is the priority of each flow's job. `base` is the load in bit/s of jobs that keep their paths, by
        priority. `bundle` is -1 for a flow that shares no path.
        """
        if not len(flows):
            return np.empty((0, MAX_HOPS), dtype=np.int64)
        if len(self.planes) > 1:
            return self._each_plane(flows, priority, base, bundle, given)
        links = 2 * self.topology.cables
        # Load on a dead link belongs to jobs that wait for new paths: it must not hide the maximum of live links.
        base = [(level, np.where(self.live.links[:links], load[:links], 0.0)) for level, load in base]
        if (priority == priority[0]).all():
            return self._beside(flows, priority, base, bundle, given, np.empty((0, MAX_HOPS), dtype=np.int64))
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        for level in sorted(set(priority.tolist()), reverse=True):
            rows = np.flatnonzero(priority >= level)
            placed = hops[rows[priority[rows] > level]]
            hops[rows] = self._beside(flows.rows(rows), priority[rows], base, bundle[rows], given, placed)
            keyed = rows[bundle[rows] >= 0]
            given = given | dict(zip(bundle[keyed].tolist(), hops[keyed], strict=True))
        return hops

    def _each_plane(
        self, flows: Flows, priority: Ints, base: Sequence[tuple[int, Floats]], bundle: Ints, given: dict[int, Ints]
    ) -> Ints:  # fmt: skip
        """Route the flows of each plane as those of a fabric: no flow and no link is in two."""
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        at, plane = self.topology.plane[self.topology.nic_leaf[flows.src_nic]], self.topology.plane[self.topology.lower]
        for number, router in enumerate(self.planes):
            rows, own = np.flatnonzero(at == number), np.tile(plane == number, 2)
            beside = [(level, np.where(own, load[: len(own)], 0.0)) for level, load in base]
            hops[rows] = router.route(flows.rows(rows), priority[rows], beside, bundle[rows], given)
        return hops

    def _beside(
        self, flows: Flows, priority: Ints, base: Sequence[tuple[int, Floats]], bundle: Ints, given: dict[int, Ints],
        placed: Ints,
    ) -> Ints:  # fmt: skip
        """Return the hops of all flows: the lowest priority has none yet; `placed` are the paths of the others."""
        level = int(priority.min())
        total = sum((load for _, load in base), np.zeros(2 * self.topology.cables))
        higher = sum((load for other, load in base if other >= level), np.zeros(len(total)))
        lowest, rest, found = np.flatnonzero(priority == level), np.flatnonzero(priority > level), []
        # Lower priorities must not make the result of a higher one worse: their load may only break ties.
        for load in (total, higher) if (total != higher).any() else (total,):
            if not len(rest):
                alone = self._level(flows, load, bundle, dict(given))
                found.append(self.evened(flows, alone, load, bundle < 0) if load.any() else alone)
                continue
            hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
            taken = load + heaviest_phases(flows.rows(rest), placed, len(load))
            hops[rest], hops[lowest] = placed, self._level(flows.rows(lowest), taken, bundle[lowest], dict(given))
            found.append(self._made_room(flows, hops, priority, base, load, bundle < 0))
        if len(found) > 1:
            only, beside = np.array([level]), higher[None]
            found.sort(key=lambda hops: self._ranks(flows, hops, priority, only, beside)[0].tolist())
        return found[0]

    def _made_room(
        self, flows: Flows, hops: Ints, priority: Ints, base: Sequence[tuple[int, Floats]], load: Floats, free: Flags
    ) -> Ints:  # fmt: skip
        """Move flows of higher priorities, too, for a lower maximum of the lowest, where they do not lose by it.

        A plan of a higher priority does not see which of its equal choices leaves room for the lower ones.
        """
        levels = np.unique(priority)[:0:-1]
        loads = np.array([sum((load for at, load in base if at >= level), np.zeros(len(load))) for level in levels])
        ranks = self._ranks(flows, hops, priority, levels, loads)
        goal = max(lower_bound(self.topology, self.live, flows).value, self._fullest(load), ranks[:, 0].max())
        row = np.searchsorted(-levels, -priority)
        use = self._use(flows, hops, priority, levels, loads)
        # With the second limit no link has more load of a higher priority above 1 than now.
        for limit in (ranks[:, :1], np.maximum(np.minimum(ranks[:, :1], 1.0), use)):
            higher = above(row, loads, limit * (1 + ROUNDING))
            joint = Joint.of(self.topology, self.live, self.segments, flows, load, higher)
            if joint is None or joint.fullest(hops) <= goal:
                return hops
            found = joint.settled(joint.lowered(hops, goal, free), free)
            more = self._ranks(flows, found, priority, levels, loads) - ranks
            # What a priority gets must not depend on lower ones, not even for the better.
            if (abs(more[:, 0]) <= ranks[:, 0] * ROUNDING).all() and (more[:, 1] <= len(load) * ROUNDING).all():
                return found
        return hops

    def _ranks(self, flows: Flows, hops: Ints, priority: Ints, levels: Ints, bases: Floats) -> Floats:
        """Return a row for each level: the largest utilisation of the links that it uses, and the sum of excess over 1.

        Flows of lower priorities do not count. `bases` is the load beside each level.
        """
        found = np.empty((len(levels), 2))
        for row, use in enumerate(self._use(flows, hops, priority, levels, bases)):
            own = hops[priority == levels[row]]
            used = use[np.unique(own[own >= 0])]
            found[row] = used.max(initial=0.0), np.maximum(used - 1, 0).sum()
        return found

    def _use(self, flows: Flows, hops: Ints, priority: Ints, levels: Ints, bases: Floats) -> Floats:
        """Return a row for each level: the utilisation of links by flows of that priority and higher ones."""
        parts = [np.flatnonzero(priority >= level) for level in levels.tolist()]
        loads = [heaviest_phases(flows.rows(part), hops[part], bases.shape[1]) for part in parts]
        return np.asarray((np.array(loads) + bases) / np.maximum(self.topology.capacity[: bases.shape[1]], 1))

    def evened(self, flows: Flows, hops: Ints, base: Floats, free: Flags) -> Ints:
        """Return paths of no larger maximum on which the phases of jobs use links more evenly.

        Flows that are not `free` keep their paths, and so do all where no job has several phases.
        """
        if (flows.phase == flows.phase[0]).all():
            return hops
        joint = Joint.of(self.topology, self.live, self.segments, flows, base)
        return hops if joint is None else joint.evened(hops, free)

    def _level(self, flows: Flows, base: Floats, bundle: Ints, given: dict[int, Ints]) -> Ints:
        """Route the flows of one priority: the lowest maximum first, then as few slowed flows as possible."""
        batches, free = _batches(flows), bundle < 0
        hops = self._by_job(flows, batches, base, bundle, given)
        worst = self._fullest(base + heaviest_phases(flows, hops, len(base)))
        goal = max(lower_bound(self.topology, self.live, flows).value, self._fullest(base)) if len(batches) > 1 else 1.0
        if worst <= goal or (hops[:, 0] < 0).all():
            return hops
        joint = Joint.of(self.topology, self.live, self.segments, flows, base)
        if joint is None:
            return hops
        if len(batches) > 1:
            hops = joint.lowered(hops, goal, free)
            if free.all() and joint.fullest(hops) > goal:
                other = joint.lowered(self.by_phase(flows, joint, base), goal, free)
                hops = other if joint.fullest(other) < joint.fullest(hops) else hops
        hops = joint.settled(hops, free)
        if len(batches) == 1 and free.all() and joint.slowed(hops):
            for start in self._starts(flows, joint):
                other = joint.settled(start, free)
                if joint.no_fuller(other, hops) and joint.slowed(other) < joint.slowed(hops):
                    hops = other
        return joint.slowed_least(hops, free)

    def _starts(self, flows: Flows, joint: Joint) -> Iterator[Ints]:
        """Yield other paths to start from: after failures the ones of the whole fabric, repaired, then a greedy's."""
        empty = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        source, target = self.topology.nic_leaf[flows.src_nic], self.topology.nic_leaf[flows.dst_nic]
        order = np.argsort(-flows.demand_bps, kind="stable")
        shape, leaves = self._built_shape
        if not self.live.whole and shape is not None and (flows.demand_bps == flows.demand_bps[0]).all():
            built = coloured_paths(self.topology, shape, leaves, source, target)
            if built is not None:
                dead = np.asarray(((built.hops >= 0) & ~self.live.links[built.hops]).any(axis=1), dtype=np.bool_)
                yield joint.placed(np.where(dead[:, None], NO_LINK, built.hops), order[dead[order]])
        if len(flows) * len(self.segments.first) <= MAX_GREEDY * len(leaves):
            yield joint.placed(empty, order)

    def by_phase(self, flows: Flows, joint: Joint, base: Floats) -> Ints:
        """Route the phase of the largest flows of every job as one set, then the other phases beside these."""
        first, order = _coarsest_phases(flows)
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        hops[first] = self._layer(flows.rows(first), flows.demand_bps[first], base)
        return joint.placed(hops, order)

    def _by_job(
        self, flows: Flows, batches: list[Ints], base: Floats, bundle: Ints, given: dict[int, Ints]
    ) -> Ints:  # fmt: skip
        """Route set by set, then each set again beside the sets after it."""
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
        """Route each set again beside all others, and keep what lowers the fullest link."""
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
        """Route one set; its layers never run at the same time, so each is routed beside the same base load."""
        layers = _layers(flows)
        if len(layers) == 1:
            return self._bundled(flows, base, bundle, given)
        hops = np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64)
        known: dict[bytes, Ints] = {}
        for layer in layers:
            part = flows.rows(layer)
            # A training job repeats its phases: equal ones are routed once.
            columns = (part.src_nic, part.dst_nic, part.demand_bps, bundle[layer])
            key = b"".join(column.tobytes() for column in columns)
            if key not in known:
                known[key] = self._bundled(part, base, bundle[layer], given, len(layers))
            hops[layer] = known[key]
        return hops

    def _fullest(self, loads: Floats) -> float:
        """Return the largest utilisation of links with these loads."""
        return float((loads / np.maximum(self.topology.capacity[: len(loads)], 1)).max(initial=0.0))

    def _bundled(
        self, flows: Flows, base: Floats, bundle: Ints, given: dict[int, Ints], layers: int = 1
    ) -> Ints:  # fmt: skip
        """Route one of several layers, with the flows of each bundle as one flow."""
        if (bundle < 0).all():
            return self._layer(flows, flows.demand_bps, base, layers)
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
        hops[~known] = self._layer(flows.rows(first[~known]), demand[~known], taken, layers)
        given |= {int(key[row]): hops[item] for item, row in enumerate(first.tolist()) if key[row] >= 0}
        return np.asarray(hops[member], dtype=np.int64)

    def _layer(self, flows: Flows, demand: Ints, base: Floats, layers: int = 1) -> Ints:
        """Route flows that are all active at once beside a base load; `layers` share the limits of the search."""
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
            found = regular_paths(self.live, shape, leaves, source, target, demand, base, layers)
        if found is None:
            goal = max(lower_bound(topology, self.live, flows.rows(apart)).value, self._fullest(base))
            found = balanced_paths(topology, self.segments, self.live, source, target, demand, base, goal)
        if coloured is not None and self._over(coloured.hops[apart], demand, base) <= self._over(found, demand, base):
            return coloured.hops
        hops[apart] = found
        return hops

    def _coloured(self, source: Ints, target: Ints) -> Coloured | None:
        """Return the paths of equal flows by colouring; None where the fabric of their leaves is irregular."""
        shape, leaves = self._whole_shape
        if shape is None:
            used = np.zeros(len(self.topology.switch_ids), dtype=np.bool_)
            used[source[source != target]] = used[target[source != target]] = True
            leaves = np.flatnonzero(used)
            shape = shape_of(self.topology, self.live, leaves) if len(leaves) else None
        return None if shape is None else coloured_paths(self.topology, shape, leaves, source, target)

    def _over(self, hops: Ints, demand: Ints, base: Floats) -> float:
        """Return the largest utilisation with these flows on top of a base load."""
        return fullest_beside(hops, demand, base, self.topology.capacity, self._fullest(base))


def _batches(flows: Flows) -> list[Ints]:
    """Divide flows into sets that are planned in order: all jobs of one phase together, then each other job."""
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


def _coarsest_phases(flows: Flows) -> tuple[Ints, Ints]:
    """Return the flows of the phase of the largest flows of each job, and the others, the coarser and larger first."""
    layers = layers_of(flows)
    count = len(layers.job)
    largest = np.zeros(count, dtype=np.int64)
    np.maximum.at(largest, layers.of_flow, flows.demand_bps)
    total = np.bincount(layers.of_flow, weights=flows.demand_bps, minlength=count)
    order = np.lexsort((-total, -largest, layers.job))
    job = layers.job[order]
    begins = np.flatnonzero(np.concatenate(([True], job[1:] != job[:-1])))
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count) - np.repeat(begins, np.diff(np.append(begins, count)))
    turn = rank[layers.of_flow]
    order = np.lexsort((-flows.demand_bps, turn))
    return np.flatnonzero(turn == 0), order[turn[order] > 0]


def _layers(flows: Flows) -> list[Ints]:
    """Divide a set into layers of flows that are active at once: the phases of a job, or the set of one-phase jobs."""
    job, phase = flows.job, flows.phase
    if (phase == phase[0]).all() or (job != job[0]).any():
        return [np.arange(len(flows), dtype=np.int64)]
    return [np.flatnonzero(phase == one) for one in np.unique(phase)]
