"""A first place for every flow on a grid of links: the largest first, each where its fullest link stays emptiest.

Between pods the column is chosen by its own links and the mean load of its plane's core links, then the core: to look
at every core of every plane would cost ten times as much and win less than the search that follows.
"""

import numpy as np

from controller.planner.jit import Floats, Ints, kernel
from controller.planner.search.cells import Cells, best_core, best_path, put


@kernel
def _quick(grid: Cells, plane_load: Floats, plane_inverse: Floats, a: int, b: int, demand: float) -> tuple[int, int]:
    """Return a good path: the best column by its own links and its plane's mean load, and there the best core."""
    leaves, columns, pods, planes, _, pod, plane_of, load, inverse, _ = grid
    up, down = a * columns, (leaves + b) * columns
    column, best, least = -1, 1e20, 1e29
    for j in range(columns):
        x, y = (load[up + j] + demand) * inverse[up + j], (load[down + j] + demand) * inverse[down + j]
        p, q = pod[a] * planes + plane_of[j], (pods + pod[b]) * planes + plane_of[j]
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
    grid: Cells, source: Ints, target: Ints, demand: Floats, order: Ints, column: Ints, core: Ints
) -> int:  # fmt: skip
    """Place the flows in `order` that have no column yet; return how many find no path."""
    leaves, columns, pods, planes, cores, pod, plane_of, load, inverse, _ = grid
    plane_load, room = np.zeros(2 * pods * planes), np.zeros(2 * pods * planes)
    begin = 2 * leaves * columns
    for link in range(begin, load.shape[0]):
        if inverse[link] < 1e20:
            plane_load[(link - begin) // cores] += load[link]
            room[(link - begin) // cores] += 1 / inverse[link]
    plane_inverse = np.empty(room.shape[0])
    for p in range(room.shape[0]):
        plane_inverse[p] = 1 / room[p] if room[p] > 0 else 1e30
    for f in range(source.shape[0]):
        if core[f] >= 0:
            plane_load[pod[source[f]] * planes + plane_of[column[f]]] += demand[f]
            plane_load[(pods + pod[target[f]]) * planes + plane_of[column[f]]] += demand[f]
    stranded = 0
    for i in range(order.shape[0]):
        f = order[i]
        a, b = source[f], target[f]
        if pod[a] != pod[b]:
            column[f], core[f] = _quick(grid, plane_load, plane_inverse, a, b, demand[f])
        if column[f] < 0:
            column[f], core[f], _ = best_path(grid, a, b, demand[f])
        if column[f] < 0:
            stranded += 1
            continue
        put(grid, a, b, column[f], core[f], demand[f])
        if core[f] >= 0:
            plane_load[pod[a] * planes + plane_of[column[f]]] += demand[f]
            plane_load[(pods + pod[b]) * planes + plane_of[column[f]]] += demand[f]
    return stranded


@kernel
def put_all(grid: Cells, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints) -> None:
    """Add the flows that have a path to the loads."""
    for f in range(source.shape[0]):
        if column[f] >= 0:
            put(grid, source[f], target[f], column[f], core[f], demand[f])
