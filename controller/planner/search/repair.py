"""Search on a grid of links: any demand, any failure, any load already there.

Flows are moved off the fullest link, alone, in chains of ejections or in walks between two columns, while that lowers
it. The fullest link is the root of a tournament over all
links, so a step costs what it looks at and not the size of the fabric. Work is limited in paths seen, never in time.
"""

import numpy as np

from controller.planner.jit import Floats, Ints, kernel
from controller.planner.search.cells import Cells, best_core, best_path, link_of, put
from controller.planner.search.on_link import depart, join, smallest_to_leave

LINGER = 6
"""For how many moves of a walk a flow that has moved stays where it is."""

Search = tuple[Ints, Ints, Ints, Ints, Floats, Ints, Ints, Ints, Floats, Ints]
"""source row, target row, column, core and demand per flow; head per link, next and previous per node (node 4 f + step
is flow f's place on its link of that step); the tournament; the last chain that each flow was in."""


@kernel
def _replay(tree: Floats, link: int, value: float) -> None:
    """Play the tournament of one link again."""
    node = tree.shape[0] // 2 + link
    tree[node] = value
    while node > 1:
        node >>= 1
        winner = max(tree[2 * node], tree[2 * node + 1])
        if tree[node] == winner:
            return
        tree[node] = winner


@kernel
def _fullest(tree: Floats) -> int:
    node, leaves = 1, tree.shape[0] // 2
    while node < leaves:
        node = 2 * node if tree[2 * node] == tree[node] else 2 * node + 1
    return node - leaves


@kernel
def _move(grid: Cells, search: Search, f: int, to_column: int, to_core: int) -> None:
    """Take a flow off its path (if it has one) and put it on another (if one is given)."""
    load, inverse = grid[7], grid[8]
    source, target, column, core, demand, head, after, before, tree, _ = search
    for adding in range(2):
        j, c = (to_column, to_core) if adding else (column[f], core[f])
        if j < 0:
            continue
        for step in range(4):
            link = link_of(grid, source[f], target[f], j, c, step)
            if link < 0:
                continue
            node = 4 * f + step
            if adding:
                join(head, after, before, link, node)
                load[link] += demand[f]
            else:
                depart(head, after, before, link, node)
                load[link] -= demand[f]
            _replay(tree, link, load[link] * inverse[link])
    column[f], core[f] = to_column, to_core


@kernel
def _relieve(grid: Cells, search: Search, link: int, limit: float) -> tuple[bool, int]:
    """Move the one flow off a link whose move leaves the lowest maximum behind; say whether one did, and the tries."""
    load, inverse = grid[7], grid[8]
    source, target, column, core, demand, head, after = search[:7]
    best_f, best_j, best_c, best, tries, kept = -1, -1, -1, limit, 0, inverse[link]
    node = head[link]
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
        node = after[node]
    if best_f < 0:
        return False, tries
    _move(grid, search, best_f, best_j, best_c)
    return True, tries


@kernel
def _conflict(
    grid: Cells, a: int, b: int, column: int, core: int, demand: float, limit: float, shun: int
) -> int:  # fmt: skip
    """Return the one link of a path that would pass the limit; -1 where more than one would, or the shunned one."""
    load, inverse, found = grid[7], grid[8], -1
    for step in range(4):
        link = link_of(grid, a, b, column, core, step)
        if link < 0 or (link != shun and (load[link] + demand) * inverse[link] < limit):
            continue
        if found >= 0 or link == shun or demand * inverse[link] >= limit:
            return -1
        found = link
    return found


@kernel
def _victim(grid: Cells, search: Search, link: int, demand: float, limit: float, tick: int) -> int:
    """Return the smallest flow whose leaving brings a link with `demand` more below the limit, or -1."""
    load, inverse, demands, head, after, stamp = grid[7], grid[8], search[4], search[5], search[6], search[9]
    return smallest_to_leave(head[link], after, demands, stamp, tick, demand, load[link] + demand, inverse[link], limit)


@kernel
def _push(
    grid: Cells, search: Search, f: int, limit: float, shun: int, favourite: int, tick: int
) -> tuple[int, int, int]:
    """Return a path that passes the limit on one link only, and who must leave that; the favourite column first."""
    columns, cores, pod, demand = grid[1], grid[4], grid[5], search[4][f]
    a, b = search[0][f], search[1][f]
    across = pod[a] != pod[b]
    for turn in range(columns + 1):
        j = favourite if turn == 0 else (turn - 1 + f + tick) % columns
        if j < 0:
            continue
        for c in range(cores if across else 1):
            core = (c + f + tick) % cores if across else -1
            link = _conflict(grid, a, b, j, core, demand, limit, shun)
            victim = _victim(grid, search, link, demand, limit, tick) if link >= 0 else -1
            if victim >= 0:
                return j, core, victim
    return -1, -1, -1


@kernel
def _chain(grid: Cells, search: Search, f: int, limit: float, shun: int, tick: int, undo: Ints) -> tuple[int, int]:
    """Move flow f off link `shun`, whoever is in its way after it, until all fit below the limit; return moves, steps.

    No move and everything as it was where the chain ends nowhere. For unit flows on two tiers this walks a Kempe
    chain: each ejected flow prefers the column that the one before it left.
    """
    inverse, source, target, column, core, demand, stamp = grid[8], *search[:5], search[9]
    favourite = -1
    for length in range(undo.shape[0]):
        undo[length, 0], undo[length, 1], undo[length, 2] = f, column[f], core[f]
        stamp[f], left = tick, column[f]
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
            for back in range(length, -1, -1):
                _move(grid, search, undo[back, 0], undo[back, 1], undo[back, 2])
            return 0, length + 1
        conflict = _conflict(grid, source[f], target[f], j, c, demand[f], limit, shun)
        _move(grid, search, f, j, c)
        f, shun, favourite = victim, conflict, left
    return 0, undo.shape[0]


@kernel
def _excess(grid: Cells, search: Search, f: int, column: int, core: int, demand: float, limit: float) -> float:
    """Return how far a path's links pass the limit in all, with `demand` more on each."""
    load, inverse, total = grid[7], grid[8], 0.0
    for step in range(4):
        link = link_of(grid, search[0][f], search[1][f], column, core, step)
        if link >= 0:
            total += max(0.0, (load[link] + demand) * inverse[link] - limit)
    return total


@kernel
def _flip(grid: Cells, search: Search, link: int, a: int, b: int, limit: float, tick: int, step: int) -> int:
    """Return the flow on a link in column a or b that does least harm in the other one, -1 for none."""
    source, target, column, core, demand, head, after, stamp = *search[:7], search[9]
    chosen, least, node = -1, 1e20, head[link]
    while node >= 0:
        f = node >> 2
        # Who has just moved stays for a while: else two flows would take turns for ever.
        if (column[f] == a or column[f] == b) and (stamp[f] < tick or stamp[f] + LINGER < tick + step):
            other, core_there = a + b - column[f], -1
            if core[f] >= 0:
                core_there, _, _ = best_core(grid, source[f], target[f], other, demand[f], 0.0, 1e29)
            if core[f] < 0 or core_there >= 0:
                now = _excess(grid, search, f, column[f], core[f], 0.0, limit)
                then = _excess(grid, search, f, column[f], core[f], -demand[f], limit)
                there = _excess(grid, search, f, other, core_there, demand[f], limit)
                there -= _excess(grid, search, f, other, core_there, 0.0, limit)
                if there + then - now < least:
                    chosen, least = f, there + then - now
        node = after[node]
    return chosen


@kernel
def _walk(grid: Cells, search: Search, link: int, a: int, b: int, limit: float, tick: int, undo: Ints) -> int:
    """Move flows between columns a and b until none of their links is at the limit; return the moves, 0 for a failure.

    A Kempe chain for flows of any size: where one has to leave a link two smaller ones may have to come.
    """
    source, target, column, core, demand = search[:5]
    waiting, count, length = np.empty(4 * undo.shape[0] + 1, np.int64), 1, 0
    waiting[0] = link
    while count > 0:
        full = waiting[count - 1]
        if grid[7][full] * grid[8][full] < limit:
            count -= 1
            continue
        f = _flip(grid, search, full, a, b, limit, tick, length) if length < undo.shape[0] else -1
        if f < 0:
            for back in range(length - 1, -1, -1):
                _move(grid, search, undo[back, 0], undo[back, 1], undo[back, 2])
            return 0
        undo[length, 0], undo[length, 1], undo[length, 2] = f, column[f], core[f]
        other, c = a + b - column[f], -1
        if core[f] >= 0:
            c, _, _ = best_core(grid, source[f], target[f], other, demand[f], 0.0, 1e29)
        stamp = search[9]
        stamp[f] = tick + length
        length += 1
        _move(grid, search, f, other, c)
        for step in range(4):
            place = link_of(grid, source[f], target[f], other, c, step)
            if place >= 0 and grid[7][place] * grid[8][place] >= limit:
                waiting[count] = place
                count += 1
    return length


@kernel
def _walks(grid: Cells, search: Search, fullest: int, limit: float, tick: int, undo: Ints) -> bool:
    """Try to relieve a link by a walk between its column and each other one."""
    node, columns, column = search[5][fullest], grid[1], search[2]
    if node < 0:
        return False
    a = column[node >> 2]
    for turn in range(1, columns):
        b = (a + turn) % columns
        if _walk(grid, search, fullest, a, b, limit, tick + turn * undo.shape[0], undo) > 0:
            return True
    return False


@kernel
def lower(
    grid: Cells, source: Ints, target: Ints, demand: Floats, column: Ints, core: Ints, goal: float, paths: int,
    longest: int, attempts: int,
) -> float:  # fmt: skip
    """Lower the fullest link by moves and chains until `goal`, a dead end or `paths` seen; return its utilisation.

    A dead end is a link from which no chain led in so many `attempts`, each of which looks elsewhere first.
    """
    columns, cores, load, inverse, flows = grid[1], grid[4], grid[7], grid[8], source.shape[0]
    size = 1
    while size < load.shape[0]:
        size *= 2
    tree = np.zeros(2 * size)
    for link in range(load.shape[0]):
        tree[size + link] = load[link] * inverse[link]
    for node in range(size - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
    head = np.full(load.shape[0], -1, np.int64)
    after, before = np.full(4 * flows, -1, np.int64), np.full(4 * flows, -1, np.int64)
    search = (source, target, column, core, demand, head, after, before, tree, np.zeros(flows, np.int64))
    for f in range(flows):
        for step in range(4):
            link = link_of(grid, source[f], target[f], column[f], core[f], step)
            if link >= 0:
                node = 4 * f + step
                after[node] = head[link]
                if head[link] >= 0:
                    before[head[link]] = node
                head[link] = node
    undo, tick, width = np.zeros((longest, 3), np.int64), 0, columns * max(1, cores)
    while True:
        worst = tree[1]
        # A hair of slack: sums of floats that should be equal must not count as an improvement.
        limit = worst * (1 - 1e-9)
        if worst <= goal * (1 + 1e-9) or paths <= 0:
            return worst
        fullest = _fullest(tree)
        done, tries = _relieve(grid, search, fullest, limit)
        paths -= (tries + 1) * width
        if done:
            continue
        moved, rounds = 0, 0
        while moved == 0 and rounds < attempts and paths > 0:
            rounds += 1
            node = head[fullest]
            while node >= 0 and moved == 0 and paths > 0:
                following = after[node]
                tick += 1
                moved, steps = _chain(grid, search, node >> 2, limit, fullest, tick, undo)
                paths -= 2 * steps * width
                # A failed chain puts its flow back at the head: go on with who came after it before.
                node = following
            if moved == 0 and rounds == 1:
                tick += columns * undo.shape[0] + 1
                moved += _walks(grid, search, fullest, limit, tick - columns * undo.shape[0], undo)
                paths -= columns * undo.shape[0]
        if moved == 0:
            return worst
