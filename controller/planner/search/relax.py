"""Tabu search over the paths of all flows of a priority, on any fabric, with jobs of several phases.

The search takes a link above a limit and moves off it the flow whose move leaves the least excess, even where the
excess grows; a flow that has just moved stays for a few steps (Glover, Tabu Search, 1989). It serves two ends: to bring
every link below a limit, and, once the largest utilisation cannot fall, to slow as few flows as possible. It ends with
the paths of least excess that it has seen. Steps are limited, and a linear congruential generator with a fixed seed
breaks ties, so the same input gives the same paths.

Beside the tabu search, `place` chooses first paths, and `even_out` evens loads by moves that each gain (descent).
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Ints, bare_kernel, kernel
from heddle.controller.planner.ground.segments import LoadedNet, admissible, segment_link, write_path
from heddle.controller.planner.search.layers import Phased, breach, carry, growth
from heddle.controller.planner.search.moving import Moving, breach_added, count_flow, path_harms
from heddle.controller.planner.search.on_link import depart, join

LINGER = 5
"""The least number of steps that a moved flow stays in place; a random number below this is added."""
MAX_TRIED = 32
"""The number of flows of a link that one step tries."""
NOISE = 8
"""One step in about so many moves any one flow of its link, so that a search for a limit does not circle."""
EVEN = 1e-7
"""The weight of the squares of the utilisations beside the excess: of equal excesses, the more even loads win."""
IN_PHASE = 0.1
"""The weight `Goal.in_phase` of `even_out`: of links that a flow fills equally, those emptier in its phase win."""
ROUNDING = 1e-9
FULL = 1e20
"""Utilisations and inverse capacities above this belong to links that cannot carry traffic."""


class Goal(NamedTuple):
    """What to search for: links at most at `limit`; no link that a flow moves to goes above `cap`.

    The excess of a link above the limit is the square of the difference or, with `by_flow`, the number of its flows
    times its utilisation. With `by_flow` no move breaks the limit of a higher priority; else squares above such limits
    count as excess too, for flows of several priorities often change places only through a broken limit.
    `in_phase` is the weight of a link's square while a flow's job is in the flow's phase, beside that of its load.
    """

    limit: float
    cap: float
    by_flow: bool
    in_phase: float


class Undo(NamedTuple):
    """The flows that have moved, in order, and the path that each had before, as links by step."""

    flow: Ints
    hops: Ints


class Over(NamedTuple):
    """The links above the limit: `links[:length[0]]`, and the index of each link in it, or -1."""

    links: Ints
    place: Ints
    length: Ints


@bare_kernel
def _over(use: float, goal: Goal, flows: int) -> float:
    """Return the excess of a link of this utilisation with so many flows."""
    over = use - goal.limit
    if over <= goal.limit * ROUNDING:
        return 0.0
    return use * flows if goal.by_flow else over * over


@bare_kernel
def _yields(moving: Moving, goal: Goal) -> bool:
    """Return whether the search may break the limits of higher priorities for a while."""
    return not goal.by_flow and moving.higher.guard.shape[0] > 0


@bare_kernel
def _excess(net: LoadedNet, loads: Phased, goal: Goal, link: int) -> float:
    """Return the excess of a link, and a little for the square of its utilisation."""
    use = net.load[link] * net.inverse[link]
    return _over(use, goal, loads.flows[link]) + EVEN * use * use


@bare_kernel
def _pressure(net: LoadedNet, loads: Phased, goal: Goal, link: int, layer: int, demand: float) -> float:
    """Return what a flow of a layer sees of a link's excess, with `demand` more bit/s of its layer.

    That is the excess of the link and that of the link while the layer's job is in this phase: where two phases of a
    job are equally heavy, neither alone can lower the link's load, and only the second part says which way is down.
    """
    more, below = growth(loads, link, layer, demand)
    use, flows = (net.load[link] + more) * net.inverse[link], loads.flows[link] + (1 if demand > 0 else 0)
    if more > 0 and use > goal.cap:
        return FULL
    own = use if layer < 0 else use - below * net.inverse[link]
    return _over(use, goal, flows) + _over(own, goal, flows) + EVEN * (use * use + goal.in_phase * own * own)


@bare_kernel
def _added(
    net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, f: int, u: int, w: int, shun: int, least: float
) -> float:
    """Return the excess that flow f adds on a path of two segments without link `shun`; from `least` on, not exact."""
    total, demand, layer = 0.0, moving.demand[f], moving.layer[f]
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link == shun:
            return FULL
        if link >= 0:
            pressure = _pressure(net, loads, goal, link, layer, demand)
            if pressure >= FULL:
                return FULL
            total += pressure - _pressure(net, loads, goal, link, layer, 0.0)
            if total >= least:
                break
    return total


@bare_kernel
def _along(net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, f: int) -> float:
    """Return the excess that flow f sees along its path."""
    total = 0.0
    for step in range(4):
        if moving.hops[f, step] >= 0:
            total += _pressure(net, loads, goal, moving.hops[f, step], moving.layer[f], 0.0)
    return total


@bare_kernel
def _fullest(net: LoadedNet, loads: Phased, moving: Moving, f: int, u: int, w: int) -> tuple[float, float]:
    """Return the largest utilisation of the links whose load flow f raises on a path, and the sum of its rises."""
    worst, total = 0.0, 0.0
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link >= 0:
            more, _ = growth(loads, link, moving.layer[f], moving.demand[f])
            if more > 0:
                worst = max(worst, (net.load[link] + more) * net.inverse[link])
                total += (net.load[link] + more) * net.inverse[link]
    return worst, total


@bare_kernel
def _best(
    net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, f: int, turn: int, shun: int
) -> tuple[int, int, float, int]:  # fmt: skip
    """Return the best path of flow f as two segments (-1: none), its cost and the number of paths evaluated.

    The cost is the excess that it adds on a path without link `shun`; without such a link (-1), it is the largest
    utilisation of the path. Paths are tried from number `turn` of the segments on; the first of equal ones is chosen.
    """
    start, top, a, b = net.start, net.top, moving.source[f], moving.target[f]
    size, tried, guarded = start[a + 1] - start[a], 0, goal.by_flow and moving.higher.guard.shape[0] > 0
    best_u, best_w, least, least_sum = -1, -1, FULL, FULL
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
                    if shun < 0:
                        cost, total = _fullest(net, loads, moving, f, u, other)
                    else:
                        cost, total = _added(net, loads, moving, goal, f, u, other, shun, least), 0.0
                    if shun >= 0 and cost < least and _yields(moving, goal):
                        cost += breach_added(net, loads, moving, f, u, other)
                    better = cost < least or (cost == least and total < least_sum)
                    # Few paths are better: guards are read for these alone.
                    if better and not (guarded and path_harms(net, loads, moving, f, u, other)):
                        best_u, best_w, least, least_sum = u, other, cost, total
                other += 1
        if tried > 0:
            break
    return best_u, best_w, least, tried


@bare_kernel
def _mark(net: LoadedNet, loads: Phased, goal: Goal, over: Over, link: int, broken: bool) -> None:
    """Enter a link into the links above the limit, or above that of a higher priority, or remove it."""
    count = over.length[0]
    full = loads.flows[link] > 0 and net.load[link] * net.inverse[link] > goal.limit * (1 + ROUNDING)
    full = full or broken
    if full and over.place[link] < 0:
        over.links[count], over.place[link], over.length[0] = link, count, count + 1
    elif not full and over.place[link] >= 0:
        last = over.links[count - 1]
        over.links[over.place[link]], over.place[last] = last, over.place[link]
        over.place[link], over.length[0] = -1, count - 1


@bare_kernel
def _carry(net: LoadedNet, loads: Phased, moving: Moving, f: int, link: int, sign: int) -> None:
    """Add flow f to the loads of a link (sign 1), or remove it (-1)."""
    if moving.higher.guard.shape[0] > 0:  # not a loop without rows: that takes a third of the search
        count_flow(loads, moving, f, link, sign)
    carry(net, loads, link, moving.layer[f], sign * moving.demand[f])


@bare_kernel
def _carry_along(net: LoadedNet, loads: Phased, moving: Moving, f: int, sign: int) -> None:
    """Add flow f to the loads of the links of its path (sign 1), or remove it (-1)."""
    for step in range(4):
        if moving.hops[f, step] >= 0:
            _carry(net, loads, moving, f, moving.hops[f, step], sign)


@bare_kernel
def _broken(net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, over: Over, f: int) -> float:
    """Return the excess over limits of higher priorities on the path of flow f, and mark its links."""
    total = 0.0
    for step in range(4):
        if moving.hops[f, step] >= 0:
            found = breach(net, moving.higher, 0, moving.hops[f, step], 0.0, False)
            _mark(net, loads, goal, over, moving.hops[f, step], found > 0)
            total += found
    return total


@bare_kernel
def _take(net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, over: Over, f: int, sign: int) -> float:
    """Put flow f on the links of its path (sign 1), or take it off (-1); return the change of the excess."""
    change = -_broken(net, loads, moving, goal, over, f) if _yields(moving, goal) else 0.0
    for step in range(4):
        link = moving.hops[f, step]
        if link >= 0:
            change -= _excess(net, loads, goal, link)
            _carry(net, loads, moving, f, link, sign)
            change += _excess(net, loads, goal, link)
            _mark(net, loads, goal, over, link, False)
            if sign > 0:
                join(moving.lists, link, 4 * f + step)
            else:
                depart(moving.lists, link, 4 * f + step)
    change += _broken(net, loads, moving, goal, over, f) if _yields(moving, goal) else 0.0
    return change


@bare_kernel
def _copy(to: Ints, row: int, source: Ints, source_row: int) -> None:
    """Copy a path from one table of paths to another."""
    for step in range(4):
        to[row, step] = source[source_row, step]


@bare_kernel
def _choose(
    net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, over: Over, at_step: int, draw: int
) -> tuple[int, int, int, int]:  # fmt: skip
    """Return the flow to move off a random link above the limit, its new segments, and the paths evaluated."""
    link = over.links[(draw >> 8) % over.length[0]]
    chosen, to_u, to_w, least, paths, tried, skip, most = -1, -1, -1, FULL, 1, 0, 0, MAX_TRIED
    if not goal.by_flow and (draw >> 3) % NOISE == 0:
        skip, most = (draw >> 13) % loads.flows[link], 1
    node = moving.lists.head[link]
    while node >= 0 and tried < most:
        f = node >> 2
        following = moving.lists.after[node]
        _, below = growth(loads, link, moving.layer[f], 0.0)
        counts = (net.load[link] - below) * net.inverse[link] > goal.limit * (1 + ROUNDING)
        if not counts and _yields(moving, goal):
            counts = breach(net, moving.higher, moving.higher.row[f], link, -below, False) > 0
        skip -= 1
        if skip < 0 and counts and moving.until[f] <= at_step and moving.free[f] and moving.demand[f] > 0:
            tried += 1
            before = _along(net, loads, moving, goal, f)
            before += breach_added(net, loads, moving, f, -1, -1) if _yields(moving, goal) else 0.0
            _take(net, loads, moving, goal, over, f, -1)
            cost = _along(net, loads, moving, goal, f) - before
            cost += breach_added(net, loads, moving, f, -1, -1) if _yields(moving, goal) else 0.0
            u, w, more, seen = _best(net, loads, moving, goal, f, draw >> 5, link)
            _take(net, loads, moving, goal, over, f, 1)
            paths += seen
            if u >= 0 and more < FULL and cost + more < least:
                chosen, to_u, to_w, least = f, u, w, cost + more
        node = following
    return chosen, to_u, to_w, paths


@bare_kernel
def _begin(net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, over: Over) -> None:
    """Enter all flows that have a path, and find the links above the limit."""
    for f in range(moving.hops.shape[0]):
        for step in range(4):
            link = moving.hops[f, step]
            if link >= 0:
                _carry(net, loads, moving, f, link, 1)
                join(moving.lists, link, 4 * f + step)
    for link in range(net.load.shape[0]):
        broken = _yields(moving, goal) and breach(net, moving.higher, 0, link, 0.0, False) > 0
        _mark(net, loads, goal, over, link, broken)


@bare_kernel
def _walk(
    net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, over: Over, undo: Undo, paths: int, patience: int
) -> tuple[int, int, int]:  # fmt: skip
    """Move flows until no link is above the limit or the work is done.

    Returns the moves, the moves up to the least excess, and the paths that are left to evaluate.
    """
    draw, at_step, moves, best, excess, least = 1, 0, 0, 0, 0.0, -1e-12
    while over.length[0] > 0 and moves < undo.flow.shape[0] and paths > 0 and at_step < best + patience:
        at_step += 1
        draw = (draw * 1103515245 + 12345) & 0x7FFFFFFF
        f, u, w, seen = _choose(net, loads, moving, goal, over, at_step, draw)
        paths -= seen
        if f < 0:
            continue
        undo.flow[moves] = f
        _copy(undo.hops, moves, moving.hops, f)
        moves += 1
        excess += _take(net, loads, moving, goal, over, f, -1)
        write_path(net, moving.hops, f, u, w)
        excess += _take(net, loads, moving, goal, over, f, 1)
        moving.until[f] = at_step + LINGER + (draw >> 11) % LINGER
        if excess < least or over.length[0] == 0:
            least, best = excess - 1e-12, moves
    return moves, best, paths


@kernel
def relax(
    net: LoadedNet, loads: Phased, moving: Moving, goal: Goal, steps: int, paths: int, patience: int
) -> tuple[int, int]:  # fmt: skip
    """Search from the paths in `moving.hops` and write the best ones there.

    Returns how many links are above the limit, and how many of `paths` are left. `net.load` is the load of other
    traffic, `loads` has none. Stops after `steps` moves, `paths` evaluated paths, or `patience` moves without an
    improvement.
    """
    links = net.load.shape[0]
    over = Over(np.empty(links, np.int64), np.full(links, -1, np.int64), np.zeros(1, np.int64))
    _begin(net, loads, moving, goal, over)
    undo = Undo(np.empty(steps, np.int64), np.empty((steps, 4), np.int64))
    moves, best, left = _walk(net, loads, moving, goal, over, undo, paths, patience)
    for back in range(moves - 1, best - 1, -1):
        f = undo.flow[back]
        _take(net, loads, moving, goal, over, f, -1)
        _copy(moving.hops, f, undo.hops, back)
        _take(net, loads, moving, goal, over, f, 1)
    return over.length[0], left


@kernel
def place(net: LoadedNet, loads: Phased, moving: Moving, order: Ints) -> int:
    """Give each flow of `order` the path whose links stay emptiest; return how many have none.

    `net.load` and `loads` must have the flows that have a path already.
    """
    goal, stranded = Goal(limit=0.0, cap=0.0, by_flow=False, in_phase=1.0), 0
    for i in range(order.shape[0]):
        f = order[i]
        u, w, _, _ = _best(net, loads, moving, goal, f, i, -1)
        if u < 0:
            stranded += 1
            continue
        write_path(net, moving.hops, f, u, w)
        _carry_along(net, loads, moving, f, 1)
    return stranded


@kernel
def even_out(net: LoadedNet, loads: Phased, moving: Moving, cap: float, sweeps: int, paths: int) -> int:
    """Move flow by flow to the path where it adds least to the squares of the utilisations, and write it to `moving`.

    A phase of a job adds nothing to links on which another phase of the job is heavier, so such flows go there first.
    No link that a flow moves to goes above the utilisation `cap`. Stops after `sweeps` over the flows, a sweep without
    a move, or `paths` evaluated paths; returns the moves. `net.load` is the load of other traffic, `loads` has none.
    """
    goal, no_link, moves = Goal(limit=np.inf, cap=cap, by_flow=True, in_phase=IN_PHASE), net.load.shape[0], 0
    for f in range(moving.hops.shape[0]):
        _carry_along(net, loads, moving, f, 1)
    for _ in range(sweeps):
        before = moves
        for f in range(moving.hops.shape[0]):
            if not moving.free[f] or moving.hops[f, 0] < 0 or paths <= 0:
                continue
            cost = _along(net, loads, moving, goal, f)
            _carry_along(net, loads, moving, f, -1)
            cost -= _along(net, loads, moving, goal, f)
            u, w, least, seen = _best(net, loads, moving, goal, f, f, no_link)
            paths -= seen
            if u >= 0 and least < cost - EVEN * ROUNDING:
                write_path(net, moving.hops, f, u, w)
                moves += 1
            _carry_along(net, loads, moving, f, 1)
        if moves == before:
            break
    return moves
