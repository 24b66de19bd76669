"""Choose paths on a fabric that was built regular, whatever has failed since and whatever is on it already."""

from collections.abc import Callable

import numpy as np

from controller.planner.clos import NO_LINK, Live, Topology
from controller.planner.grid import grid_of, hops_of
from controller.planner.jit import Floats, Ints
from controller.planner.repair import lower, put_all, spread
from controller.planner.shape import Shape
from controller.planner.slots import slotted

CHAIN = 48
"""The longest chain of ejections."""
MOST_PATHS_SEEN = 40_000_000
"""What the search after the first placement may look at."""


def regular_paths(
    topology: Topology, live: Live, shape: Shape, leaves: Ints, source: Ints, target: Ints, demand: Ints, base: Floats,
    bound: Callable[[], float],
) -> Ints | None:  # fmt: skip
    """Route flows between `leaves` (given as switches) over what is left beside `base`; return their hops.

    `bound` is asked for only where it is needed. None where the grid has no path for some flow: a drawn one may.
    """
    row = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    row[leaves] = np.arange(len(leaves))
    start, end, wanted = row[source], row[target], demand.astype(np.float64)
    grid = grid_of(topology, live, shape, base)
    equal = bool((demand == demand[0]).all())
    if equal and demand[0] > 0:
        column, core = slotted(grid, start, end, int(demand[0]))
        if (column >= 0).all():
            return hops_of(grid, start, end, column, core)
    else:
        column, core = np.full(len(start), -1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    put_all(grid, start, end, wanted, column, core)
    waiting = np.flatnonzero(column < 0)
    order = waiting[np.argsort(-demand[waiting], kind="stable")]
    if spread(grid, start, end, wanted, order, column, core):
        return None
    lower(grid, start, end, wanted, column, core, bound(), MOST_PATHS_SEEN, CHAIN)
    return hops_of(grid, start, end, column, core)
