"""The kernels of a session whose links carry one flow each: decisions on small tables instead of lists of flows.

A *seat* is one column at one end of a flow: a link that is dead, free, one flow's, or shared. A *vertex* is a leaf or
a pod's switch of a plane, on the left where flows rise and on the right where they fall; its free columns are the bits
of one word. Where all demands are equal and no link can hold two, a column that is free at both ends is one AND. A
chain between two columns is then a path of the bipartite graph whose edges are flows and whose colours are columns
(Koenig 1916; Kempe), so it meets neither itself nor the far end of the flow that sets it off. All chains that can help
a flow are followed in step: the shortest ends first. What is decided is noted in a trail, and `chosen` lists it.
"""

from typing import NamedTuple

import numpy as np

from controller.planner.jit import Floats, Ints, Small, bare_kernel

DEBRUIJN = 0x03F79D71B4CB0A89
POSITIONS: Ints = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    POSITIONS[(DEBRUIJN << _bit & 2**64 - 1) >> 58] = _bit
MAX_FRONT, MAX_TRAIL, LONGEST = 128, 1 << 13, 1 << 10
"""Chains followed at once for a flow, changes noted at most, the longest chain."""


class Seats(NamedTuple):
    """The tables: `owner[vertex << shift | column]` is a flow, -1: free, -2: dead, -3: several; `free` has the words.

    The left vertices are the leaves, then the pods' switches (pod * planes + plane); the right ones begin at `right`.
    `spot[flow]` is source leaf, target leaf, column and core; -1: none, -2: not the same up and down.
    """

    right: int
    leaves: int
    planes: int
    shift: int
    owner: Small
    free: Ints
    spot: Small
    pod: Ints
    plane_of: Ints
    trail: Small
    front: Ints
    used: Ints


@bare_kernel
def _lowest(word: int) -> int:
    """Return the place of a word's lowest bit (Leiserson, Prokop, Randall 1998)."""
    return POSITIONS[(np.uint64(word & -word) * np.uint64(DEBRUIJN)) >> np.uint64(58)]


@bare_kernel
def _first(word: int, start: int) -> int:
    """Return the place of the first bit from `start` on, going round."""
    above = word & (-1 << start)
    return _lowest(above if above != 0 else word)


@bare_kernel
def _end(t: Seats, g: int, level: int, plane: int, right: int) -> int:
    """Return the vertex at one end of a flow."""
    leaf = t.spot[g, right]
    return right * t.right + (leaf if level == 0 else t.leaves + t.pod[leaf] * t.planes + plane)


@bare_kernel
def _vacate(t: Seats, g: int, vertex: int, column: int) -> None:
    seat = (vertex << t.shift) + column
    if t.owner[seat] == g:
        t.owner[seat] = -1
        t.free[vertex] |= 1 << column


@bare_kernel
def _occupy(t: Seats, g: int, vertex: int, column: int) -> None:
    seat = (vertex << t.shift) + column
    if t.owner[seat] == -1:
        t.owner[seat] = g
        t.free[vertex] &= ~(1 << column)


@bare_kernel
def _put(t: Seats, g: int, column: int, core: int) -> None:
    """Give a flow a column and a core, each -1 for none, that are free at both ends."""
    was, had = t.spot[g, 2], t.spot[g, 3]
    if had >= 0 and (had != core or was != column):
        plane = t.plane_of[was]
        _vacate(t, g, _end(t, g, 1, plane, 0), had)
        _vacate(t, g, _end(t, g, 1, plane, 1), had)
    if was != column:
        if was >= 0:
            _vacate(t, g, _end(t, g, 0, 0, 0), was)
            _vacate(t, g, _end(t, g, 0, 0, 1), was)
        if column >= 0:
            _occupy(t, g, _end(t, g, 0, 0, 0), column)
            _occupy(t, g, _end(t, g, 0, 0, 1), column)
    if core >= 0 and (had != core or was != column):
        plane = t.plane_of[column]
        _occupy(t, g, _end(t, g, 1, plane, 0), core)
        _occupy(t, g, _end(t, g, 1, plane, 1), core)
    t.spot[g, 2], t.spot[g, 3] = column, core


@bare_kernel
def _change(t: Seats, g: int, column: int, core: int) -> None:
    row = t.used[0]
    t.trail[row, 0], t.trail[row, 1], t.trail[row, 2] = g, t.spot[g, 2], t.spot[g, 3]
    t.used[0] = row + 1
    _put(t, g, column, core)


@bare_kernel
def _back(t: Seats, mark: int) -> None:
    """Take changes back, the last first."""
    while t.used[0] > mark:
        t.used[0] -= 1
        row = t.used[0]
        _put(t, t.trail[row, 0], t.trail[row, 1], t.trail[row, 2])


@bare_kernel
def _cores(t: Seats, g: int, column: int) -> int:
    """Return the cores free at both ends of a flow in a column's plane; all of them for one that needs none."""
    p, q = t.pod[t.spot[g, 0]], t.pod[t.spot[g, 1]]
    if t.planes == 0 or p == q:
        return -1
    at = t.leaves + t.plane_of[column]
    return t.free[at + p * t.planes] & t.free[t.right + at + q * t.planes]


@bare_kernel
def _steps(t: Seats, g: int, level: int, plane: int, column: int, right: int) -> int:
    """Return the vertex at the other end of the flow that has a column at its end `right`; -1 where none may move."""
    if g < 0 or t.spot[g, 2 + level] != column:
        return -1
    return _end(t, g, level, plane, 1 - right)


@bare_kernel
def _follow(t: Seats, level: int, plane: int, u: int, v: int) -> int:
    """Follow all chains between a column free at u and one free at v in step; return the first to end in `front`.

    A row of `front` is (vertex, column to come free there, the other column, the two as at the start and the end).
    """
    count = 0
    left = t.free[u] & ~t.free[v]
    while left != 0:
        a = _lowest(left)
        left &= left - 1
        rest = t.free[v] & ~t.free[u]
        while rest != 0 and count + 2 <= MAX_FRONT:
            b = _lowest(rest)
            rest &= rest - 1
            for side in range(2):
                into, out = (a, b) if side == 1 else (b, a)
                t.front[count, 0], t.front[count, 1], t.front[count, 2] = v if side == 1 else u, into, out
                t.front[count, 3], t.front[count, 4], t.front[count, 5] = into, out, side
                count += 1
    for length in range(1, LONGEST):
        alive = 0
        for i in range(count):
            vertex, into, out = t.front[i, 0], t.front[i, 1], t.front[i, 2]
            right = 1 if vertex >= t.right else 0
            far = _steps(t, t.owner[(vertex << t.shift) + into], level, plane, into, right)
            if far < 0:
                continue
            if t.free[far] >> out & 1:
                t.front[0, 3], t.front[0, 4], t.front[0, 5] = t.front[i, 3], t.front[i, 4], t.front[i, 5]
                return length
            t.front[alive, 0], t.front[alive, 1], t.front[alive, 2] = far, out, into
            t.front[alive, 3], t.front[alive, 4], t.front[alive, 5] = t.front[i, 3], t.front[i, 4], t.front[i, 5]
            alive += 1
        count = alive
        if count == 0:
            break
    return -1


@bare_kernel
def _turn(t: Seats, f: int, level: int, plane: int, into: int, out: int, right: int, length: int) -> bool:
    """Carry a chain out: its flows change places, f takes `into`; False where the trail is full."""
    mark = t.used[0]
    if mark + 4 * length + 8 > t.trail.shape[0]:
        return False
    vertex, column, other = _end(t, f, level, plane, right), into, out
    for _ in range(length):
        g = t.owner[(vertex << t.shift) + column]
        vertex = _end(t, g, level, plane, 1 - (1 if vertex >= t.right else 0))
        column, other = other, column
        row = t.used[0]
        t.trail[row, 0], t.trail[row, 1], t.trail[row, 2] = g, t.spot[g, 2], t.spot[g, 3]
        t.used[0] = row + 1
    for i in range(length):
        g = t.trail[mark + i, 0]
        _put(t, g, -1 if level == 0 else t.spot[g, 2], -1)
    for i in range(length):
        to = out if i % 2 == 0 else into
        g = t.trail[mark + i, 0]
        _change(t, g, to if level == 0 else t.spot[g, 2], -1 if level == 0 else to)
    _change(t, f, into if level == 0 else t.spot[f, 2], -1 if level == 0 else into)
    return True


@bare_kernel
def _one_step(t: Seats, f: int, plane: int) -> bool:
    """Give a flow a core of a plane where one other flow changes its core for that."""
    u, v = _end(t, f, 1, plane, 0), _end(t, f, 1, plane, 1)
    for right in range(2):
        here, there = (v, u) if right == 1 else (u, v)
        word = t.free[there] & ~t.free[here]
        while word != 0:
            into = _lowest(word)
            word &= word - 1
            far = _steps(t, t.owner[(here << t.shift) + into], 1, plane, into, right)
            if far >= 0 and t.free[far] & t.free[here] != 0:
                return _turn(t, f, 1, plane, into, _lowest(t.free[far] & t.free[here]), right, 1)
    return False


@bare_kernel
def _core(t: Seats, g: int) -> bool:
    """Give a flow that has its column a core, by a chain where none is free at both ends."""
    column = t.spot[g, 2]
    free, plane = _cores(t, g, column), t.plane_of[column]
    if t.planes == 0 or t.pod[t.spot[g, 0]] == t.pod[t.spot[g, 1]]:
        return True
    if free != 0:
        _change(t, g, column, _first(free, (3 * t.spot[g, 0] + 5 * t.spot[g, 1]) & ((1 << t.shift) - 1)))
        return True
    if _one_step(t, g, plane):
        return True
    length = _follow(t, 1, plane, _end(t, g, 1, plane, 0), _end(t, g, 1, plane, 1))
    return length > 0 and _turn(t, g, 1, plane, t.front[0, 3], t.front[0, 4], t.front[0, 5], length)


@bare_kernel
def _neighbour(t: Seats, f: int) -> int:
    """Return the best way to a column by which one other flow changes its own, as a packed number; -1: none.

    Best is where both find a core at once, then where one does.
    """
    u, v = _end(t, f, 0, 0, 0), _end(t, f, 0, 0, 1)
    best, chosen = -1, -1
    for right in range(2):
        here, there = (v, u) if right == 1 else (u, v)
        word = t.free[there] & ~t.free[here]
        while word != 0:
            into = _lowest(word)
            word &= word - 1
            g = t.owner[(here << t.shift) + into]
            far = _steps(t, g, 0, 0, into, right)
            if far < 0:
                continue
            outs, mine = t.free[far] & t.free[here], 2 if _cores(t, f, into) != 0 else 0
            while outs != 0:
                out = _lowest(outs)
                outs &= outs - 1
                worth = mine + (2 if _cores(t, g, out) != 0 else 0)
                if worth > best:
                    best, chosen = worth, right << 20 | into << 10 | out
                if best == 4:
                    return chosen | 1 << 21
    return chosen


@bare_kernel
def _seat(t: Seats, f: int) -> bool:
    """Seat a flow, with chains where nothing is free; False with what it changed still to be taken back."""
    u, v = _end(t, f, 0, 0, 0), _end(t, f, 0, 0, 1)
    direct = t.free[u] & t.free[v]
    word, start = direct, (7 * t.spot[f, 0] + 3 * t.spot[f, 1]) % t.plane_of.shape[0]
    while word != 0:
        column = _first(word, start)
        word &= ~(1 << column)
        if _cores(t, f, column) != 0:
            _change(t, f, column, -1)
            return _core(t, f)
    mark, word = t.used[0], direct
    while word != 0:
        column = _lowest(word)
        word &= word - 1
        _change(t, f, column, -1)
        if _one_step(t, f, t.plane_of[column]):
            return True
        _back(t, mark)
    near = _neighbour(t, f)
    word = direct if near < 1 << 21 else 0
    while word != 0:
        column = _lowest(word)
        word &= word - 1
        _change(t, f, column, -1)
        if _core(t, f):
            return True
        _back(t, mark)
    length = 1
    if near >= 0:
        into, out, right = near >> 10 & 1023, near & 1023, near >> 20 & 1
    else:
        length = _follow(t, 0, 0, u, v)
        into, out, right = t.front[0, 3], t.front[0, 4], t.front[0, 5]
    if length < 0 or not _turn(t, f, 0, 0, into, out, right, length):
        return False
    found = True
    for i in range(mark + length, mark + 2 * length + 1):
        found = found and _core(t, t.trail[i, 0])
    return found


@bare_kernel
def seat(t: Seats, rows: Ints, begin: int, most: int, bound: Floats, below: float) -> int:
    """Seat flows one after the other, noted in the trail; return the first row that cannot be, or how many there are.

    `bound` is as in `chains.place`; a flow whose cuts ask for `below` or more is left to that: its links hold several.
    """
    pods = (t.right - t.leaves) // max(t.planes, 1)
    for i in range(begin, rows.shape[0]):
        f, mark = rows[i], t.used[0]
        u, v = t.spot[f, 0], t.spot[f, 1]
        if u == v:
            continue
        p, q, low = t.pod[u], t.pod[v], max(bound[u], bound[t.leaves + v])
        if t.planes > 0 and p != q:
            low = max(low, max(bound[2 * t.leaves + p], bound[2 * t.leaves + pods + q]))
        if low >= below or mark + 64 > most or not _seat(t, f) or t.used[0] > most:
            _back(t, mark)
            return i
    return rows.shape[0]


@bare_kernel
def chosen(
    t: Seats,
    cables: int,
    up_leaf: Ints,
    up_plane: Ints,
    flow: Ints,
    path: int,
    stamp: int,
    tick: int,
    rows: Ints,
    paths: Ints,
) -> int:
    """List every flow of the trail once whose path has changed, and its path to be; return how many.

    `path` and `stamp` are columns of `flow`, `tick` a stamp that no flow has yet.
    """
    found = 0
    for i in range(t.used[0]):
        f = t.trail[i, 0]
        if flow[f, stamp] == tick:
            continue
        flow[f, stamp] = tick
        column, core, up, down = t.spot[f, 2], t.spot[f, 3], -1, -1
        if core >= 0:
            plane = t.plane_of[column]
            up = up_plane[t.pod[t.spot[f, 0]] * t.planes + plane, core]
            down = up_plane[t.pod[t.spot[f, 1]] * t.planes + plane, core] + cables
        first, last = up_leaf[t.spot[f, 0], column], up_leaf[t.spot[f, 1], column] + cables
        if flow[f, path] != first or flow[f, path + 1] != up:
            rows[found], paths[found, 0], paths[found, 1] = f, first, up
            paths[found, 2], paths[found, 3] = down, last
            found += 1
    return found
