"""Route equal demands where links are missing, uneven or loaded, by colouring with slots.

At utilisation T a link has floor((T capacity - base) / demand) slots. The least T at which every leaf and every pod
has a slot for each of its flows is a bound on any plan (the flows of a leaf cannot be split); where all flows find a
colour within these slots the plan meets it.
"""

import numpy as np

from controller.planner.exact.colouring import colour_slots
from controller.planner.jit import Floats, Ints, kernel
from controller.planner.search.grid import Grid


@kernel
def least_level(load: Floats, inverse: Floats, degree: Ints, unit: float) -> float:
    """Return the least utilisation at which every row of links has a slot per flow; 1e30 where a row has no link."""
    level, columns = 0.0, load.shape[1]
    for x in range(load.shape[0]):
        low, high, base, widest = level, 0.0, 0.0, 0.0
        for c in range(columns):
            if inverse[x, c] < 1e20:
                base = max(base, load[x, c] * inverse[x, c])
                widest = max(widest, 1 / inverse[x, c])
        if degree[x] == 0:
            continue
        if widest == 0.0:
            return 1e30
        high = base + degree[x] * unit / widest
        if high <= low or _slots_of(load[x], inverse[x], unit, low) >= degree[x]:
            continue
        for _ in range(60):
            middle = (low + high) / 2
            if _slots_of(load[x], inverse[x], unit, middle) >= degree[x]:
                high = middle
            else:
                low = middle
        level = high
    return level


@kernel
def _slots_on(load: float, inverse: float, unit: float, level: float) -> int:
    """Return the number of flows of `unit` bit/s that fit on a link at a utilisation of `level`."""
    # The level is a rounded quotient: a billionth of a slot compensates.
    return 0 if inverse > 1e20 else max(0, int(np.floor((level / inverse - load) / unit + 1e-9)))


@kernel
def _slots_of(load: Floats, inverse: Floats, unit: float, level: float) -> int:
    """Return the number of slots of a row of links."""
    total = 0
    for c in range(load.shape[0]):
        total += _slots_on(load[c], inverse[c], unit, level)
    return total


@kernel
def _slots_at(load: Floats, inverse: Floats, unit: float, level: float, limit: int) -> Ints:
    """Return the slots of each link of a table, at most `limit`."""
    slots = np.zeros(load.shape, np.int64)
    for x in range(load.shape[0]):
        for c in range(load.shape[1]):
            slots[x, c] = min(limit, _slots_on(load[x, c], inverse[x, c], unit, level))
    return slots


def slotted(grid: Grid, start: Ints, end: Ints, unit: int, level: float = 0.0) -> tuple[Ints, Ints, float]:
    """Return column and core of equal flows between leaf rows, and the level T of the slots: the least, or `level`.

    The column is -1 for a flow without a slot; where every flow has one, the largest utilisation is optimal.
    """
    half, first = grid.leaves * grid.columns, grid.cores_begin
    sides = [_side(grid, 0, half, grid.columns), _side(grid, half, first, grid.columns)]
    degrees = [np.bincount(rows, minlength=grid.leaves) for rows in (start, end)]
    given = level > 0
    if not given:
        level = max(_level(side, degree, unit) for side, degree in zip(sides, degrees, strict=True))
    across = np.flatnonzero(grid.pod[start] != grid.pod[end])
    pod_a, pod_b = grid.pod[start[across]], grid.pod[end[across]]
    if grid.cores:
        width, middle = grid.planes * grid.cores, first + grid.pods * grid.planes * grid.cores
        pods = [_side(grid, first, middle, width), _side(grid, middle, len(grid.load), width)]
        ends = [np.bincount(rows, minlength=grid.pods) for rows in (pod_a, pod_b)]
        if not given:
            level = max(level, *(_level(side, degree, unit) for side, degree in zip(pods, ends, strict=True)))
    core = np.full(len(start), -1, dtype=np.int64)
    if level >= 1e20:
        return core.copy(), core, 0.0
    left, right = (_slots_at(load, inverse, float(unit), level, len(start)) for load, inverse in sides)
    column = colour_slots(start, end, left, right)
    if grid.cores:
        up, down = (_slots_at(load, inverse, float(unit), level, len(start)) for load, inverse in pods)
        plane = np.where(column[across] >= 0, grid.plane_of[column[across]], -1)
        for number in range(grid.planes):
            some = np.flatnonzero(plane == number)
            cores = slice(number * grid.cores, (number + 1) * grid.cores)
            slots = (np.ascontiguousarray(up[:, cores]), np.ascontiguousarray(down[:, cores]))
            core[across[some]] = colour_slots(pod_a[some], pod_b[some], *slots)
        column[across[core[across] < 0]] = -1
    return column, core, level


def _side(grid: Grid, begin: int, end: int, width: int) -> tuple[Floats, Floats]:
    """Return load and inverse capacity of a range of links as a table of rows of `width`."""
    return grid.load[begin:end].reshape(-1, width), grid.inverse[begin:end].reshape(-1, width)


def _level(side: tuple[Floats, Floats], degree: Ints, unit: int) -> float:
    """Return the least level of one side of the fabric."""
    return least_level(*side, degree.astype(np.int64), float(unit))
