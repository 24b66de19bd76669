"""Choose paths on a fabric that was built as a regular Clos, with any failures and any existing load."""

import numpy as np

from heddle.controller.planner.exact.slots import least_level, slotted
from heddle.controller.planner.ground.clos import NO_LINK, Live
from heddle.controller.planner.ground.grid import FAR, Grid, grid_of, hops_of
from heddle.controller.planner.ground.jit import Floats, Ints
from heddle.controller.planner.ground.shape import Shape
from heddle.controller.planner.search.repair import lower
from heddle.controller.planner.search.spread import GridFlows, put_all, spread
from heddle.controller.planner.search.wander import out_of_reach, wander

CHAIN = 48
"""The maximum length of a chain of ejections."""
ATTEMPTS = 8
"""The rounds of chains tried from one link before it counts as a dead end."""
CLOSE = 0.01
"""Relative distance to the goal at which no further method is tried."""
SAME_SIZE = 0.9
"""Flows of at least this fraction of the largest one are coloured together with it."""
SMALLEST = 0.06
"""Flows below this fraction of the widest link are left to the search."""
MAX_SIZES = 64
FULL_SEARCHES = 16
"""The number of sets of flows whose searches have all the steps and paths below."""
HALVINGS = 4
"""The number of `wander` walks; `MAX_STEPS` and `MAX_PATHS_WALKED` limit each."""
MAX_STEPS = 20_000
MAX_PATHS_WALKED = 8_000_000
MAX_PATHS_SEEN = 40_000_000
"""The maximum number of paths that the search after the first placement evaluates."""


def regular_paths(
    live: Live, shape: Shape, leaves: Ints, source: Ints, target: Ints, demand: Ints, base: Floats, sets: int = 1
) -> Ints | None:  # fmt: skip
    """Route flows between `leaves` (switch numbers) beside the load `base` in bit/s; return their hops.

    `sets` is the number of sets of flows that one plan routes: beyond FULL_SEARCHES, they share the limits of as many
    searches. Returns None where the grid has no path for some flow; `balance` may still find one.
    """
    part = FULL_SEARCHES / max(FULL_SEARCHES, sets)
    row = np.full(len(live.topology.switch_ids), NO_LINK, dtype=np.int64)
    row[leaves] = np.arange(len(leaves))
    start, end = row[source], row[target]
    grid = grid_of(live.topology, live, shape, base)
    goal, none = _goal(grid, start, end, demand), np.full(len(start), -1, dtype=np.int64)
    flows = GridFlows(start, end, demand.astype(np.float64), none, none.copy())
    if demand[0] > 0 and (demand == demand[0]).all():
        flows, worst = _equal(grid, flows, int(demand[0]), goal, part)
    else:
        flows, worst = _unequal(grid, flows, demand, goal, part)
    return hops_of(grid, start, end, flows.column, flows.core) if worst < np.inf else None


def _equal(grid: Grid, flows: GridFlows, demand: int, goal: float, part: float) -> tuple[GridFlows, float]:
    """Return paths for flows of one demand and the largest utilisation; infinity where one has no path."""
    start, end = flows.source, flows.target
    column, core, level = slotted(grid, start, end, demand)
    flows = flows._replace(column=column, core=core)
    if (column >= 0).all():
        return flows, level
    goal = max(goal, level)
    worst = _searched(grid, flows, goal, part)
    if worst > goal * (1 + 1e-9) and goal > 1:
        even = slotted(grid, start, end, demand, even=True)
        other = flows._replace(column=even.column, core=even.core)
        full = _searched(grid, other, goal, part)
        if full < worst:
            flows, worst = other, full
    if goal < worst < np.inf:
        _wander(grid, flows, goal, worst, part)
    return flows, worst


def _unequal(grid: Grid, flows: GridFlows, demand: Ints, goal: float, part: float) -> tuple[GridFlows, float]:
    """Return paths for flows of any demands and the largest utilisation; infinity where one has no path."""
    worst = _searched(grid, flows, goal, part)
    if worst > goal * (1 + CLOSE) and worst < np.inf:
        column, core = _by_size(grid, flows.source, flows.target, demand, goal)
        other = flows._replace(column=column, core=core)
        full = _searched(grid, other, goal, part)
        if full < worst:
            flows, worst = other, full
        if worst > goal * (1 + CLOSE):
            _wander(grid, flows, goal, worst, part)
    return flows, worst


def _wander(grid: Grid, flows: GridFlows, goal: float, worst: float, part: float) -> None:
    """Search by bisection for a lower maximum between `goal` and `worst`; write the paths found to `flows`.

    `part` is the part of the limits that this search may use.
    """
    steps, paths = int(part * MAX_STEPS), int(part * MAX_PATHS_WALKED)
    # Where all demands are multiples of one grain there may be no other value in between.
    limit, grain = goal, float(np.gcd.reduce(flows.demand.astype(np.int64))) * float(grid.inverse.min())
    for _ in range(HALVINGS):
        loaded = grid._replace(load=grid.load.copy())
        put_all(loaded, *flows)
        to = flows._replace(column=flows.column.copy(), core=flows.core.copy())
        above = limit * (1 + 1e-9)
        failed = bool(grid.load.any()) and out_of_reach(grid, flows.source, flows.target, flows.demand, above)
        if failed or wander(loaded, *to, above, steps, paths):
            goal = limit
        else:
            flows.column[:], flows.core[:] = to.column, to.core
            worst = float((loaded.load * loaded.inverse).max())
        if worst <= max(goal * (1 + CLOSE), goal + grain * (1 + 1e-9)):
            return
        limit = (goal + worst) / 2


def _searched(grid: Grid, flows: GridFlows, goal: float, part: float) -> float:
    """Place the flows without a column and improve; return the largest utilisation, infinity where one has no path."""
    grid = grid._replace(load=grid.load.copy())
    put_all(grid, *flows)
    unplaced = np.flatnonzero(flows.column < 0)
    order = unplaced[np.argsort(-flows.demand[unplaced], kind="stable")]
    if spread(grid, *flows, order):
        return np.inf
    return lower(grid, flows, goal, int(part * MAX_PATHS_SEEN), CHAIN, ATTEMPTS)


def _by_size(grid: Grid, start: Ints, end: Ints, demand: Ints, goal: float) -> tuple[Ints, Ints]:
    """Colour flows size by size, the largest first, within `goal`; return column and core, -1 for the others.

    Two flows larger than half a link must not share one, and chains of ejections seldom separate them.
    """
    grid = grid._replace(load=grid.load.copy())
    column, core = np.full(len(start), -1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    order = np.argsort(-demand, kind="stable")
    widest, begin = 1 / grid.inverse.min(), 0
    for _ in range(MAX_SIZES):
        if begin == len(order) or demand[order[begin]] < SMALLEST * goal * widest:
            break
        unit = demand[order[begin]]
        least = min(unit * SAME_SIZE, unit) if 2 * unit < goal * widest else goal * widest / 2
        stop = begin + int(np.searchsorted(-demand[order[begin:]], -least, side="right"))
        some = order[begin:stop]
        column[some], core[some], _ = slotted(grid, start[some], end[some], int(unit), level=goal * (1 + 1e-9))
        put_all(grid, start[some], end[some], demand[some].astype(np.float64), column[some], core[some])
        begin = stop
    return column, core


def _goal(grid: Grid, start: Ints, end: Ints, demand: Ints) -> float:
    """Return a lower bound on the largest utilisation: of each leaf, each pod, and each link with its current load.

    A link takes a multiple of the greatest common divisor of all demands, beside its current load.
    """
    half, first, width = grid.leaves * grid.columns, grid.cores_begin, grid.planes * grid.cores
    sides = [(0, half, grid.columns, start), (half, first, grid.columns, end)]
    apart = np.ones(len(start), dtype=np.bool_)
    if grid.cores:
        middle, pod_a, pod_b = first + grid.pods * width, grid.pod[start], grid.pod[end]
        sides += [(first, middle, width, pod_a), (middle, len(grid.load), width, pod_b)]
        apart = pod_a != pod_b
    best = float((grid.load * np.where(grid.inverse < FAR, grid.inverse, 0.0)).max())
    grain = int(np.gcd.reduce(demand))
    for begin, stop, wide, rows in sides:
        crossing = slice(None) if begin < first else apart
        load, inverse = (part[begin:stop].reshape(-1, wide) for part in (grid.load, grid.inverse))
        total = np.bincount(rows[crossing], weights=demand[crossing].astype(np.float64), minlength=len(load))
        level = least_level(load, inverse, np.rint(total / max(grain, 1)).astype(np.int64), float(max(grain, 1)))
        best = max(best, level) if level < FAR else best
    return best
