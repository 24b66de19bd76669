"""Tabu search for the fewest slowed flows, on any fabric, for flows that all run at once.

A link over 1 slows the flows whose demand is above their fair share of it. A flow counts once, however many links slow
it: the search gains where the same flows cross the links over 1 of both their leaves, which a sum over links hides.
Beside that it follows the rules of `relax`.
"""

from typing import Any, NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Flags, Floats, Ints, Rows, bare_kernel, kernel, row
from heddle.controller.planner.ground.segments import LoadedNet, admissible, segment_link
from heddle.controller.planner.search.on_link import Lists, depart, join
from heddle.controller.planner.search.relax import EVEN, FULL, LINGER, MAX_TRIED, ROUNDING

MAX_FILLINGS = 8
"""The passes over the flows of a link that compute its fair share; where it takes more, too many flows count."""

CROWD = row([("room", np.float64), ("share", np.float64), ("flows", np.int64), ("place", np.int64)])
"""A link: its capacity in bit/s beside other traffic, the demand above which it slows a flow (FULL for a link within
1), its flows, and its place among the links over 1, or -1."""
TALLY = row([("slowed", np.int64), ("over", np.int64), ("above", np.int64), ("penalty", np.float64)])
"""How many flows are slowed, how many links are over 1, how many are above the cap, and the cost of a link above the
cap in slowed flows."""


class Crowded(NamedTuple):
    """The flows of a search, and what their links are like.

    `slowing` is the number of links that slow a flow, `until` the step up to which it stays where it is. The links over
    1 are the first of `over`. `tally` has one row of `TALLY`, `cap` is a utilisation.
    """

    source: Ints
    target: Ints
    demand: Floats
    free: Flags
    hops: Ints
    lists: Lists
    slowing: Ints
    until: Ints
    crowd: Rows
    over: Ints
    tally: Rows
    cap: float


@bare_kernel
def _share(net: LoadedNet, s: Crowded, link: int, more: float) -> float:
    """Return the demand above which a link slows a flow, with one more flow of `more` bit/s (0: none)."""
    if (net.load[link] + more) * net.inverse[link] <= 1 + ROUNDING:
        return FULL
    flows, share, last = s.crowd[link].flows + (1 if more > 0 else 0), 0.0, -1
    for _ in range(MAX_FILLINGS):
        left, rest = s.crowd[link].room, flows
        if 0.0 < more <= share:
            left, rest = left - more, rest - 1
        node = s.lists.head[link] if share > 0.0 else -1
        while node >= 0:
            if s.demand[node >> 2] <= share:
                left, rest = left - s.demand[node >> 2], rest - 1
            node = s.lists.after[node]
        if rest == last or rest == 0:
            break
        share, last = left / rest, rest
    return max(share, 0.0) * (1 + ROUNDING)


@bare_kernel
def _slow(s: Crowded, f: int, links: int) -> None:
    """Note that so many more links slow flow f."""
    before = s.slowing[f]
    s.slowing[f] = before + links
    s.tally[0].slowed += (1 if before + links > 0 else 0) - (1 if before > 0 else 0)


@bare_kernel
def _list_over(s: Crowded, link: int) -> None:
    """Append a link to those over 1."""
    s.crowd[link].place = s.tally[0].over
    s.over[s.tally[0].over] = link
    s.tally[0].over += 1


@bare_kernel
def _update(net: LoadedNet, s: Crowded, link: int) -> None:
    """Recompute the share of a link after its flows changed."""
    crowd: Any = s.crowd[link]
    old, new = crowd.share, _share(net, s, link, 0.0)
    if new == old:
        return
    crowd.share, node = new, s.lists.head[link]
    while node >= 0:
        wanted = s.demand[node >> 2]
        if (wanted > old) != (wanted > new):
            _slow(s, node >> 2, 1 if wanted > new else -1)
        node = s.lists.after[node]
    if new < FULL and crowd.place < 0:
        _list_over(s, link)
    elif new >= FULL and crowd.place >= 0:
        s.tally[0].over -= 1
        last = s.over[s.tally[0].over]
        s.over[crowd.place] = last
        s.crowd[last].place = crowd.place
        crowd.place = -1


@bare_kernel
def _take(net: LoadedNet, s: Crowded, f: int, sign: int) -> float:
    """Put flow f on the links of its path (sign 1), or take it off (-1); return the change of the cost."""
    even, slowed, above = 0.0, s.tally[0].slowed, s.tally[0].above
    for step in range(4):
        link = s.hops[f, step]
        if link < 0:
            continue
        use = net.load[link] * net.inverse[link]
        net.load[link] += sign * s.demand[f]
        new = net.load[link] * net.inverse[link]
        even += EVEN * (new * new - use * use)
        s.crowd[link].flows += sign
        s.tally[0].above += (1 if new > s.cap else 0) - (1 if use > s.cap else 0)
        if s.demand[f] > s.crowd[link].share:
            _slow(s, f, sign)
        if sign > 0:
            join(s.lists, link, 4 * f + step)
        else:
            depart(s.lists, link, 4 * f + step)
        _update(net, s, link)
    return even + (s.tally[0].slowed - slowed) + s.tally[0].penalty * (s.tally[0].above - above)


@bare_kernel
def _enter(net: LoadedNet, s: Crowded) -> None:
    """Put all flows on the links of their paths, and compute the share of each link once, after its last flow."""
    for f in range(s.hops.shape[0]):
        for step in range(4):
            link = s.hops[f, step]
            if link < 0:
                continue
            net.load[link] += s.demand[f]
            s.crowd[link].flows += 1
            join(s.lists, link, 4 * f + step)
            if s.crowd[link].place < 0 and net.load[link] * net.inverse[link] > 1 + ROUNDING:
                _list_over(s, link)
    for link in range(net.load.shape[0]):
        use = net.load[link] * net.inverse[link]
        s.tally[0].above += 1 if use > s.cap else 0
        if use > 1 + ROUNDING:  # the others slow no flow
            _update(net, s, link)


@bare_kernel
def _added(net: LoadedNet, s: Crowded, f: int, u: int, w: int, shun: int, least: float) -> float:
    """Return the cost that flow f adds on a path of two segments without link `shun`; from `least` on, not exact."""
    total, own, demand = 0.0, 0.0, s.demand[f]
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link == shun:
            return FULL
        if link < 0:
            continue
        use, new = net.load[link] * net.inverse[link], (net.load[link] + demand) * net.inverse[link]
        total += EVEN * (new * new - use * use)
        if use <= s.cap < new:
            total += s.tally[0].penalty
        if new > 1 + ROUNDING and total + own < least:
            share, node = _share(net, s, link, demand), s.lists.head[link]
            own = 1.0 if demand > share else own
            while node >= 0:
                total += 1.0 if s.slowing[node >> 2] == 0 and s.demand[node >> 2] > share else 0.0
                node = s.lists.after[node]
        if total + own >= least:
            break
    return total + own


@bare_kernel
def _best(net: LoadedNet, s: Crowded, f: int, turn: int, shun: int) -> tuple[int, int, float, int]:
    """Return the best path of flow f as two segments (-1: none), its cost and the number of paths evaluated.

    The cost is what flow f adds on a path without link `shun`. Paths are tried from number `turn` of the segments on;
    the first of equal ones is chosen.
    """
    start, top, a, b = net.start, net.top, s.source[f], s.target[f]
    size, tried, best_u, best_w, least = start[a + 1] - start[a], 0, -1, -1, FULL
    for late in range(2):
        w, begin = start[b], turn % max(size, 1)
        for i in range(begin, begin + size):
            u = start[a] + i % size
            if i == size:
                w = start[b]  # the tops begin again
            while w < start[b + 1] and top[w] < top[u]:
                w += 1
            other = w
            while other < start[b + 1] and top[other] == top[u]:
                if admissible(net, u, other, a, b, late == 1):
                    tried += 1
                    cost = _added(net, s, f, u, other, shun, least)
                    if cost < least:
                        best_u, best_w, least = u, other, cost
                other += 1
        if tried > 0:
            break
    return best_u, best_w, least, tried


@bare_kernel
def _choose(net: LoadedNet, s: Crowded, at_step: int, draw: int) -> tuple[int, int, int, int]:
    """Return the flow to move off a random link over 1, its new segments, and the paths evaluated."""
    link = s.over[(draw >> 8) % s.tally[0].over]
    chosen, to_u, to_w, least, paths, tried, node = -1, -1, -1, FULL, 1, 0, s.lists.head[link]
    while node >= 0 and tried < MAX_TRIED:
        f, following = node >> 2, s.lists.after[node]
        if s.until[f] <= at_step and s.free[f] and s.demand[f] > 0:
            tried += 1
            change = _take(net, s, f, -1)
            u, w, more, seen = _best(net, s, f, draw >> 5, link)
            _take(net, s, f, 1)
            paths += seen
            if u >= 0 and more < FULL and change + more < least:
                chosen, to_u, to_w, least = f, u, w, change + more
        node = following
    return chosen, to_u, to_w, paths


@bare_kernel
def _walk(
    net: LoadedNet, s: Crowded, flow: Ints, before: Ints, paths: int, patience: int
) -> tuple[int, int, int]:  # fmt: skip
    """Move flows until none is slowed or the work is done.

    Returns the moves, the moves up to the lowest cost, and the flows that are slowed there. `flow` and `before` take
    the flow and the former path of each move.
    """
    draw, at_step, moves, best, cost, least, slowed, enough = (
        1,
        0,
        0,
        0,
        0.0,
        -1e-12,
        s.tally[0].slowed,
        paths - patience,
    )
    while s.tally[0].over > 0 and moves < flow.shape[0] and paths > max(enough, 0):
        at_step += 1
        draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF
        f, u, w, seen = _choose(net, s, at_step, draw)
        paths -= seen
        if f < 0:
            continue
        flow[moves] = f
        cost += _take(net, s, f, -1)
        for step in range(4):
            before[moves, step], s.hops[f, step] = s.hops[f, step], segment_link(net, u, w, step)
        cost += _take(net, s, f, 1)
        moves += 1
        s.until[f] = at_step + LINGER + (draw >> 11) % LINGER
        if s.tally[0].above == 0 and cost < least:
            least, best, slowed, enough = cost - 1e-12, moves, s.tally[0].slowed, paths - patience
    return moves, best, slowed


@kernel
def slow_fewer(net: LoadedNet, s: Crowded, penalties: Floats, steps: int, paths: int, patience: int) -> None:
    """Search from the paths in `s.hops`, none above the cap, and write the best ones there.

    There is one search per penalty, each from the best paths of the one before. A penalty that follows an equal one is
    skipped if that search did not reduce the slowed flows. `net.load` is the load of other traffic; `s` has no loads
    yet. A search stops after `steps` moves, `paths` evaluated paths, or `patience` of them without an improvement.
    """
    for link in range(net.load.shape[0]):
        crowd: Any = s.crowd[link]
        crowd.room, crowd.share, crowd.place = 1 / net.inverse[link] - net.load[link], FULL, -1
    _enter(net, s)
    flow, before, last = np.empty(steps, np.int64), np.empty((steps, 4), np.int64), -1.0
    for penalty in penalties:
        start = s.tally[0].slowed
        if start == 0 or penalty == last:
            break
        s.tally[0].penalty = penalty
        moves, best, slowed = _walk(net, s, flow, before, paths, patience)
        for back in range(moves - 1, best - 1, -1):
            _take(net, s, flow[back], -1)
            for step in range(4):
                s.hops[flow[back], step] = before[back, step]
            _take(net, s, flow[back], 1)
        s.until[:] = 0
        last = -1.0 if slowed < start else penalty
