"""Choose paths on a fabric that was built regular, whatever has failed since and whatever is on it already."""

import numpy as np

from controller.planner.clos import NO_LINK, Live, Topology
from controller.planner.grid import FAR, Grid, grid_of, hops_of
from controller.planner.jit import Floats, Ints
from controller.planner.repair import lower, put_all, spread
from controller.planner.shape import Shape
from controller.planner.slots import slotted

CHAIN = 48
"""The longest chain of ejections."""
ATTEMPTS = 8
"""How often chains are looked for from one link before it counts as a dead end."""
MOST_PATHS_SEEN = 40_000_000
"""What the search after the first placement may look at."""


def regular_paths(
    topology: Topology, live: Live, shape: Shape, leaves: Ints, source: Ints, target: Ints, demand: Ints, base: Floats
) -> Ints | None:
    """Route flows between `leaves` (given as switches) over what is left beside `base`; return their hops.

    None where the grid has no path for some flow: a drawn one may.
    """
    row = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    row[leaves] = np.arange(len(leaves))
    start, end, wanted = row[source], row[target], demand.astype(np.float64)
    grid = grid_of(topology, live, shape, base)
    goal = _fullest_cut(grid, start, end, wanted)
    column, core = np.full(len(start), -1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    if demand[0] > 0 and (demand == demand[0]).all():
        column, core, level = slotted(grid, start, end, int(demand[0]))
        if (column >= 0).all():
            return hops_of(grid, start, end, column, core)
        goal = max(goal, level)
    put_all(grid, start, end, wanted, column, core)
    waiting = np.flatnonzero(column < 0)
    order = waiting[np.argsort(-demand[waiting], kind="stable")]
    if spread(grid, start, end, wanted, order, column, core):
        return None
    lower(grid, start, end, wanted, column, core, goal, MOST_PATHS_SEEN, CHAIN, ATTEMPTS)
    return hops_of(grid, start, end, column, core)


def _fullest_cut(grid: Grid, start: Ints, end: Ints, demand: Floats) -> float:
    """Return what no plan can beat: the fullest leaf or pod, others' load counted, the fullest link as it is."""
    capacity = np.where(grid.inverse < FAR, 1 / grid.inverse, 0.0)
    half, first, width = grid.leaves * grid.columns, grid.cores_begin, grid.planes * grid.cores
    sides = [(0, half, grid.columns, start), (half, first, grid.columns, end)]
    apart = np.ones(len(start), dtype=np.bool_)
    if grid.cores:
        middle, pod_a, pod_b = first + grid.pods * width, grid.pod[start], grid.pod[end]
        sides += [(first, middle, width, pod_a), (middle, len(grid.load), width, pod_b)]
        apart = pod_a != pod_b
    best = float((grid.load * np.where(grid.inverse < FAR, grid.inverse, 0.0)).max())
    for begin, stop, wide, rows in sides:
        crossing = slice(None) if begin < first else apart
        room = capacity[begin:stop].reshape(-1, wide).sum(axis=1)
        new = np.bincount(rows[crossing], weights=demand[crossing], minlength=len(room))
        total = new + grid.load[begin:stop].reshape(-1, wide).sum(axis=1)
        some = (new > 0) & (room > 0)
        best = max(best, float((total[some] / room[some]).max(initial=0.0)))
    return best
