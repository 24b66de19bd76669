"""Local search on a grid of links, for any demands, failures and existing load.

Flows move off the fullest link while that lowers its utilisation: alone, in chains (a moved flow pushes another off a
link of its new path, which moves in turn), or in walks (flows move alternately between two columns, see `grid`).
A tournament tree over all links yields the fullest one, so the cost of a step does not depend on the size of the
fabric. Work is limited in paths evaluated, never in time.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.grid import Grid, best_core, best_path, link_of, put
from heddle.controller.planner.ground.jit import Floats, Ints, Rows, bare_kernel, kernel, row
from heddle.controller.planner.search.on_link import Lists, depart, empty_lists, join, smallest_to_leave
from heddle.controller.planner.search.spread import GridFlows

SCANNED_PER_PATH = 4
"""The flows on a link that are scanned in the time in which one path is evaluated."""
LINGER = 6
"""Number of moves of a walk for which a flow that has moved stays where it is, so that a walk does not circle."""


MOVED = row([("flow", np.int64), ("column", np.int64), ("core", np.int64)])
"""A flow that a chain or a walk has moved, and the path that it had before."""


class Search(NamedTuple):
    """The flows of a search, where they are, and the loads of the links.

    By flow: `source` and `target` are the leaves' numbers in the grid, `column` and `core` the path, `demand` in bit/s,
    and `stamp` the number of the last chain that moved it. `lists` has the flows on each link, `tree` the tournament of
    the links' utilisations.
    """

    source: Ints
    target: Ints
    column: Ints
    core: Ints
    demand: Floats
    lists: Lists
    tree: Floats
    stamp: Ints


@bare_kernel
def _replay(tree: Floats, link: int, value: float) -> None:
    """Set the utilisation of a link and update the tournament tree above it."""
    node = tree.shape[0] // 2 + link
    tree[node] = value
    while node > 1:
        node >>= 1
        winner = max(tree[2 * node], tree[2 * node + 1])
        if tree[node] == winner:
            return
        tree[node] = winner


@bare_kernel
def _fullest(tree: Floats) -> int:
    """Return the link of the largest utilisation."""
    node, leaves = 1, tree.shape[0] // 2
    while node < leaves:
        node = 2 * node if tree[2 * node] == tree[node] else 2 * node + 1
    return node - leaves


@bare_kernel
def _move(grid: Grid, search: Search, f: int, to_column: int, to_core: int) -> None:
    """Remove a flow from its path, if it has one, and put it on another one, if `to_column` is not -1."""
    load, inverse, demand = grid.load, grid.inverse, search.demand[f]
    for adding in range(2):
        j, c = (to_column, to_core) if adding else (search.column[f], search.core[f])
        if j < 0:
            continue
        for step in range(4):
            link = link_of(grid, search.source[f], search.target[f], j, c, step)
            if link < 0:
                continue
            if adding:
                join(search.lists, link, 4 * f + step)
                load[link] += demand
            else:
                depart(search.lists, link, 4 * f + step)
                load[link] -= demand
            _replay(search.tree, link, load[link] * inverse[link])
    search.column[f], search.core[f] = to_column, to_core


@bare_kernel
def _relieve(grid: Grid, search: Search, link: int, limit: float) -> tuple[bool, int]:
    """Move the one flow off a link whose move leaves the lowest maximum; return whether one did, and the tries."""
    load, inverse = grid.load, grid.inverse
    source, target, column, core, demand = search.source, search.target, search.column, search.core, search.demand
    best_f, best_j, best_c, best, tries, kept = -1, -1, -1, limit, 0, inverse[link]
    node = search.lists.head[link]
    while node >= 0:
        f = node >> 2
        rest = (load[link] - demand[f]) * kept
        if demand[f] > 0 and rest < best:
            tries += 1
            put(grid, source[f], target[f], column[f], core[f], -demand[f])
            inverse[link] = 1e30
            j, c, worst = best_path(grid, source[f], target[f], demand[f])
            inverse[link] = kept
            put(grid, source[f], target[f], column[f], core[f], demand[f])
            if j >= 0 and max(worst, rest) < best:
                best_f, best_j, best_c, best = f, j, c, max(worst, rest)
        node = search.lists.after[node]
    if best_f < 0:
        return False, tries
    _move(grid, search, best_f, best_j, best_c)
    return True, tries


@bare_kernel
def _conflict(
    grid: Grid, a: int, b: int, column: int, core: int, demand: float, limit: float, shun: int
) -> int:  # fmt: skip
    """Return the only link of a path that would reach the limit; -1 where several would, or link `shun` is on it."""
    load, inverse, found = grid.load, grid.inverse, -1
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link < 0 or (link != shun and (load[link] + demand) * inverse[link] < limit):
            continue
        if found >= 0 or link == shun or demand * inverse[link] >= limit:
            return -1
        found = link
    return found


@bare_kernel
def _victim(grid: Grid, search: Search, link: int, demand: float, limit: float, tick: int) -> int:
    """Return the smallest flow whose removal makes room for `demand` on a link below the limit, or -1."""
    loaded, inverse = grid.load[link] + demand, grid.inverse[link]
    return smallest_to_leave(search.lists, link, search.demand, search.stamp, tick, demand, loaded, inverse, limit)


@bare_kernel
def _push(
    grid: Grid, search: Search, f: int, limit: float, shun: int, favourite: int, tick: int
) -> tuple[int, int, int]:
    """Return column and core of a path with one link above the limit, and the flow to eject there; -1 for none.

    Column `favourite` is tried first.
    """
    a, b, demand = search.source[f], search.target[f], search.demand[f]
    across = grid.pod[a] != grid.pod[b]
    for turn in range(grid.columns + 1):
        j = favourite if turn == 0 else (turn - 1 + f + tick) % grid.columns
        if j < 0:
            continue
        for c in range(grid.cores if across else 1):
            core = (c + f + tick) % grid.cores if across else -1
            link = _conflict(grid, a, b, j, core, demand, limit, shun)
            victim = _victim(grid, search, link, demand, limit, tick) if link >= 0 else -1
            if victim >= 0:
                return j, core, victim
    return -1, -1, -1


@bare_kernel
def _undo_moves(grid: Grid, search: Search, undo: Rows, moves: int) -> None:
    """Return the flows in the first `moves` rows of `undo` to their paths, the last first."""
    for back in range(moves - 1, -1, -1):
        moved = undo[back]
        _move(grid, search, moved.flow, moved.column, moved.core)


@bare_kernel
def _chain(grid: Grid, search: Search, f: int, limit: float, shun: int, tick: int, undo: Rows) -> tuple[int, int]:
    """Move flow f off link `shun` and eject flows in its way until all links are below the limit.

    Returns the moves made and the steps tried. A chain that does not end makes 0 moves and leaves all paths as they
    were. For unit flows on two tiers this is a Kempe chain: each ejected flow prefers the column that the one before
    it left.
    """
    inverse, source, target, column, demand = grid.inverse, search.source, search.target, search.column, search.demand
    favourite = -1
    for length in range(undo.shape[0]):
        moved = undo[length]
        moved.flow, moved.column, moved.core = f, column[f], search.core[f]
        search.stamp[f], left = tick, column[f]
        _move(grid, search, f, -1, -1)
        kept = inverse[shun]
        inverse[shun] = 1e30
        j, c, worst = best_path(grid, source[f], target[f], demand[f])
        inverse[shun] = kept
        if j >= 0 and worst < limit:
            _move(grid, search, f, j, c)
            return length + 1, length + 1
        j, c, victim = _push(grid, search, f, limit, shun, favourite, tick)
        if j < 0 or length + 1 == undo.shape[0]:
            _undo_moves(grid, search, undo, length + 1)
            return 0, length + 1
        conflict = _conflict(grid, source[f], target[f], j, c, demand[f], limit, shun)
        _move(grid, search, f, j, c)
        f, shun, favourite = victim, conflict, left
    return 0, undo.shape[0]


@bare_kernel
def _excess(grid: Grid, search: Search, f: int, column: int, core: int, demand: float, limit: float) -> float:
    """Return the sum of utilisations above the limit along a path, with `demand` more on each of its links."""
    total = 0.0
    for step in range(4):
        link = link_of(grid, search.source[f], search.target[f], column, core, step)
        if link >= 0:
            total += max(0.0, (grid.load[link] + demand) * grid.inverse[link] - limit)
    return total


@bare_kernel
def _flip(grid: Grid, search: Search, link: int, a: int, b: int, limit: float, tick: int, step: int) -> int:
    """Return the flow of a link, in column a or b, that adds the least excess in the other column; -1 for none."""
    source, target, column, core = search.source, search.target, search.column, search.core
    demand, stamp = search.demand, search.stamp
    chosen, least, node = -1, 1e20, search.lists.head[link]
    while node >= 0:
        f = node >> 2
        # A flow that has just moved stays for some moves: otherwise two flows would alternate for ever.
        if (column[f] == a or column[f] == b) and (stamp[f] < tick or stamp[f] + LINGER < tick + step):
            other, core_there = a + b - column[f], -1
            if core[f] >= 0:
                core_there, _, _ = best_core(grid, source[f], target[f], other, demand[f], 0.0, 1e29)
            if core[f] < 0 or core_there >= 0:
                here = _excess(grid, search, f, column[f], core[f], 0.0, limit)
                then = _excess(grid, search, f, column[f], core[f], -demand[f], limit)
                there = _excess(grid, search, f, other, core_there, demand[f], limit)
                there -= _excess(grid, search, f, other, core_there, 0.0, limit)
                if there + then - here < least:
                    chosen, least = f, there + then - here
        node = search.lists.after[node]
    return chosen


@kernel
def _walk(grid: Grid, search: Search, link: int, a: int, b: int, limit: float, tick: int, undo: Rows) -> int:
    """Move flows between columns a and b until their links are below the limit; return the moves, 0 for a failure.

    This is a Kempe chain for flows of any size: where one flow leaves a link, two smaller ones may have to enter it.
    """
    source, target, column, core, demand = search.source, search.target, search.column, search.core, search.demand
    waiting, count, length = np.empty(4 * undo.shape[0] + 1, np.int64), 1, 0
    waiting[0] = link
    while count > 0:
        full = waiting[count - 1]
        if grid.load[full] * grid.inverse[full] < limit:
            count -= 1
            continue
        f = _flip(grid, search, full, a, b, limit, tick, length) if length < undo.shape[0] else -1
        if f < 0:
            _undo_moves(grid, search, undo, length)
            return 0
        moved = undo[length]
        moved.flow, moved.column, moved.core = f, column[f], core[f]
        other, c = a + b - column[f], -1
        if core[f] >= 0:
            c, _, _ = best_core(grid, source[f], target[f], other, demand[f], 0.0, 1e29)
        search.stamp[f] = tick + length
        length += 1
        _move(grid, search, f, other, c)
        for step in range(4):
            place = link_of(grid, source[f], target[f], other, c, step)
            if place >= 0 and grid.load[place] * grid.inverse[place] >= limit:
                waiting[count] = place
                count += 1
    return length


@kernel
def _walks(grid: Grid, search: Search, fullest: int, limit: float, tick: int, undo: Rows) -> bool:
    """Relieve a link by a walk between its column and one of the others; return whether a walk did."""
    node = search.lists.head[fullest]
    if node < 0:
        return False
    a = search.column[node >> 2]
    for turn in range(1, grid.columns):
        b = (a + turn) % grid.columns
        if _walk(grid, search, fullest, a, b, limit, tick + turn * undo.shape[0], undo) > 0:
            return True
    return False


@kernel
def _tournament(grid: Grid) -> Floats:
    """Return the tree of maxima over the utilisations of all links; the root is element 1."""
    size = 1
    while size < grid.load.shape[0]:
        size *= 2
    tree = np.zeros(2 * size)
    for link in range(grid.load.shape[0]):
        tree[size + link] = grid.load[link] * grid.inverse[link]
    for node in range(size - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
    return tree


def lower(grid: Grid, flows: GridFlows, goal: float, paths: int, longest: int, attempts: int) -> float:
    """Lower the largest utilisation and return it; the columns and cores of `flows` receive the paths.

    Stops at `goal`, after evaluating `paths` paths, or at a dead end: a link from which `attempts` rounds of chains of
    up to `longest` flows, each in another order, found no improvement.
    """
    worst = float((grid.load * grid.inverse).max(initial=0.0))
    if worst <= goal * (1 + 1e-9):
        return worst  # the search, a fifth of all kernels that a first plan compiles, is not needed
    return _lowered(grid, *flows, goal, paths, longest, attempts)


@kernel
def _lowered(
    grid: Grid, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints, goal: float, paths: int,
    longest: int, attempts: int,
) -> float:  # fmt: skip
    """Lower the largest utilisation, which is above `goal`, for `lower`."""
    flows, tree = source.shape[0], _tournament(grid)
    lists = empty_lists(grid.load.shape[0], flows)
    search = Search(source, target, column, core, demand, lists, tree, np.zeros(flows, np.int64))
    nodes = 0
    for f in range(flows):
        for step in range(4):
            link = link_of(grid, source[f], target[f], column[f], core[f], step)
            if link >= 0:
                join(lists, link, 4 * f + step)
                nodes += 1
    undo, tick, width = np.zeros(longest, MOVED), 0, grid.columns * max(1, grid.cores)
    # Each step scans the flows of a link or two, at a fraction of the cost of a path each.
    scan = nodes // (SCANNED_PER_PATH * grid.load.shape[0])
    while True:
        worst = tree[1]
        # The slack covers rounding: sums of floats that should be equal must not count as an improvement.
        limit = worst * (1 - 1e-9)
        if worst <= goal * (1 + 1e-9) or paths <= 0:
            return worst
        fullest = _fullest(tree)
        done, tries = _relieve(grid, search, fullest, limit)
        paths -= (tries + 1) * width + scan
        if done:
            continue
        moved, rounds = 0, 0
        while moved == 0 and rounds < attempts and paths > 0:
            rounds += 1
            node = lists.head[fullest]
            while node >= 0 and moved == 0 and paths > 0:
                following = lists.after[node]
                tick += 1
                moved, steps = _chain(grid, search, node >> 2, limit, fullest, tick, undo)
                paths -= steps * (2 * width + scan)
                # A failed chain puts its flow back at the head: continue with the one that followed it before.
                node = following
            if moved == 0 and rounds == 1:
                tick += grid.columns * undo.shape[0] + 1
                moved += _walks(grid, search, fullest, limit, tick - grid.columns * undo.shape[0], undo)
                paths -= grid.columns * undo.shape[0] * (1 + scan)
        if moved == 0:
            return worst
