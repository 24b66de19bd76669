"""Kernels that route the flows of an incast over as few top switches as possible, for `incast.incast`.

The flows into one leaf go over as few tops as the free capacity (`room`, in bit/s) of every link allows. The choice of
tops is a set cover, so it is greedy (Chvatal, A greedy heuristic for the set-covering problem, 1979). A path is two
segments that meet (`controller.planner.search.segments`).
"""

import numpy as np

from controller.planner.jit import Flags, Floats, Ints, bare_kernel, kernel
from controller.planner.search.segments import Net, admissible, segment_link


@bare_kernel
def _begin_of(net: Net, leaf: int, t: int) -> int:
    """Return the first of a leaf's segments whose top is at least switch t (binary search)."""
    start, top = net.start, net.top
    low, high = start[leaf], start[leaf + 1]
    while low < high:
        half = (low + high) // 2
        if top[half] < t:
            low = half + 1
        else:
            high = half
    return low


@bare_kernel
def _roomiest(net: Net, room: Floats, a: int, b: int, t: int, demand: float) -> tuple[int, int]:
    """Return the path from leaf a to leaf b over top t with the most room, as two segments; -1 where none fits."""
    start, top = net.start, net.top
    best_u, best_w, best = -1, -1, demand
    u, begin = _begin_of(net, a, t), _begin_of(net, b, t)
    while u < start[a + 1] and top[u] == t:
        w = begin
        while w < start[b + 1] and top[w] == t:
            if admissible(net, u, w, a, b, False):
                least = 1e30
                for step in range(4):
                    link = segment_link(net, u, w, step)
                    if link >= 0:
                        least = min(least, room[link])
                if least >= demand and (best_u < 0 or least > best):
                    best_u, best_w, best = u, w, least
            w += 1
        u += 1
    return best_u, best_w


@kernel
def _cover(
    net: Net, room: Floats, source: Ints, b: int, demand: Floats, waiting: Ints, t: int, seg_u: Ints, seg_w: Ints
) -> float:  # fmt: skip
    """Put as many waiting flows as fit on paths over top t; return the sum of their demands."""
    covered = 0.0
    for i in range(waiting.shape[0]):
        f = waiting[i]
        seg_u[i], seg_w[i] = _roomiest(net, room, source[f], b, t, demand[f])
        if seg_u[i] >= 0:
            covered += demand[f]
            for step in range(4):
                link = segment_link(net, seg_u[i], seg_w[i], step)
                if link >= 0:
                    room[link] -= demand[f]
    return covered


@kernel
def _uncover(net: Net, room: Floats, demand: Floats, waiting: Ints, seg_u: Ints, seg_w: Ints) -> None:
    """Return the room that `_cover` has taken."""
    for i in range(waiting.shape[0]):
        if seg_u[i] >= 0:
            for step in range(4):
                link = segment_link(net, seg_u[i], seg_w[i], step)
                if link >= 0:
                    room[link] += demand[waiting[i]]


@kernel
def _settle(net: Net, hops: Ints, waiting: Ints, seg_u: Ints, seg_w: Ints) -> Ints:
    """Write the new paths of the covered flows to `hops`; return the flows that still wait."""
    left, count = np.empty(waiting.shape[0], np.int64), 0
    for i in range(waiting.shape[0]):
        if seg_u[i] < 0:
            left[count] = waiting[i]
            count += 1
            continue
        column = 0
        hops[waiting[i], :] = -1
        for step in range(4):
            link = segment_link(net, seg_u[i], seg_w[i], step)
            if link >= 0:
                hops[waiting[i], column] = link
                column += 1
    return left[:count].copy()


@bare_kernel
def _charge(room: Floats, hops: Ints, rows: Ints, demand: Floats, sign: float) -> None:
    """Release (sign 1) or take (-1) the room that flows use."""
    for f in rows:
        for column in range(hops.shape[1]):
            if hops[f, column] >= 0:
                room[hops[f, column]] += sign * demand[f]


@kernel
def _tops_of(net: Net, room: Floats, b: int) -> tuple[Ints, Floats]:
    """Return the tops above a leaf and the capacity in bit/s that is free downwards from each."""
    start, first, second, top, cables = net.start, net.first, net.second, net.top, net.cables
    size = start[b + 1] - start[b]
    tops, space, count = np.empty(size, np.int64), np.zeros(size), 0
    for w in range(start[b], start[b + 1]):
        if count == 0 or tops[count - 1] != top[w]:
            tops[count] = top[w]
            count += 1
        least = room[first[w] + cables]
        if second[w] >= 0:
            least = min(least, room[second[w] + cables])
        space[count - 1] += max(0.0, least)
    return tops[:count].copy(), space[:count].copy()


@kernel
def _fewest(space: Floats, chosen: Flags, amount: float) -> int:
    """Return the least number of further tops that an amount of traffic needs."""
    free = np.sort(space[~chosen])
    for t in range(space.shape[0]):
        if chosen[t]:
            amount -= space[t]
    count = 0
    while amount > 0 and count < free.shape[0]:
        count += 1
        amount -= free[free.shape[0] - count]
    return count if amount <= 0 else space.shape[0] + 1


@bare_kernel
def _next_candidate(space: Floats, tried: Flags, amount: float, shy: Floats, tops: Ints, best: float) -> int:
    """Return the top to try next: of those that may take all, the one that bystanders use least, else the largest."""
    found = -1
    for t in range(tops.shape[0]):
        if tried[t] or space[t] <= best:
            continue
        if found < 0:
            found = t
        elif (space[t] >= amount) != (space[found] >= amount):
            found = t if space[t] >= amount else found
        elif space[t] >= amount:
            found = t if shy[tops[t]] < shy[tops[found]] else found
        elif space[t] > space[found]:
            found = t
    return found


@kernel
def _gather(
    net: Net, room: Floats, source: Ints, b: int, demand: Floats, hops: Ints, rows: Ints, held: Ints, most: int,
    shy: Floats, tries: int,
) -> tuple[int, float, int, Ints]:  # fmt: skip
    """Route the flows `rows` to leaf b over at most `most` tops, those `held` included.

    Returns the number of tops, the traffic of bystanders on them, the tries that are left, and the flows that found
    no room. Those keep their old hops, and no room is taken for them.
    """
    tops, space = _tops_of(net, room, b)
    chosen, used, shyness = np.zeros(tops.shape[0], np.bool_), 0, 0.0
    for t in held:
        used += 1
        shyness += shy[t]
        place = np.searchsorted(tops, t)
        if place < tops.shape[0] and tops[place] == t:
            chosen[place] = True
    waiting = rows[np.argsort(-demand[rows], kind="mergesort")]
    if used + _fewest(space, chosen, demand[rows].sum()) > most:
        return most + 1, shyness, tries, waiting
    seg_u, seg_w = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int64)
    for t in range(tops.shape[0]):
        if chosen[t] and waiting.shape[0]:
            tries -= waiting.shape[0]
            _cover(net, room, source, b, demand, waiting, tops[t], seg_u, seg_w)
            waiting = _settle(net, hops, waiting, seg_u, seg_w)
    while waiting.shape[0] and used < most and tries > 0:
        tried, best, winner, amount = chosen.copy(), 0.0, -1, demand[waiting].sum()
        for _ in range(16):
            t = _next_candidate(space, tried, amount, shy, tops, best)
            if t < 0 or best >= amount:
                break
            tried[t] = True
            tries -= waiting.shape[0]
            covered = _cover(net, room, source, b, demand, waiting, tops[t], seg_u, seg_w)
            _uncover(net, room, demand, waiting, seg_u, seg_w)
            if covered > best:
                best, winner = covered, t
        if winner < 0:
            break
        _cover(net, room, source, b, demand, waiting, tops[winner], seg_u, seg_w)
        waiting = _settle(net, hops, waiting, seg_u, seg_w)
        chosen[winner] = True
        used += 1
        shyness += shy[tops[winner]]
    return used, shyness, tries, waiting


@kernel
def top_of_paths(hops: Ints, upper: Ints) -> Ints:
    """Return the highest switch of each path, -1 for one inside a leaf."""
    cables, tops = upper.shape[0], np.full(hops.shape[0], -1, np.int64)
    for f in range(hops.shape[0]):
        for column in range(hops.shape[1]):
            if 0 <= hops[f, column] < cables:
                tops[f] = upper[hops[f, column]]
    return tops


@kernel
def _tops_in_use(hops: Ints, rows: Ints, upper: Ints) -> Ints:
    """Return the highest switches of the paths of the flows `rows`, sorted (np.unique takes 2 s to compile)."""
    tops, count = np.empty(rows.shape[0], np.int64), 0
    for f in rows:
        top = -1
        for column in range(hops.shape[1]):
            if 0 <= hops[f, column] < upper.shape[0]:
                top = upper[hops[f, column]]
        low, high = 0, count
        while low < high:
            half = (low + high) // 2
            if tops[half] < top:
                low = half + 1
            else:
                high = half
        if top >= 0 and (low == count or tops[low] != top):
            for place in range(count, low, -1):
                tops[place] = tops[place - 1]
            tops[low] = top
            count += 1
    return tops[:count].copy()


@kernel
def confine(
    net: Net, room: Floats, source: Ints, target: Ints, demand: Floats, hops: Ints, upper: Ints, free: Flags,
    rows: Ints, begin: Ints, shy: Floats, tries: int, failures: int,
) -> int:  # fmt: skip
    """Confine each incast: number i has the flows rows[begin[i]:begin[i + 1]], of which the `free` ones may move.

    Stops after `failures` failures in a row: in an all-to-all every incast is alike. Returns the tries left.
    """
    failed = 0
    for i in range(begin.shape[0] - 1):
        members = rows[begin[i] : begin[i + 1]]
        moving, staying = members[free[members]], members[~free[members]]
        if moving.shape[0] == 0:
            continue
        if tries <= 0 or failed == failures:
            break
        tops, held = _tops_in_use(hops, members, upper), _tops_in_use(hops, staying, upper)
        before, before_shy = tops.shape[0], 0.0
        for t in tops:
            before_shy += shy[t]
        if before <= 1 and before_shy == 0.0:
            continue
        known = hops[moving].copy()
        _charge(room, hops, moving, demand, 1.0)
        used, shyness, tries, waiting = _gather(
            net, room, source, target[moving[0]], demand, hops, moving, held, before, shy, tries
        )
        if waiting.shape[0] == 0 and (used < before or (used == before and shyness < before_shy)):
            failed = 0
            continue
        failed += 1
        _charge(room, hops, moving, demand, 1.0)
        _charge(room, hops, waiting, demand, -1.0)
        for j in range(moving.shape[0]):
            hops[moving[j], :] = known[j]
        _charge(room, hops, moving, demand, -1.0)
    return tries


@kernel
def crowded(src_nic: Ints, dst_nic: Ints, entering: Floats, limit: Floats) -> Flags:
    """Return the NICs to which two or more senders together send more than the limit."""
    sender, crowded = np.full(limit.shape[0], -1), np.zeros(limit.shape[0], np.bool_)
    for f in range(dst_nic.shape[0]):
        into = dst_nic[f]
        if sender[into] < 0:
            sender[into] = src_nic[f]
        elif sender[into] != src_nic[f]:
            crowded[into] = entering[into] > limit[into]
    return crowded


@kernel
def grouped(rows: Ints, group: Ints, groups: int) -> tuple[Ints, Ints]:
    """Sort rows by their group (-1: left out), in order inside each; return them and where each group begins."""
    begin = np.zeros(groups + 1, np.int64)
    for number in group:
        if number >= 0:
            begin[number + 1] += 1
    for number in range(groups):
        begin[number + 1] += begin[number]
    cursor, found = begin[:-1].copy(), np.empty(begin[groups], np.int64)
    for i in range(rows.shape[0]):
        if group[i] >= 0:
            found[cursor[group[i]]] = rows[i]
            cursor[group[i]] += 1
    return found, begin
