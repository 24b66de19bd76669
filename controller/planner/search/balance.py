"""The general engine: any drawn fabric, any demand, any load already there.

Each flow, the largest first, takes the path whose fullest link stays emptiest; then flows are moved off the fullest
link, alone or in chains of ejections, while that lowers it. Work is limited in steps, never in time. A path is two
segments that meet (`controller.planner.search.segments`); kernels walk all paths of a pair as one merge of two lists.
"""

import numpy as np

from controller.planner.clos import MAX_HOPS, NO_LINK, Live, Topology
from controller.planner.jit import Flags, Floats, Ints, kernel
from controller.planner.search.on_link import depart, join, smallest_to_leave
from controller.planner.search.segments import Segments

FAR = 1e30
"""Utilisation of a link of no capacity."""
CHAIN = 48
"""The longest chain of ejections."""
MAX_LINKS_SEEN = 200_000_000
"""Each step of the search looks at every link once: this bounds steps times links."""


Net = tuple[Ints, Ints, Ints, Ints, Ints, Flags, Ints, Floats, Floats, int]
"""start, first, second, top, middle, below, below_row, load, inverse capacity, number of cables."""


@kernel
def _admissible(net: Net, u: int, w: int, a: int, b: int, late: bool) -> bool:
    """Say whether segments u (of leaf a) and w (of leaf b) make a path that turns as early as the fabric allows."""
    middle, below, below_row = net[4], net[5], net[6]
    if middle[u] >= 0 and (middle[u] == middle[w] or (not late and below[below_row[middle[u]], b])):
        return False
    return late or middle[w] < 0 or not below[below_row[middle[w]], a]


@kernel
def _link(net: Net, u: int, w: int, step: int) -> int:
    """Return the link of a path at a step of the four, -1 where it has none there."""
    first, second, cables = net[1], net[2], net[9]
    if step == 0:
        return first[u]
    if step == 3:
        return first[w] + cables
    if step == 1:
        return second[u]
    return second[w] + cables if second[w] >= 0 else -1


@kernel
def _worth(net: Net, u: int, w: int, demand: float, shun: int) -> tuple[float, float]:
    """Return the fullest link and the sum of utilisations along a path that takes `demand` more."""
    load, inverse = net[7], net[8]
    worst, total = 0.0, 0.0
    for step in range(4):
        link = _link(net, u, w, step)
        if link < 0:
            continue
        use = 1e30 if link == shun else (load[link] + demand) * inverse[link]
        worst = max(worst, use)
        total += use
    return worst, total


@kernel
def _best(net: Net, a: int, b: int, demand: float, shun: int) -> tuple[int, int, float]:
    """Return the best path from leaf a to leaf b as two segments, and its fullest link; -1 where there is none."""
    start, top = net[0], net[3]
    best_u, best_w, best, best_sum = -1, -1, 1e29, 1e29
    for late in range(2):
        u, w = start[a], start[b]
        while u < start[a + 1] and w < start[b + 1]:
            if top[w] < top[u]:
                w += 1
                continue
            other = w
            while other < start[b + 1] and top[other] == top[u]:
                if _admissible(net, u, other, a, b, late == 1):
                    worst, total = _worth(net, u, other, demand, shun)
                    if worst < best or (worst == best and total < best_sum):
                        best_u, best_w, best, best_sum = u, other, worst, total
                other += 1
            u += 1
        if best_u >= 0 or shun >= 0:
            break
    return best_u, best_w, best


@kernel
def _put(net: Net, u: int, w: int, demand: float) -> None:
    """Add a demand to the links of a path (take it away where it is negative)."""
    load = net[7]
    for step in range(4):
        link = _link(net, u, w, step)
        if link >= 0:
            load[link] += demand


@kernel
def greedy(net: Net, source: Ints, target: Ints, demand: Floats, order: Ints, seg_u: Ints, seg_w: Ints) -> int:
    """Place the flows in `order`, each on its best path; return how many have none."""
    stranded = 0
    for i in range(order.shape[0]):
        f = order[i]
        seg_u[f], seg_w[f], _ = _best(net, source[f], target[f], demand[f], -1)
        if seg_u[f] < 0:
            stranded += 1
        else:
            _put(net, seg_u[f], seg_w[f], demand[f])
    return stranded


Lists = tuple[Ints, Ints, Ints]
"""head per link, next and previous per node; node 4 f + step is flow f's place on the link of that step."""


@kernel
def _enter(net: Net, lists: Lists, f: int, u: int, w: int) -> None:
    head, after, before = lists
    for step in range(4):
        link = _link(net, u, w, step)
        if link < 0:
            continue
        join(head, after, before, link, 4 * f + step)


@kernel
def _leave(net: Net, lists: Lists, f: int, u: int, w: int) -> None:
    head, after, before = lists
    for step in range(4):
        link = _link(net, u, w, step)
        if link < 0:
            continue
        depart(head, after, before, link, 4 * f + step)


@kernel
def _move(net: Net, lists: Lists, f: int, demand: float, u: int, w: int, seg_u: Ints, seg_w: Ints) -> None:
    """Take a flow off its path (if it has one) and put it on another (if one is given)."""
    if seg_u[f] >= 0:
        _leave(net, lists, f, seg_u[f], seg_w[f])
        _put(net, seg_u[f], seg_w[f], -demand)
    if u >= 0:
        _enter(net, lists, f, u, w)
        _put(net, u, w, demand)
    seg_u[f], seg_w[f] = u, w


@kernel
def _victim(
    net: Net, lists: Lists, link: int, demand: float, limit: float, demands: Floats, stamp: Ints, tick: int
) -> int:
    """Return the smallest flow whose leaving brings a link with `demand` more below the limit, or -1."""
    load, inverse = net[7], net[8]
    return smallest_to_leave(
        lists[0][link], lists[1], demands, stamp, tick, demand, load[link] + demand, inverse[link], limit
    )


@kernel
def _conflict(net: Net, u: int, w: int, demand: float, limit: float, shun: int) -> int:
    """Return the one link of a path that would pass the limit; -1 where more than one would, or the shunned one."""
    load, inverse = net[7], net[8]
    found = -1
    for step in range(4):
        link = _link(net, u, w, step)
        if link < 0 or (load[link] + demand) * inverse[link] < limit:
            continue
        if found >= 0 or link == shun or demand * inverse[link] >= limit:
            return -1
        found = link
    return found


@kernel
def _push(
    net: Net, lists: Lists, a: int, b: int, demand: float, limit: float, shun: int, favourite: int,
    demands: Floats, stamp: Ints, tick: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Return a path that passes the limit on one link only, and who must leave that; the favourite top first."""
    start, top = net[0], net[3]
    best_u, best_w, best_victim = -1, -1, -1
    u, w = start[a], start[b]
    while u < start[a + 1] and w < start[b + 1]:
        if top[w] < top[u]:
            w += 1
            continue
        other = w
        while other < start[b + 1] and top[other] == top[u]:
            if (best_u < 0 or top[u] == favourite) and _admissible(net, u, other, a, b, False):
                link = _conflict(net, u, other, demand, limit, shun)
                victim = _victim(net, lists, link, demand, limit, demands, stamp, tick) if link >= 0 else -1
                if victim >= 0:
                    best_u, best_w, best_victim = u, other, victim
                    if top[u] == favourite:
                        return best_u, best_w, best_victim
            other += 1
        u += 1
    return best_u, best_w, best_victim


@kernel
def _chain(
    net: Net, lists: Lists, f: int, limit: float, shun: int, source: Ints, target: Ints, demands: Floats,
    seg_u: Ints, seg_w: Ints, stamp: Ints, tick: int, undo: Ints,
) -> int:  # fmt: skip
    """Move flow f off link `shun`, whoever is in its way after it, until all fit below the limit; return the moves.

    Returns 0 and leaves everything as it was where the chain ends nowhere. For unit flows on a two-tier fabric this
    walks a Kempe chain: each ejected flow prefers the top that the one before it left.
    """
    first, favourite = net[3], -1
    for length in range(undo.shape[0]):
        d = demands[f]
        undo[length, 0], undo[length, 1], undo[length, 2] = f, seg_u[f], seg_w[f]
        stamp[f] = tick
        left = first[seg_u[f]]
        _move(net, lists, f, d, -1, -1, seg_u, seg_w)
        u, w, worst = _best(net, source[f], target[f], d, shun)
        if u >= 0 and worst < limit:
            _move(net, lists, f, d, u, w, seg_u, seg_w)
            return length + 1
        u, w, victim = _push(net, lists, source[f], target[f], d, limit, shun, favourite, demands, stamp, tick)
        if u < 0 or length + 1 == undo.shape[0]:
            for back in range(length, -1, -1):
                g = undo[back, 0]
                _move(net, lists, g, demands[g], undo[back, 1], undo[back, 2], seg_u, seg_w)
            return 0
        conflict = _conflict(net, u, w, d, limit, shun)
        _move(net, lists, f, d, u, w, seg_u, seg_w)
        f, shun, favourite = victim, conflict, left
    return 0


@kernel
def _relieve(
    net: Net, lists: Lists, link: int, limit: float, source: Ints, target: Ints, demands: Floats,
    seg_u: Ints, seg_w: Ints,
) -> bool:  # fmt: skip
    """Move the one flow off a link whose move leaves the lowest maximum behind; False where none lowers it."""
    head, after, _ = lists
    load, inverse = net[7], net[8]
    best_f, best_u, best_w, best = -1, -1, -1, limit
    node = head[link]
    while node >= 0:
        f = node >> 2
        d = demands[f]
        if d > 0:
            _put(net, seg_u[f], seg_w[f], -d)
            u, w, worst = _best(net, source[f], target[f], d, link)
            rest = load[link] * inverse[link]
            _put(net, seg_u[f], seg_w[f], d)
            if u >= 0 and max(worst, rest) < best:
                best_f, best_u, best_w, best = f, u, w, max(worst, rest)
        node = after[node]
    if best_f < 0:
        return False
    _move(net, lists, best_f, demands[best_f], best_u, best_w, seg_u, seg_w)
    return True


@kernel
def improve(
    net: Net, source: Ints, target: Ints, demands: Floats, seg_u: Ints, seg_w: Ints,
    goal: float, steps: int, longest: int,
) -> float:  # fmt: skip
    """Lower the fullest link by moves and chains until `goal`, a dead end or `steps` tries; return its utilisation."""
    load, inverse, links = net[7], net[8], 2 * net[9]
    lists = (
        np.full(links, -1, np.int64),
        np.full(4 * len(source), -1, np.int64),
        np.full(4 * len(source), -1, np.int64),
    )
    for f in range(len(source)):
        _enter(net, lists, f, seg_u[f], seg_w[f])
    stamp, undo, tick = np.zeros(len(source), np.int64), np.zeros((longest, 3), np.int64), 0
    while True:
        worst, fullest = -1.0, -1
        for link in range(links):
            if load[link] * inverse[link] > worst:
                worst, fullest = load[link] * inverse[link], link
        # A hair of slack: sums of floats that should be equal must not count as an improvement.
        limit = worst * (1 - 1e-9)
        if worst <= goal * (1 + 1e-9) or steps <= 0:
            return worst
        steps -= 1
        if _relieve(net, lists, fullest, limit, source, target, demands, seg_u, seg_w):
            continue
        moved, node = 0, lists[0][fullest]
        while node >= 0 and moved == 0 and steps > 0:
            following = lists[1][node]
            tick += 1
            steps -= 1
            moved = _chain(
                net, lists, node >> 2, limit, fullest, source, target, demands, seg_u, seg_w, stamp, tick, undo
            )
            # A failed chain puts its flow back at the head: go on with who came after it before.
            node = following
        if moved == 0:
            return worst


def balanced_paths(
    topology: Topology,
    segments: Segments,
    live: Live,
    source: Ints,
    target: Ints,
    demand: Ints,
    base: Floats,
    goal: float,
) -> Ints:
    """Route flows between leaves (given as switches) over what is left beside `base`; return their hops.

    A flow that has no path keeps a row of -1.
    """
    cables = topology.cables
    capacity = topology.capacity[: 2 * cables].astype(np.float64)
    usable = live.links[: 2 * cables] & (capacity > 0)
    inverse = np.where(usable, 1 / np.where(usable, capacity, 1.0), FAR)
    # Load on a dead link is left over from jobs that wait for their new paths: it must not hide the live maximum.
    load = np.where(usable, base[: 2 * cables], 0.0)
    s = segments
    net = (s.start, s.first, s.second, s.top, s.middle, s.below, s.below_row, load, inverse, cables)
    wanted = demand.astype(np.float64)
    seg_u, seg_w = np.full(len(source), NO_LINK, dtype=np.int64), np.full(len(source), NO_LINK, dtype=np.int64)
    order = np.argsort(-demand, kind="stable")
    if greedy(net, source, target, wanted, order, seg_u, seg_w) == 0:
        steps = min(2000 + len(source), MAX_LINKS_SEEN // max(2 * cables, 1))
        improve(net, source, target, wanted, seg_u, seg_w, goal, steps, CHAIN)
    return _hops(segments, cables, seg_u, seg_w)


def _hops(segments: Segments, cables: int, seg_u: Ints, seg_w: Ints) -> Ints:
    """Write paths of two segments as rows of links, padded at the end."""
    hops = np.full((len(seg_u), MAX_HOPS), NO_LINK, dtype=np.int64)
    known = np.flatnonzero(seg_u >= 0)
    up, down = seg_u[known], seg_w[known]
    down_two = segments.second[down]
    parts = (
        segments.first[up],
        segments.second[up],
        np.where(down_two >= 0, down_two + cables, NO_LINK),
        segments.first[down] + cables,
    )
    filled = np.zeros(len(known), dtype=np.int64)
    for part in parts:
        rows = np.flatnonzero(part >= 0)
        hops[known[rows], filled[rows]] = part[rows]
        filled[rows] += 1
    return hops
