"""Kernels that route the flows of an incast over as few top switches as possible, for `incast.incast`.

The flows into one leaf go over as few tops as the free capacity (`room`, in bit/s) of every link allows. The choice of
tops is a set cover, so it is greedy (Chvatal, A greedy heuristic for the set-covering problem, 1979). A path is two
segments that meet (`controller.planner.ground.segments`).
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel, kernel
from heddle.controller.planner.ground.ordered import first_from
from heddle.controller.planner.ground.segments import Net, admissible, segment_link


class Scratch(NamedTuple):
    """Space for one incast, allocated once: kernels without arrays of their own compile and run faster.

    By top switch above the receiver's leaf: its number, the capacity in bit/s that is free downwards, and flags. By
    flow that waits for a path over another top: its number and the two segments of that path.
    """

    top: Ints
    space: Floats
    chosen: Flags
    tried: Flags
    unplaced: Ints
    seg_u: Ints
    seg_w: Ints


@bare_kernel
def _roomiest(net: Net, room: Floats, a: int, b: int, t: int, demand: float) -> tuple[int, int]:
    """Return the path from leaf a to leaf b over top t with the most room, as two segments; -1 where none fits."""
    start, top = net.start, net.top
    best_u, best_w, best = -1, -1, demand
    u, begin = first_from(top, start[a], start[a + 1], t), first_from(top, start[b], start[b + 1], t)
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


@bare_kernel
def _cover(
    net: Net, room: Floats, source: Ints, b: int, demand: Floats, scratch: Scratch, count: int, t: int
) -> float:  # fmt: skip
    """Put as many of `count` unplaced flows as fit on paths over top t; return the sum of their demands."""
    covered = 0.0
    for i in range(count):
        f = scratch.unplaced[i]
        u, w = _roomiest(net, room, source[f], b, t, demand[f])
        scratch.seg_u[i], scratch.seg_w[i] = u, w
        if u >= 0:
            covered += demand[f]
            _occupy(net, room, u, w, demand[f])
    return covered


@bare_kernel
def _occupy(net: Net, room: Floats, u: int, w: int, demand: float) -> None:
    """Take room, or release it where the demand is negative, on the links of a path of two segments."""
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link >= 0:
            room[link] -= demand


@bare_kernel
def _uncover(net: Net, room: Floats, demand: Floats, scratch: Scratch, count: int) -> None:
    """Return the room that `_cover` has taken."""
    for i in range(count):
        if scratch.seg_u[i] >= 0:
            _occupy(net, room, scratch.seg_u[i], scratch.seg_w[i], -demand[scratch.unplaced[i]])


@bare_kernel
def _settle(net: Net, hops: Ints, scratch: Scratch, count: int) -> int:
    """Write the new paths of the covered flows to `hops`; return how many flows still wait."""
    left = 0
    for i in range(count):
        f = scratch.unplaced[i]
        if scratch.seg_u[i] < 0:
            scratch.unplaced[left] = f
            left += 1
            continue
        column = 0
        for step in range(4):
            link = segment_link(net, scratch.seg_u[i], scratch.seg_w[i], step)
            if link >= 0:
                hops[f, column] = link
                column += 1
        for rest in range(column, hops.shape[1]):
            hops[f, rest] = -1
    return left


@bare_kernel
def _charge(
    room: Floats, hops: Ints, rows: Ints, first: int, last: int, demand: Floats, sign: float
) -> None:  # fmt: skip
    """Release (sign 1) or take (-1) the room that flows use."""
    for i in range(first, last):
        for column in range(hops.shape[1]):
            if hops[rows[i], column] >= 0:
                room[hops[rows[i], column]] += sign * demand[rows[i]]


@bare_kernel
def _tops_of(net: Net, room: Floats, b: int, scratch: Scratch) -> int:
    """Find the tops above a leaf, rising, and the capacity in bit/s that is free downwards from each; return how many.

    None of them is chosen.
    """
    start, first, second, cables = net.start, net.first, net.second, net.cables
    top, space, count = scratch.top, scratch.space, 0
    for w in range(start[b], start[b + 1]):
        if count == 0 or top[count - 1] != net.top[w]:
            top[count], space[count], scratch.chosen[count] = net.top[w], 0.0, False
            count += 1
        least = room[first[w] + cables]
        if second[w] >= 0:
            least = min(least, room[second[w] + cables])
        space[count - 1] += max(0.0, least)
    return count


@bare_kernel
def _fewest(scratch: Scratch, tops: int, amount: float, limit: int) -> int:
    """Return the least number of further tops that an amount of traffic needs; limit + 1 where it exceeds `limit`."""
    space, taken, count = scratch.space, scratch.tried, 0
    for t in range(tops):
        taken[t] = scratch.chosen[t]
        if taken[t]:
            amount -= space[t]
    while amount > 0 and count <= limit:
        largest = -1
        for t in range(tops):
            if not taken[t] and (largest < 0 or space[t] > space[largest]):
                largest = t
        if largest < 0:
            return limit + 1
        taken[largest] = True
        amount -= space[largest]
        count += 1
    return count


@bare_kernel
def _next_candidate(scratch: Scratch, tops: int, amount: float, shy: Floats, best: float) -> int:
    """Return the top to try next: of those that may take all, the one that bystanders use least, else the largest."""
    space, found = scratch.space, -1
    for t in range(tops):
        if scratch.tried[t] or space[t] <= best:
            continue
        if found < 0:
            found = t
        elif (space[t] >= amount) != (space[found] >= amount):
            found = t if space[t] >= amount else found
        elif space[t] >= amount:
            found = t if shy[scratch.top[t]] < shy[scratch.top[found]] else found
        elif space[t] > space[found]:
            found = t
    return found


@bare_kernel
def _best_top(
    net: Net, room: Floats, source: Ints, b: int, demand: Floats, scratch: Scratch, tops: int, count: int, shy: Floats
) -> tuple[int, int]:  # fmt: skip
    """Return the top, of up to 16 candidates, that takes most of the unplaced flows, and the number of candidates.

    The top is -1 where none takes any.
    """
    amount, best, winner, tries = 0.0, 0.0, -1, 0
    for i in range(count):
        amount += demand[scratch.unplaced[i]]
    for t in range(tops):
        scratch.tried[t] = scratch.chosen[t]
    while tries < 16 and best < amount:
        t = _next_candidate(scratch, tops, amount, shy, best)
        if t < 0:
            break
        scratch.tried[t] = True
        tries += 1
        covered = _cover(net, room, source, b, demand, scratch, count, scratch.top[t])
        _uncover(net, room, demand, scratch, count)
        if covered > best:
            best, winner = covered, t
    return winner, tries


@bare_kernel
def _gather(
    net: Net, room: Floats, source: Ints, b: int, demand: Floats, hops: Ints, scratch: Scratch, count: int, held: Ints,
    used: int, most: int, shy: Floats, tries: int,
) -> tuple[int, float, int, int]:  # fmt: skip
    """Route `count` unplaced flows to leaf b over at most `most` tops, the `used` ones that are `held` included.

    Returns the number of tops, the traffic of bystanders on them, the tries that are left, and how many flows still
    wait. Those keep their old hops, and no room is taken for them.
    """
    tops, place, shyness, amount = _tops_of(net, room, b, scratch), 0, 0.0, 0.0
    for i in range(used):
        shyness += shy[held[i]]
        while place < tops and scratch.top[place] < held[i]:
            place += 1
        if place < tops and scratch.top[place] == held[i]:
            scratch.chosen[place] = True
    for i in range(count):
        amount += demand[scratch.unplaced[i]]
    if used + _fewest(scratch, tops, amount, most - used) > most:
        return most + 1, shyness, tries, count
    for t in range(tops):
        if scratch.chosen[t] and count:
            tries -= count
            _cover(net, room, source, b, demand, scratch, count, scratch.top[t])
            count = _settle(net, hops, scratch, count)
    while count and used < most and tries > 0:
        winner, tried = _best_top(net, room, source, b, demand, scratch, tops, count, shy)
        tries -= tried * count
        if winner < 0:
            break
        _cover(net, room, source, b, demand, scratch, count, scratch.top[winner])
        count = _settle(net, hops, scratch, count)
        scratch.chosen[winner] = True
        used += 1
        shyness += shy[scratch.top[winner]]
    return used, shyness, tries, count


@kernel
def top_of_paths(hops: Ints, upper: Ints) -> Ints:
    """Return the highest switch of each path, -1 for one inside a leaf."""
    cables, tops = upper.shape[0], np.full(hops.shape[0], -1, np.int64)
    for f in range(hops.shape[0]):
        for column in range(hops.shape[1]):
            if 0 <= hops[f, column] < cables:
                tops[f] = upper[hops[f, column]]
    return tops


@bare_kernel
def _tops_in_use(hops: Ints, rows: Ints, first: int, last: int, upper: Ints, tops: Ints) -> int:
    """Write the highest switches of the paths of flows to `tops`, rising; return how many there are."""
    count = 0
    for i in range(first, last):
        top = -1
        for column in range(hops.shape[1]):
            if 0 <= hops[rows[i], column] < upper.shape[0]:
                top = upper[hops[rows[i], column]]
        low = first_from(tops, 0, count, top)
        if top >= 0 and (low == count or tops[low] != top):
            for place in range(count, low, -1):
                tops[place] = tops[place - 1]
            tops[low] = top
            count += 1
    return count


@kernel
def confine(
    net: Net, room: Floats, source: Ints, target: Ints, demand: Floats, hops: Ints, upper: Ints, rows: Ints,
    begin: Ints, shy: Floats, tries: int, failures: int,
) -> int:  # fmt: skip
    """Confine each incast: of number i, the flows `rows` from begin[2 i] may move, those from begin[2 i + 1] stay.

    Those that may move are in the order of their demands, the largest first. Stops after `failures` failures in a row:
    in an all-to-all every incast is alike. Returns the tries left.
    """
    switches, flows, failed = shy.shape[0], rows.shape[0], 0
    scratch = Scratch(
        np.empty(switches, np.int64), np.empty(switches), np.empty(switches, np.bool_), np.empty(switches, np.bool_),
        np.empty(flows, np.int64), np.empty(flows, np.int64), np.empty(flows, np.int64),
    )  # fmt: skip
    in_use, known = np.empty(switches, np.int64), np.empty((flows, hops.shape[1]), np.int64)
    for i in range(begin.shape[0] // 2):
        first, middle, last = begin[2 * i], begin[2 * i + 1], begin[2 * i + 2]
        if first == middle:
            continue
        if tries <= 0 or failed == failures:
            break
        before, before_shy = _tops_in_use(hops, rows, first, last, upper, in_use), 0.0
        for t in range(before):
            before_shy += shy[in_use[t]]
        if before <= 1 and before_shy == 0.0:
            continue
        held, count = _tops_in_use(hops, rows, middle, last, upper, in_use), middle - first
        for j in range(count):
            scratch.unplaced[j] = rows[first + j]
            for column in range(hops.shape[1]):
                known[j, column] = hops[rows[first + j], column]
        _charge(room, hops, rows, first, middle, demand, 1.0)
        used, shyness, tries, count = _gather(
            net, room, source, target[rows[first]], demand, hops, scratch, count, in_use, held, before, shy, tries
        )
        if count == 0 and (used < before or (used == before and shyness < before_shy)):
            failed = 0
            continue
        failed += 1
        _charge(room, hops, rows, first, middle, demand, 1.0)
        _charge(room, hops, scratch.unplaced, 0, count, demand, -1.0)
        for j in range(middle - first):
            for column in range(hops.shape[1]):
                hops[rows[first + j], column] = known[j, column]
        _charge(room, hops, rows, first, middle, demand, -1.0)
    return tries


@kernel
def with_senders(src_nic: Ints, dst_nic: Ints, nics: int) -> Flags:
    """Return the NICs to which two or more others send."""
    sender, several = np.full(nics, -1, np.int64), np.zeros(nics, np.bool_)
    for f in range(dst_nic.shape[0]):
        into = dst_nic[f]
        if sender[into] < 0:
            sender[into] = src_nic[f]
        elif sender[into] != src_nic[f]:
            several[into] = True
    return several


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
