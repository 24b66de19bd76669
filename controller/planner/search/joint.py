"""Improve the paths of a priority: all jobs and phases together, then as few slowed flows as possible."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.grid import FAR
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, Rows, kernel
from heddle.controller.planner.ground.loads import heaviest_phases, layers_of
from heddle.controller.planner.ground.paths import packed
from heddle.controller.planner.ground.segments import LoadedNet, Segments
from heddle.controller.planner.search.fullest import fullest_beside, slowed_beside
from heddle.controller.planner.search.layers import GUARD, Higher, Phased, phased
from heddle.controller.planner.search.moving import Moving
from heddle.controller.planner.search.on_link import Lists
from heddle.controller.planner.search.relax import FULL, ROUNDING, Goal, even_out, place, relax
from heddle.controller.planner.search.slowed import CROWD, TALLY, Crowded, slow_fewer

CLOSE = 0.001
"""Relative distance to the goal at which the search for a lower maximum ends."""
HALVINGS = 6
MAX_MOVES = 20_000
MAX_PATHS = 12_000_000
"""Limits of each search for a lower maximum: moves made, and paths evaluated."""
MAX_PATHS_SETTLED = 1_000_000
PATIENCE, PATIENCE_SETTLED = 6_000, 200
"""The number of moves without an improvement after which a search ends."""
MAX_PATHS_HALVED, PATIENCE_HALVED = 2_000_000, 1_000
"""Limits of all searches of `halved` together."""
MAX_PATHS_SLOWED, PATIENCE_SLOWED = 50_000, 20_000
"""Limits of each search for few slowed flows: paths evaluated, which cost more than those of the other searches, in all
and without an improvement."""
MAX_SWEEPS, MAX_PATHS_EVENED = 5, 2_000_000
"""Limits of the search for evenly used links: sweeps over the flows, and paths evaluated."""
EQUAL, MIXED = np.array((FULL, FULL)), np.array((3.0, 1.0))
"""The searches for few slowed flows of equal and of mixed demands: what a link above the maximum costs in each.

Mixed demands leave little room below the maximum, so their search may pass it for a while."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joint:
    """Flows between leaves that are planned together, beside the load `base` of others in bit/s per link.

    Flows of the priorities in `higher` move too, but not to their loss.
    """

    topology: Topology
    live: Live
    segments: Segments
    flows: Flows
    layer: Ints
    empty: Phased
    base: Floats
    higher: Higher

    @staticmethod
    def of(
        topology: Topology, live: Live, segments: Segments, flows: Flows, base: Floats,
        higher: Higher | None = None,
    ) -> "Joint | None":  # fmt: skip
        """Return the search for these flows; None where their phases take too much memory."""
        found = phased(layers_of(flows), 2 * topology.cables)
        if found is None:
            return None
        layer, empty = found
        return Joint(
            topology=topology, live=live, segments=segments, flows=flows, layer=layer, empty=empty, base=base,
            higher=above(np.zeros(len(flows), np.int64), np.empty((0, 2 * topology.cables)), np.empty((0, 1)))
            if higher is None else higher,
        )  # fmt: skip

    def placed(self, hops: Ints, order: Ints) -> Ints:
        """Return `hops` with a path for each flow of `order`, one after the other, where its links stay emptiest.

        Flows between NICs of one leaf have no path to choose, and are left out.
        """
        leaf = self.topology.nic_leaf
        order = order[(leaf[self.flows.src_nic] != leaf[self.flows.dst_nic])[order]]
        net, loads, moving = self._begin(hops, np.ones(len(hops), dtype=np.bool_))
        no_limit = Goal(limit=np.inf, cap=np.inf, by_flow=False, in_phase=1.0)
        relax(net, loads, moving, no_limit, 0, 0, 0)  # no search: it enters the flows into the loads
        place(net, loads, moving, order)
        return packed(moving.hops)

    def lowered(self, hops: Ints, goal: float, free: Flags) -> Ints:
        """Return paths with a lower maximum where the search finds them; it stops at `goal`.

        On the way it may break the limits of higher priorities, but the result keeps them.
        """
        worst, limit, start, paths = self.fullest(hops), goal, hops, MAX_PATHS
        for _ in range(HALVINGS):
            if worst <= goal * (1 + CLOSE) or paths <= 0:
                break
            net, loads, moving = self._begin(start, free)
            wanted = Goal(limit=limit, cap=np.inf, by_flow=False, in_phase=1.0)
            missed, paths = relax(net, loads, moving, wanted, MAX_MOVES, paths, PATIENCE)
            start = packed(moving.hops)
            full = self.fullest(start)
            if full < worst and _kept(net, moving):
                hops, worst = start, full
            if missed:
                goal = limit
            limit = (goal + worst) / 2
        return hops

    def halved(self, hops: Ints, goal: float, times: int = 1) -> Ints:
        """Return paths with a lower maximum, by less work than `lowered`: each search is for half the way to `goal`.

        The limits of the searches are so many `times` as large.
        """
        worst, free = self.fullest(hops), np.ones(len(hops), dtype=np.bool_)
        paths = most = MAX_PATHS_HALVED * times
        for _ in range(HALVINGS):
            if worst <= goal * (1 + CLOSE) or paths <= 0:
                break
            net, loads, moving = self._begin(hops, free)
            limit, part = (goal + worst) / 2, min(paths, most * 3 // 10)
            wanted = Goal(limit=limit, cap=np.inf, by_flow=False, in_phase=1.0)
            missed, left = relax(net, loads, moving, wanted, MAX_MOVES, part, PATIENCE_HALVED * times)
            found, paths = packed(moving.hops), paths - part + left
            full = self.fullest(found)
            if full < worst:
                hops, worst = found, full
            if missed:
                goal = limit
        return hops

    def settled(self, hops: Ints, free: Flags) -> Ints:
        """Return paths of the same largest utilisation on which fewer flows are slowed."""
        worst = self.fullest(hops)
        if worst <= 1:
            return hops
        net, loads, moving = self._begin(hops, free)
        goal = Goal(limit=1.0, cap=worst * (1 + 1e-9), by_flow=True, in_phase=1.0)
        relax(net, loads, moving, goal, MAX_MOVES, MAX_PATHS_SETTLED, PATIENCE_SETTLED)
        return packed(moving.hops)

    def slowed_least(self, hops: Ints, free: Flags) -> Ints:
        """Return paths of no larger maximum on which fewer flows have a fair share below their demand.

        Where jobs have several phases, or higher priorities move too, the paths stay as they are. So they do where the
        search is too short to try the paths of one flow of each link over 1: of so many slowed flows it saves few.
        """
        if len(self.empty.job) or len(self.higher.guard):
            return hops
        use = self._utilisation(hops)
        over, choices = np.count_nonzero(use > 1 + ROUNDING), np.diff(self.segments.start).max()
        if over == 0 or over * choices > MAX_PATHS_SLOWED:
            return hops
        demand = self.flows.demand_bps
        penalties = EQUAL if (demand == demand[0]).all() else MIXED
        net, _, moving = self._begin(hops, free)
        links, count = len(net.load), len(hops)
        crowded = Crowded(
            moving.source, moving.target, moving.demand, free, moving.hops, moving.lists,
            np.zeros(count, np.int64), moving.until, np.zeros(links, CROWD), np.empty(links, np.int64),
            np.zeros(1, TALLY), _fullest(use, hops) * (1 + ROUNDING),
        )  # fmt: skip
        slow_fewer(net, crowded, penalties, MAX_MOVES, MAX_PATHS_SLOWED, PATIENCE_SLOWED)
        return packed(crowded.hops)

    def evened(self, hops: Ints, free: Flags) -> Ints:
        """Return paths of no larger maximum whose links are more evenly used."""
        cap = self.fullest(hops) * (1 + ROUNDING)
        net, loads, moving = self._begin(hops, free)
        even_out(net, loads, moving, cap, MAX_SWEEPS, MAX_PATHS_EVENED)
        return packed(moving.hops)

    def fullest(self, hops: Ints) -> float:
        """Return the largest utilisation of the links that these paths use."""
        if len(self.empty.job):
            return _fullest(self._utilisation(hops), hops)
        return fullest_beside(hops, self.flows.demand_bps, self.base, self.topology.capacity)

    def slowed(self, hops: Ints) -> int:
        """Return the number of flows on links over 1."""
        if not len(self.empty.job):
            return slowed_beside(hops, self.flows.demand_bps, self.base, self.topology.capacity, 1 + ROUNDING)
        over = np.append(self._utilisation(hops) > 1 + ROUNDING, False)  # the padding, -1, reads the last
        return int(over[hops].any(axis=1).sum())

    def no_fuller(self, hops: Ints, beside: Ints) -> bool:
        """Return whether paths give every flow between leaves a path, and no larger maximum than other paths."""
        return bool(((hops[:, 0] >= 0) == (beside[:, 0] >= 0)).all()) and (
            self.fullest(hops) <= self.fullest(beside) * (1 + ROUNDING)
        )

    def _utilisation(self, hops: Ints) -> Floats:
        links = 2 * self.topology.cables
        loads = heaviest_phases(self.flows, hops, links) + self.base[:links]
        return np.asarray(loads / np.maximum(self.topology.capacity[:links], 1))

    def _begin(self, hops: Ints, free: Flags) -> tuple[LoadedNet, Phased, Moving]:
        links, s = 2 * self.topology.cables, self.segments
        if self.live not in _inverses:
            _inverses[self.live] = _inverse(self.topology, self.live)
        inverse = _inverses[self.live]
        load = np.where(inverse < FAR, self.base[:links], 0.0)
        net = LoadedNet(
            s.start, s.first, s.second, s.top, s.middle, s.below, s.below_row, self.topology.cables, load, inverse
        )
        loads = Phased(np.zeros_like(self.empty.amount), self.empty.job, self.empty.begin, np.zeros(links, np.int64))
        leaf, flows, count = self.topology.nic_leaf, self.flows, len(hops)
        lists = Lists(np.full(links, -1), np.full(4 * count, -1), np.full(4 * count, -1))
        moving = Moving(
            leaf[flows.src_nic], leaf[flows.dst_nic], flows.demand_bps.astype(np.float64), self.layer, free,
            hops.copy(), np.zeros(count, dtype=np.int64), lists,
            self.higher._replace(guard=self.higher.guard.copy()),
        )  # fmt: skip
        return net, loads, moving


_inverses: WeakKeyDictionary[Live, Floats] = WeakKeyDictionary()
"""One over the rate of each link between switches, by the live links: kernels only read it."""


def _inverse(topology: Topology, live: Live) -> Floats:
    """Return one over the rate of each link between switches, FAR for one that carries nothing."""
    capacity = topology.capacity[: 2 * topology.cables].astype(np.float64)
    usable = live.links[: len(capacity)] & (capacity > 0)
    return np.where(usable, 1 / np.where(usable, capacity, 1.0), FAR)


@kernel
def _fullest(use: Floats, hops: Ints) -> float:
    """Return the largest utilisation of the links of these paths."""
    fullest = 0.0
    for f in range(hops.shape[0]):
        for step in range(hops.shape[1]):
            if hops[f, step] >= 0:
                fullest = max(fullest, use[hops[f, step]])
    return fullest


def _kept(net: LoadedNet, moving: Moving) -> bool:
    """Return whether the limits of all higher priorities are kept."""
    guard = moving.higher.guard
    return not ((guard["flows"] > 0) & (guard["load"] * net.inverse > guard["limit"])).any()


def above(row: Ints, load: Floats, limit: Floats) -> Higher:
    """Return the priorities above the one that is planned, before their flows are entered; see `Higher`.

    `limit` is by priority and link, or has one column for all links.
    """
    guard: Rows = np.zeros(load.shape, dtype=GUARD)
    guard["load"], guard["limit"] = load, limit
    return Higher(row, guard)
