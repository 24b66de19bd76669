"""Kernels of a session whose links carry one flow each: they decide on small tables instead of lists of flows.

A *seat* is a column at one end of a flow: a link that is free, dead, taken by one flow, or shared. A *vertex* is a leaf
or a pod's switch of a plane, on the left where flows go up and on the right where they go down; the bits of one word
are its free columns. Where all demands are equal and no link can hold two flows, one AND finds a column that is free
at both ends. A chain between two columns is then a path of the bipartite graph whose edges are flows and whose colours
are columns (König 1916; Kempe), so it meets neither itself nor the far end of the flow that starts it. All chains that
can help a flow are followed in parallel, so the shortest one ends first. Decisions are recorded in a trail, which
`chosen` lists.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.bits import lowest_bit
from heddle.controller.planner.ground.jit import Floats, Ints, Rows, Small, bare_kernel, row

MAX_FRONT = 128
"""The chains that are followed at once for a flow."""
MAX_TRAIL = 1 << 13
"""The changes that a trail records."""
MAX_CHAIN = 1 << 10
"""The flows of a chain."""

_HALF, _WORD = np.int32, np.int64

TRAIL = row([("flow", _HALF), ("column", _HALF), ("core", _HALF)])
"""A change: a flow, and the column and core that it had before."""

FRONT = row(
    [
        ("vertex", _WORD),
        ("into", _WORD),  # column to become free at the vertex
        ("out", _WORD),  # the other column of the chain
        ("first_into", _WORD),  # the two columns at the start of the chain
        ("first_out", _WORD),
        ("right", _WORD),  # 1 where the chain starts at the right end of its flow
    ]
)
"""The current end of a chain."""


class Seats(NamedTuple):
    """The tables: `owner[vertex << shift | column]` is a flow, -1: free, -2: dead, -3: several flows.

    `free[vertex]` is the word of free columns. The left vertices are the leaves, then the pods' switches (pod * planes
    + plane); the right ones begin at `right`. `spot` has a row per flow, `trail` and `front` are scratch space, and
    `used[0]` is the number of rows of the trail.
    """

    right: int
    leaves: int
    planes: int
    shift: int
    owner: Small
    free: Ints
    spot: Rows
    pod: Ints
    plane_of: Ints
    trail: Rows
    front: Rows
    used: Ints


@bare_kernel
def lowest(word: int) -> int:
    """Return the position of the lowest set bit of a word."""
    return lowest_bit(np.uint64(word))


@bare_kernel
def _first(word: int, start: int) -> int:
    """Return the position of the first set bit from `start` on, cyclically."""
    above = word & (-1 << start)
    return lowest(above if above != 0 else word)


@bare_kernel
def end_of(t: Seats, g: int, level: int, plane: int, right: int) -> int:
    """Return the vertex at one end of a flow."""
    leaf = t.spot[g].leaf[right]
    return right * t.right + (leaf if level == 0 else t.leaves + t.pod[leaf] * t.planes + plane)


@bare_kernel
def _vacate(t: Seats, g: int, vertex: int, column: int) -> None:
    """Free the seat of a flow at a vertex."""
    seat = (vertex << t.shift) + column
    if t.owner[seat] == g:
        t.owner[seat] = -1
        t.free[vertex] |= 1 << column


@bare_kernel
def _occupy(t: Seats, g: int, vertex: int, column: int) -> None:
    """Give a free seat at a vertex to a flow."""
    seat = (vertex << t.shift) + column
    if t.owner[seat] == -1:
        t.owner[seat] = g
        t.free[vertex] &= ~(1 << column)


@bare_kernel
def _put(t: Seats, g: int, column: int, core: int) -> None:
    """Move a flow to a column and a core that are free at both ends, each -1 for none."""
    spot = t.spot[g]
    was, had = spot.column, spot.core
    if had >= 0 and (had != core or was != column):
        plane = t.plane_of[was]
        _vacate(t, g, end_of(t, g, 1, plane, 0), had)
        _vacate(t, g, end_of(t, g, 1, plane, 1), had)
    if was != column:
        if was >= 0:
            _vacate(t, g, end_of(t, g, 0, 0, 0), was)
            _vacate(t, g, end_of(t, g, 0, 0, 1), was)
        if column >= 0:
            _occupy(t, g, end_of(t, g, 0, 0, 0), column)
            _occupy(t, g, end_of(t, g, 0, 0, 1), column)
    if core >= 0 and (had != core or was != column):
        plane = t.plane_of[column]
        _occupy(t, g, end_of(t, g, 1, plane, 0), core)
        _occupy(t, g, end_of(t, g, 1, plane, 1), core)
    spot.column, spot.core = column, core


@bare_kernel
def _record(t: Seats, g: int) -> None:
    """Append a flow's column and core to the trail."""
    entry, spot = t.trail[t.used[0]], t.spot[g]
    entry.flow, entry.column, entry.core = g, spot.column, spot.core
    t.used[0] += 1


@bare_kernel
def change(t: Seats, g: int, column: int, core: int) -> None:
    """Record a flow's column and core in the trail and change them."""
    _record(t, g)
    _put(t, g, column, core)


@bare_kernel
def back(t: Seats, mark: int) -> None:
    """Undo the changes of the trail from row `mark` on, the last first."""
    while t.used[0] > mark:
        t.used[0] -= 1
        entry = t.trail[t.used[0]]
        _put(t, entry.flow, entry.column, entry.core)


@bare_kernel
def free_cores(t: Seats, g: int, column: int) -> int:
    """Return the cores free at both ends of a flow in a column's plane, as bits; all bits if it needs no core."""
    p, q = t.pod[t.spot[g].leaf[0]], t.pod[t.spot[g].leaf[1]]
    if t.planes == 0 or p == q:
        return -1
    at = t.leaves + t.plane_of[column]
    return t.free[at + p * t.planes] & t.free[t.right + at + q * t.planes]


@bare_kernel
def _steps(t: Seats, g: int, level: int, plane: int, column: int, right: int) -> int:
    """Return the vertex at the other end of flow g, which has a column at its end `right`; -1 where it cannot move."""
    if g < 0 or (t.spot[g].column if level == 0 else t.spot[g].core) != column:
        return -1
    return end_of(t, g, level, plane, 1 - right)


@bare_kernel
def _follow(t: Seats, level: int, plane: int, u: int, v: int) -> int:
    """Follow all chains between a column free at u and one free at v in parallel, until the first one ends.

    Returns its length, -1 for none, and leaves the columns and the side of its start in `front[0]`.
    """
    count = 0
    left = t.free[u] & ~t.free[v]
    while left != 0:
        a = lowest(left)
        left &= left - 1
        rest = t.free[v] & ~t.free[u]
        while rest != 0 and count + 2 <= MAX_FRONT:
            b = lowest(rest)
            rest &= rest - 1
            for side in range(2):
                into, out = (a, b) if side == 1 else (b, a)
                row = t.front[count]
                row.vertex, row.into, row.out = v if side == 1 else u, into, out
                row.first_into, row.first_out, row.right = into, out, side
                count += 1
    for length in range(1, MAX_CHAIN):
        alive = 0
        for i in range(count):
            row = t.front[i]
            vertex, into, out = row.vertex, row.into, row.out
            right = 1 if vertex >= t.right else 0
            far = _steps(t, t.owner[(vertex << t.shift) + into], level, plane, into, right)
            if far < 0:
                continue
            if t.free[far] >> out & 1:
                first = t.front[0]
                first.first_into, first.first_out, first.right = row.first_into, row.first_out, row.right
                return length
            kept = t.front[alive]
            kept.vertex, kept.into, kept.out = far, out, into
            kept.first_into, kept.first_out, kept.right = row.first_into, row.first_out, row.right
            alive += 1
        count = alive
        if count == 0:
            break
    return -1


@bare_kernel
def _turn(t: Seats, f: int, level: int, plane: int, into: int, out: int, right: int, length: int) -> bool:
    """Carry out a chain: its flows exchange columns and f takes `into`; False where the trail is full."""
    mark = t.used[0]
    if mark + 4 * length + 8 > t.trail.shape[0]:
        return False
    vertex, column, other = end_of(t, f, level, plane, right), into, out
    for _ in range(length):
        g = t.owner[(vertex << t.shift) + column]
        vertex = end_of(t, g, level, plane, 1 - (1 if vertex >= t.right else 0))
        column, other = other, column
        _record(t, g)
    for i in range(length):
        g = t.trail[mark + i].flow
        _put(t, g, -1 if level == 0 else t.spot[g].column, -1)
    for i in range(length):
        to = out if i % 2 == 0 else into
        g = t.trail[mark + i].flow
        change(t, g, to if level == 0 else t.spot[g].column, -1 if level == 0 else to)
    change(t, f, into if level == 0 else t.spot[f].column, -1 if level == 0 else into)
    return True


@bare_kernel
def _one_step(t: Seats, f: int, plane: int) -> bool:
    """Find a core of a plane for a flow by moving one other flow to another core."""
    u, v = end_of(t, f, 1, plane, 0), end_of(t, f, 1, plane, 1)
    for right in range(2):
        here, there = (v, u) if right == 1 else (u, v)
        word = t.free[there] & ~t.free[here]
        while word != 0:
            into = lowest(word)
            word &= word - 1
            far = _steps(t, t.owner[(here << t.shift) + into], 1, plane, into, right)
            if far >= 0 and t.free[far] & t.free[here] != 0:
                return _turn(t, f, 1, plane, into, lowest(t.free[far] & t.free[here]), right, 1)
    return False


@bare_kernel
def _core(t: Seats, g: int) -> bool:
    """Find a core for a flow that has its column, by a chain where none is free at both ends."""
    column, leaf = t.spot[g].column, t.spot[g].leaf
    free, plane = free_cores(t, g, column), t.plane_of[column]
    if t.planes == 0 or t.pod[leaf[0]] == t.pod[leaf[1]]:
        return True
    if free != 0:
        change(t, g, column, _first(free, (3 * leaf[0] + 5 * leaf[1]) & ((1 << t.shift) - 1)))
        return True
    if _one_step(t, g, plane):
        return True
    length = _follow(t, 1, plane, end_of(t, g, 1, plane, 0), end_of(t, g, 1, plane, 1))
    first = t.front[0]
    return length > 0 and _turn(t, g, 1, plane, first.first_into, first.first_out, first.right, length)


@bare_kernel
def _neighbour(t: Seats, f: int) -> int:
    """Return the best column that becomes free when one other flow changes columns, packed into a number; -1: none.

    The best is one where both flows find a free core, then one where one of them does. Bits 0 to 9 are the column that
    the other flow takes, 10 to 19 the column that becomes free, 20 the side, and 21 is set where both find a core.
    """
    u, v = end_of(t, f, 0, 0, 0), end_of(t, f, 0, 0, 1)
    best, chosen = -1, -1
    for right in range(2):
        here, there = (v, u) if right == 1 else (u, v)
        word = t.free[there] & ~t.free[here]
        while word != 0:
            into = lowest(word)
            word &= word - 1
            g = t.owner[(here << t.shift) + into]
            far = _steps(t, g, 0, 0, into, right)
            if far < 0:
                continue
            outs, mine = t.free[far] & t.free[here], 2 if free_cores(t, f, into) != 0 else 0
            while outs != 0:
                out = lowest(outs)
                outs &= outs - 1
                worth = mine + (2 if free_cores(t, g, out) != 0 else 0)
                if worth > best:
                    best, chosen = worth, right << 20 | into << 10 | out
                if best == 4:
                    return chosen | 1 << 21
    return chosen


@bare_kernel
def _seat(t: Seats, f: int) -> bool:
    """Seat a flow, by chains where nothing is free; where it returns False, the caller must undo its changes."""
    u, v = end_of(t, f, 0, 0, 0), end_of(t, f, 0, 0, 1)
    direct = t.free[u] & t.free[v]
    word, start = direct, (7 * t.spot[f].leaf[0] + 3 * t.spot[f].leaf[1]) % t.plane_of.shape[0]
    while word != 0:
        column = _first(word, start)
        word &= ~(1 << column)
        if free_cores(t, f, column) != 0:
            change(t, f, column, -1)
            return _core(t, f)
    mark, word = t.used[0], direct
    while word != 0:
        column = lowest(word)
        word &= word - 1
        change(t, f, column, -1)
        if _one_step(t, f, t.plane_of[column]):
            return True
        back(t, mark)
    near = _neighbour(t, f)
    word = direct if near < 1 << 21 else 0
    while word != 0:
        column = lowest(word)
        word &= word - 1
        change(t, f, column, -1)
        if _core(t, f):
            return True
        back(t, mark)
    length = 1
    if near >= 0:
        into, out, right = near >> 10 & 1023, near & 1023, near >> 20 & 1
    else:
        length = _follow(t, 0, 0, u, v)
        into, out, right = t.front[0].first_into, t.front[0].first_out, t.front[0].right
    if length < 0 or not _turn(t, f, 0, 0, into, out, right, length):
        return False
    found = True
    for i in range(mark + length, mark + 2 * length + 1):
        found = found and _core(t, t.trail[i].flow)
    return found


@bare_kernel
def seat(t: Seats, rows: Ints, begin: int, limit: int, bound: Floats, below: float) -> int:
    """Seat flows in order, from index `begin` on, and record them in the trail, up to `limit` rows.

    Returns the index of the first flow that cannot be seated, or the number of flows. `bound` is as in `place.place`;
    a flow whose cuts have a bound of `below` or more is left to `place`: its links hold several flows.
    """
    pods = (t.right - t.leaves) // max(t.planes, 1)
    for i in range(begin, rows.shape[0]):
        f, mark = rows[i], t.used[0]
        u, v = t.spot[f].leaf[0], t.spot[f].leaf[1]
        if u == v:
            continue
        p, q, low = t.pod[u], t.pod[v], max(bound[u], bound[t.leaves + v])
        if t.planes > 0 and p != q:
            low = max(low, max(bound[2 * t.leaves + p], bound[2 * t.leaves + pods + q]))
        if low >= below or mark + 64 > limit or not _seat(t, f) or t.used[0] > limit:
            back(t, mark)
            return i
    return rows.shape[0]


@bare_kernel
def chosen(
    t: Seats, flows: Rows, up_leaf: Ints, up_plane: Ints, cables: int, tick: int, rows: Ints, paths: Ints
) -> int:  # fmt: skip
    """Write each flow of the trail whose path changes to `rows`, and its new path to `paths`; return their number.

    `tick` is a stamp that no flow has yet; the others are fields of `table.Arrays`, which takes 7 us a call as a whole.
    """
    found = 0
    for i in range(t.used[0]):
        f = t.trail[i].flow
        flow, spot = flows[f], t.spot[f]
        if flow.stamp == tick:
            continue
        flow.stamp = tick
        up, down = -1, -1
        if spot.core >= 0:
            plane = t.plane_of[spot.column]
            up = up_plane[t.pod[spot.leaf[0]] * t.planes + plane, spot.core]
            down = up_plane[t.pod[spot.leaf[1]] * t.planes + plane, spot.core] + cables
        first, last = up_leaf[spot.leaf[0], spot.column], up_leaf[spot.leaf[1], spot.column] + cables
        if flow.path[0] != first or flow.path[1] != up:
            rows[found], paths[found, 0], paths[found, 1] = f, first, up
            paths[found, 2], paths[found, 3] = down, last
            found += 1
    return found
