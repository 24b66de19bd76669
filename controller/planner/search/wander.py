"""Threshold search on a grid of links: a walk that may raise the load of some links to get below a limit (tabu search).

Each step takes a link above the limit and moves off it the flow that leaves the least sum of squared excesses, even
where that sum grows; a flow that has just moved stays for a few steps. This separates flows of few sizes on full
fabrics where no chain of improving moves does. Steps are limited. A linear congruential generator with a fixed seed
breaks ties, so the same input gives the same walk.
"""

import numpy as np

from heddle.controller.planner.ground.grid import Grid, link_of
from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel, kernel
from heddle.controller.planner.search.on_link import Lists, depart, empty_lists, join

LINGER = 5
"""The least number of steps that a moved flow stays in place; a random number below this is added."""


@bare_kernel
def _added(grid: Grid, link: int, demand: float, limit: float) -> float:
    """Return by how much a demand raises the squared excess of a link over the limit."""
    load, inverse = grid.load[link], grid.inverse[link]
    before = max(0.0, load * inverse - limit)
    after = max(0.0, (load + demand) * inverse - limit)
    return after * after - before * before


@bare_kernel
def _cheapest(grid: Grid, a: int, b: int, stay: int, demand: float, limit: float, turn: int) -> tuple[int, int, float]:
    """Return column, core and added excess of the cheapest path in a column other than `stay`; column -1 for none.

    Columns are tried from `turn` on; the first of equal ones is chosen.
    """
    inverse, columns, across = grid.inverse, grid.columns, grid.pod[a] != grid.pod[b]
    column, core, least = -1, -1, 1e20
    for step in range(columns):
        j = (step + turn) % columns
        up, down = a * columns + j, (grid.leaves + b) * columns + j
        if j == stay or inverse[up] > 1e20 or inverse[down] > 1e20:
            continue
        cost = _added(grid, up, demand, limit) + _added(grid, down, demand, limit)
        for c in range(grid.cores if across else 1):
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


@bare_kernel
def _enter(grid: Grid, lists: Lists, f: int, a: int, b: int, column: int, core: int) -> None:
    """Add a flow to the lists of the links of its path."""
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link >= 0:
            join(lists, link, 4 * f + step)


@bare_kernel
def _leave(grid: Grid, lists: Lists, f: int, a: int, b: int, column: int, core: int) -> None:
    """Remove a flow from the lists of the links of its path."""
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link >= 0:
            depart(lists, link, 4 * f + step)


@bare_kernel
def _load(
    grid: Grid,
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
    """Add a demand along a path; update the list of links over the limit and return its length.

    `over` lists these links, `place` is each link's index in it or -1, `count` is its length.
    """
    load, inverse = grid.load, grid.inverse
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
    grid: Grid, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints, limit: float,
    steps: int, paths: int,
) -> int:  # fmt: skip
    """Move flows until no link is above the limit; return how many links still are.

    Stops after `steps` moves or `paths` evaluated paths. Where more than a quarter of `steps` links are above the
    limit, nothing moves.
    """
    load, inverse, columns, pod, flows = grid.load, grid.inverse, grid.columns, grid.pod, source.shape[0]
    lists = empty_lists(load.shape[0], flows)
    over, place, count = np.empty(load.shape[0], np.int64), np.full(load.shape[0], -1, np.int64), 0
    for link in range(load.shape[0]):
        if load[link] * inverse[link] > limit:
            over[count], place[link] = link, count
            count += 1
    for f in range(flows):
        _enter(grid, lists, f, source[f], target[f], column[f], core[f])
    until, draw, at_step = np.zeros(flows, np.int64), 1, 0
    while 0 < count < steps // 4 and at_step < steps and paths > 0:
        at_step += 1
        draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF
        node = lists.head[over[(draw >> 8) % count]]
        chosen, to_column, to_core, least = -1, -1, -1, 1e20
        while node >= 0:
            f = node >> 2
            if until[f] <= at_step and demand[f] > 0:
                a, b, d = source[f], target[f], demand[f]
                paths -= columns * (1 if pod[a] == pod[b] else grid.cores)
                j, c, cost = _cheapest(grid, a, b, column[f], d, limit, (draw >> 5) % columns)
                for step in range(4):
                    link = link_of(grid, a, b, column[f], core[f], step)
                    cost += _added(grid, link, -d, limit) if link >= 0 else 0.0
                if j >= 0 and cost < least:
                    chosen, to_column, to_core, least = f, j, c, cost
            node = lists.after[node]
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
        until[f] = at_step + LINGER + (draw >> 11) % LINGER
    return count


@bare_kernel
def out_of_reach(grid: Grid, source: Ints, target: Ints, demand: Floats, limit: float) -> bool:
    """Return whether no walk can succeed: beside the load of the grid alone, some flow has no path within the limit."""
    f = 0
    while f < source.shape[0] and _cheapest(grid, source[f], target[f], -1, demand[f], limit, 0)[2] <= 0:
        f += 1
    return f < source.shape[0]
