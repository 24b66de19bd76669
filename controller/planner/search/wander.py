"""Repair against a threshold on a grid of links: a walk over all columns that may make matters worse for a while.

The walk takes a link above the threshold and moves the flow off it that leaves the least sum of squared excesses
behind, even where that is more than before; who has just moved stays for a few moves. It parts flows of few sizes
on full fabrics where no chain of improving moves does. Steps are limited; ties are drawn from a counter, so the same
input takes the same walk.
"""

import numpy as np

from controller.planner.jit import Floats, Ints, kernel
from controller.planner.search.cells import Cells, link_of
from controller.planner.search.on_link import depart, join

LINGER = 5
"""The least number of steps that a flow stays where it was moved to; up to as many again are drawn."""


@kernel
def _added(grid: Cells, link: int, demand: float, limit: float) -> float:
    """Return by how much a demand raises the squared excess of a link."""
    before = max(0.0, grid[7][link] * grid[8][link] - limit)
    after = max(0.0, (grid[7][link] + demand) * grid[8][link] - limit)
    return after * after - before * before


@kernel
def _cheapest(grid: Cells, a: int, b: int, stay: int, demand: float, limit: float, turn: int) -> tuple[int, int, float]:
    """Return the column other than `stay`, the core, and the excess they add, the first from `turn` on of equals."""
    leaves, columns, cores, pod, inverse = grid[0], grid[1], grid[4], grid[5], grid[8]
    across, column, core, least = pod[a] != pod[b], -1, -1, 1e20
    for step in range(columns):
        j = (step + turn) % columns
        up, down = a * columns + j, (leaves + b) * columns + j
        if j == stay or inverse[up] > 1e20 or inverse[down] > 1e20:
            continue
        cost = _added(grid, up, demand, limit) + _added(grid, down, demand, limit)
        for c in range(cores if across else 1):
            if cost >= least:
                break
            if not across:
                column, core, least = j, -1, cost
                break
            x, y = link_of(grid, a, b, j, c, 2), link_of(grid, a, b, j, c, 3)
            if inverse[x] < 1e20 and inverse[y] < 1e20:
                whole = cost + _added(grid, x, demand, limit) + _added(grid, y, demand, limit)
                if whole < least:
                    column, core, least = j, c, whole
    return column, core, least


@kernel
def _enter(grid: Cells, lists: tuple[Ints, Ints, Ints], f: int, a: int, b: int, column: int, core: int) -> None:
    head, after, before = lists
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link >= 0:
            join(head, after, before, link, 4 * f + step)


@kernel
def _leave(grid: Cells, lists: tuple[Ints, Ints, Ints], f: int, a: int, b: int, column: int, core: int) -> None:
    head, after, before = lists
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link >= 0:
            depart(head, after, before, link, 4 * f + step)


@kernel
def _load(
    grid: Cells,
    a: int,
    b: int,
    column: int,
    core: int,
    demand: float,
    limit: float,
    over: Ints,
    place: Ints,
    count: int,
) -> int:
    """Add a demand along a path; keep the list of links over the limit and return its new length."""
    load, inverse = grid[7], grid[8]
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link < 0:
            continue
        load[link] += demand
        full = load[link] * inverse[link] > limit
        if full and place[link] < 0:
            over[count], place[link] = link, count
            count += 1
        elif not full and place[link] >= 0:
            count -= 1
            last = over[count]
            over[place[link]], place[last] = last, place[link]
            place[link] = -1
    return count


@kernel
def wander(
    grid: Cells, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints, limit: float,
    steps: int, paths: int,
) -> int:  # fmt: skip
    """Move flows until no link is above the limit, or `steps` or `paths` seen are over; return how many are above it.

    Nothing is tried where so many are above it that the steps could hardly do.
    """
    load, inverse, flows = grid[7], grid[8], source.shape[0]
    head, after = np.full(load.shape[0], -1, np.int64), np.full(4 * flows, -1, np.int64)
    lists = (head, after, np.full(4 * flows, -1, np.int64))
    over, place, count = np.empty(load.shape[0], np.int64), np.full(load.shape[0], -1, np.int64), 0
    for link in range(load.shape[0]):
        if load[link] * inverse[link] > limit:
            over[count], place[link] = link, count
            count += 1
    for f in range(flows):
        _enter(grid, lists, f, source[f], target[f], column[f], core[f])
    until, draw, now = np.zeros(flows, np.int64), 1, 0
    while 0 < count < steps // 4 and now < steps and paths > 0:
        now += 1
        draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF
        node = head[over[(draw >> 8) % count]]
        chosen, to_column, to_core, least = -1, -1, -1, 1e20
        while node >= 0:
            f = node >> 2
            if until[f] <= now and demand[f] > 0:
                a, b, d = source[f], target[f], demand[f]
                paths -= grid[1] * (1 if grid[5][a] == grid[5][b] else grid[4])
                j, c, cost = _cheapest(grid, a, b, column[f], d, limit, (draw >> 5) % grid[1])
                for step in range(4):
                    link = link_of(grid, a, b, column[f], core[f], step)
                    cost += _added(grid, link, -d, limit) if link >= 0 else 0.0
                if j >= 0 and cost < least:
                    chosen, to_column, to_core, least = f, j, c, cost
            node = after[node]
        if chosen < 0:
            paths -= 1
            continue
        f = chosen
        a, b, d = source[f], target[f], demand[f]
        _leave(grid, lists, f, a, b, column[f], core[f])
        count = _load(grid, a, b, column[f], core[f], -d, limit, over, place, count)
        column[f], core[f] = to_column, to_core
        _enter(grid, lists, f, a, b, to_column, to_core)
        count = _load(grid, a, b, to_column, to_core, d, limit, over, place, count)
        until[f] = now + LINGER + (draw >> 11) % LINGER
    return count
