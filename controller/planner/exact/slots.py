"""Route equal demands where links are missing, uneven or loaded, by colouring with slots.

At utilisation T a link has floor((T capacity - base) / demand) slots. The least T at which every leaf and every pod
has a slot for each of its flows is a bound on any plan (the flows of a leaf cannot be split); where all flows find a
colour within these slots the plan meets it.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.exact.colouring import colour_slots
from heddle.controller.planner.ground.grid import FAR, Grid
from heddle.controller.planner.ground.jit import Floats, Ints, kernel


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
def _levels_of(load: Floats, inverse: Floats, degree: Ints, unit: float, floor: float) -> Floats:
    """Return the least utilisation of each row at which its links have a slot per flow, and at least `floor`."""
    levels = np.full(load.shape[0], floor)
    for x in range(load.shape[0]):
        if _slots_of(load[x], inverse[x], unit, floor) < degree[x]:
            levels[x] = least_level(load[x : x + 1], inverse[x : x + 1], degree[x : x + 1], unit)
    return levels


@kernel
def _slots_at(load: Floats, inverse: Floats, unit: float, levels: Floats, limit: int) -> Ints:
    """Return the slots of each link of a table at the level of its row, at most `limit`."""
    slots = np.zeros(load.shape, np.int64)
    for x in range(load.shape[0]):
        for c in range(load.shape[1]):
            slots[x, c] = min(limit, _slots_on(load[x, c], inverse[x, c], unit, levels[x]))
    return slots


class _Side(NamedTuple):
    """The links of one direction as a table: a row per leaf or pod, with its number of flows."""

    load: Floats
    inverse: Floats
    degree: Ints


class Slotted(NamedTuple):
    """Column and core of each flow, -1 for a flow without a slot, and the least level at which a plan may exist."""

    column: Ints
    core: Ints
    level: float


def slotted(grid: Grid, start: Ints, end: Ints, unit: int, *, even: bool = False, level: float = 0.0) -> Slotted:
    """Place equal flows of `unit` bit/s between leaf rows in slots.

    The level is the least at which every leaf and pod has a slot per flow, or `level` if that is given. Where every
    flow has a slot, the largest utilisation is optimal. Above 1, only the leaves and pods that need it have slots
    above 1, so that no other flow is slowed; with `even`, all of them have.
    """
    half, first, given = grid.leaves * grid.columns, grid.cores_begin, level > 0
    across = np.flatnonzero(grid.pod[start] != grid.pod[end])
    pod_a, pod_b = grid.pod[start[across]], grid.pod[end[across]]
    sides = [_side(grid, 0, half, grid.columns, start), _side(grid, half, first, grid.columns, end)]
    if grid.cores:
        width, middle = grid.planes * grid.cores, first + grid.pods * grid.planes * grid.cores
        sides += [_side(grid, first, middle, width, pod_a), _side(grid, middle, len(grid.load), width, pod_b)]
    level = level if given else max(least_level(*side, float(unit)) for side in sides)
    core = np.full(len(start), -1, dtype=np.int64)
    if level >= FAR / 2:
        return Slotted(core.copy(), core, 0.0)
    uniform = given or even or level <= 1
    levels = [np.full(len(s.load), level) if uniform else _levels_of(*s, float(unit), 1.0) for s in sides]
    slots = [_slots_at(s.load, s.inverse, float(unit), rows, len(start)) for s, rows in zip(sides, levels, strict=True)]
    full = [rows > 1 if not uniform else np.zeros(len(rows), dtype=np.bool_) for rows in levels]
    column = colour_slots(start, end, slots[0], slots[1], full[0], full[1])
    if grid.cores:
        plane = np.where(column[across] >= 0, grid.plane_of[column[across]], -1)
        for number in range(grid.planes):
            some = np.flatnonzero(plane == number)
            cores = slice(number * grid.cores, (number + 1) * grid.cores)
            up, down = (np.ascontiguousarray(slots[side][:, cores]) for side in (2, 3))
            core[across[some]] = colour_slots(pod_a[some], pod_b[some], up, down, full[2], full[3])
        column[across[core[across] < 0]] = -1
    return Slotted(column, core, level)


def _side(grid: Grid, begin: int, end: int, width: int, rows: Ints) -> _Side:
    """Return a range of links as a table of rows of `width`, and the number of flows in `rows` at each row."""
    load, inverse = grid.load[begin:end].reshape(-1, width), grid.inverse[begin:end].reshape(-1, width)
    return _Side(load, inverse, np.bincount(rows, minlength=len(load)).astype(np.int64))
