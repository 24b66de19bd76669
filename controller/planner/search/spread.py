"""Greedy initial placement on a grid of links: largest flows first, each on the path whose fullest link stays emptiest.

Between pods, the column is chosen by its own links and the mean load of its plane's core links, then the core.
Evaluating every core of every plane would cost ten times as much and gain less than the search that follows.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.grid import Grid, best_core, best_path, put
from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel, kernel


class GridFlows(NamedTuple):
    """Flows between leaves of a grid: the numbers of the leaves, demands in bit/s, and the path; -1 where it has none.

    Kernels take these columns in this order.
    """

    source: Ints
    target: Ints
    demand: Floats
    column: Ints
    core: Ints


@bare_kernel
def _planes_of(grid: Grid, a: int, b: int, column: int) -> tuple[int, int]:
    """Return the (pod, plane) numbers of a column above leaf a, upwards, and above leaf b, downwards."""
    plane = grid.plane_of[column]
    return grid.pod[a] * grid.planes + plane, (grid.pods + grid.pod[b]) * grid.planes + plane


@bare_kernel
def _quick(grid: Grid, plane_load: Floats, plane_inverse: Floats, a: int, b: int, demand: float) -> tuple[int, int]:
    """Return column and core of a good path: the best column by links and mean plane load, then its best core."""
    load, inverse = grid.load, grid.inverse
    up, down = a * grid.columns, (grid.leaves + b) * grid.columns
    column, best, least = -1, 1e20, 1e29
    for j in range(grid.columns):
        x, y = (load[up + j] + demand) * inverse[up + j], (load[down + j] + demand) * inverse[down + j]
        p, q = _planes_of(grid, a, b, j)
        v, w = plane_load[p] * plane_inverse[p], plane_load[q] * plane_inverse[q]
        full, total = max(x, y, v, w), x + y + v + w
        if full < best or (full == best and total < least):
            column, best, least = j, full, total
    if column < 0:
        return -1, -1
    core, worst, _ = best_core(grid, a, b, column, demand, 0.0, 1e29)
    return (column, core) if worst < 1e20 else (-1, -1)


@kernel
def spread(
    grid: Grid, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints, order: Ints
) -> int:  # fmt: skip
    """Place the flows of `order` that have no column yet; return how many have no path."""
    load, inverse = grid.load, grid.inverse
    plane_load, room = np.zeros(2 * grid.pods * grid.planes), np.zeros(2 * grid.pods * grid.planes)
    begin = 2 * grid.leaves * grid.columns
    for link in range(begin, load.shape[0]):
        if inverse[link] < 1e20:
            plane_load[(link - begin) // grid.cores] += load[link]
            room[(link - begin) // grid.cores] += 1 / inverse[link]
    plane_inverse = np.empty(room.shape[0])
    for p in range(room.shape[0]):
        plane_inverse[p] = 1 / room[p] if room[p] > 0 else 1e30
    for f in range(source.shape[0]):
        if core[f] >= 0:
            p, q = _planes_of(grid, source[f], target[f], column[f])
            plane_load[p] += demand[f]
            plane_load[q] += demand[f]
    stranded = 0
    for i in range(order.shape[0]):
        f = order[i]
        a, b = source[f], target[f]
        if grid.pod[a] != grid.pod[b]:
            column[f], core[f] = _quick(grid, plane_load, plane_inverse, a, b, demand[f])
        if column[f] < 0:
            column[f], core[f], _ = best_path(grid, a, b, demand[f])
        if column[f] < 0:
            stranded += 1
            continue
        put(grid, a, b, column[f], core[f], demand[f])
        if core[f] >= 0:
            p, q = _planes_of(grid, a, b, column[f])
            plane_load[p] += demand[f]
            plane_load[q] += demand[f]
    return stranded


@bare_kernel
def put_all(grid: Grid, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints) -> None:
    """Add the demands of the flows that have a path to the loads."""
    for f in range(source.shape[0]):
        if column[f] >= 0:
            put(grid, source[f], target[f], column[f], core[f], demand[f])
