"""Choose paths on any fabric, for any demands and any existing load.

Each flow, the largest first, takes the path whose fullest link stays emptiest. Then flows move off the fullest link,
alone or in chains of ejections, while that lowers it. Work is limited in steps, never in time. A path is two segments
that meet (`controller.planner.ground.segments`); kernels enumerate the paths of a pair as one merge of two lists.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Live, Topology
from heddle.controller.planner.ground.jit import Floats, Ints, Rows, bare_kernel, kernel, row
from heddle.controller.planner.ground.segments import LoadedNet, Segments, admissible, segment_link
from heddle.controller.planner.search.on_link import Lists, depart, empty_lists, join, smallest_to_leave

FAR = 1e30
"""Inverse capacity of a link that cannot carry traffic."""
CHAIN = 48
"""The maximum length of a chain of ejections."""
MAX_LINKS_SEEN = 200_000_000
"""The limit of steps times links: each step of the search reads every link once."""
MOVED = row([("flow", np.int64), ("up", np.int64), ("down", np.int64)])
"""A flow that a chain has moved, and the two segments of the path that it had before."""


class Search(NamedTuple):
    """The flows of a search: leaves, demands in bit/s, the two segments of each path, and the flows on each link.

    `stamp` is the number of the last chain that moved each flow.
    """

    source: Ints
    target: Ints
    demand: Floats
    up: Ints
    down: Ints
    lists: Lists
    stamp: Ints


@bare_kernel
def _worth(net: LoadedNet, u: int, w: int, demand: float, shun: int) -> tuple[float, float]:
    """Return maximum and sum of the utilisations along a path with `demand` more; link `shun` counts as full."""
    worst, total = 0.0, 0.0
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link < 0:
            continue
        use = 1e30 if link == shun else (net.load[link] + demand) * net.inverse[link]
        worst = max(worst, use)
        total += use
    return worst, total


@bare_kernel
def _best(net: LoadedNet, a: int, b: int, demand: float, shun: int) -> tuple[int, int, float]:
    """Return the best path from leaf a to leaf b as two segments, -1 for none, and its largest utilisation."""
    start, top = net.start, net.top
    best_u, best_w, best, best_sum = -1, -1, 1e29, 1e29
    for late in range(2):
        u, w = start[a], start[b]
        while u < start[a + 1] and w < start[b + 1]:
            if top[w] < top[u]:
                w += 1
                continue
            other = w
            while other < start[b + 1] and top[other] == top[u]:
                if admissible(net, u, other, a, b, late == 1):
                    worst, total = _worth(net, u, other, demand, shun)
                    if worst < best or (worst == best and total < best_sum):
                        best_u, best_w, best, best_sum = u, other, worst, total
                other += 1
            u += 1
        if best_u >= 0 or shun >= 0:
            break
    return best_u, best_w, best


@bare_kernel
def _put(net: LoadedNet, u: int, w: int, demand: float) -> None:
    """Add a demand, which may be negative, to the loads of the links of a path."""
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link >= 0:
            net.load[link] += demand


@kernel
def greedy(net: LoadedNet, source: Ints, target: Ints, demand: Floats, order: Ints, seg_u: Ints, seg_w: Ints) -> int:
    """Place the flows of `order`, each on its best path; return how many have none."""
    stranded = 0
    for i in range(order.shape[0]):
        f = order[i]
        seg_u[f], seg_w[f], _ = _best(net, source[f], target[f], demand[f], -1)
        if seg_u[f] < 0:
            stranded += 1
        else:
            _put(net, seg_u[f], seg_w[f], demand[f])
    return stranded


@bare_kernel
def _enter(net: LoadedNet, lists: Lists, f: int, u: int, w: int) -> None:
    """Add a flow to the lists of the links of its path."""
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link >= 0:
            join(lists, link, 4 * f + step)


@bare_kernel
def _leave(net: LoadedNet, lists: Lists, f: int, u: int, w: int) -> None:
    """Remove a flow from the lists of the links of its path."""
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link >= 0:
            depart(lists, link, 4 * f + step)


@bare_kernel
def _move(net: LoadedNet, search: Search, f: int, u: int, w: int) -> None:
    """Remove a flow from its path, if it has one, and put it on another one, if `u` is not -1."""
    if search.up[f] >= 0:
        _leave(net, search.lists, f, search.up[f], search.down[f])
        _put(net, search.up[f], search.down[f], -search.demand[f])
    if u >= 0:
        _enter(net, search.lists, f, u, w)
        _put(net, u, w, search.demand[f])
    search.up[f], search.down[f] = u, w


@bare_kernel
def _victim(net: LoadedNet, search: Search, link: int, demand: float, limit: float, tick: int) -> int:
    """Return the smallest flow whose removal makes room for `demand` on a link below the limit, or -1."""
    loaded, inverse = net.load[link] + demand, net.inverse[link]
    return smallest_to_leave(search.lists, link, search.demand, search.stamp, tick, demand, loaded, inverse, limit)


@bare_kernel
def _conflict(net: LoadedNet, u: int, w: int, demand: float, limit: float, shun: int) -> int:
    """Return the only link of a path that would reach the limit; -1 where several would, or link `shun` is it."""
    load, inverse = net.load, net.inverse
    found = -1
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link < 0 or (load[link] + demand) * inverse[link] < limit:
            continue
        if found >= 0 or link == shun or demand * inverse[link] >= limit:
            return -1
        found = link
    return found


@bare_kernel
def _push(
    net: LoadedNet, search: Search, f: int, limit: float, shun: int, favourite: int, tick: int
) -> tuple[int, int, int]:
    """Return a path with one link above the limit and the flow to eject there; -1 for none.

    A path over top switch `favourite` is preferred.
    """
    start, top = net.start, net.top
    a, b, demand = search.source[f], search.target[f], search.demand[f]
    best_u, best_w, best_victim = -1, -1, -1
    u, w = start[a], start[b]
    while u < start[a + 1] and w < start[b + 1]:
        if top[w] < top[u]:
            w += 1
            continue
        other = w
        while other < start[b + 1] and top[other] == top[u]:
            if (best_u < 0 or top[u] == favourite) and admissible(net, u, other, a, b, False):
                link = _conflict(net, u, other, demand, limit, shun)
                victim = _victim(net, search, link, demand, limit, tick) if link >= 0 else -1
                if victim >= 0:
                    best_u, best_w, best_victim = u, other, victim
                    if top[u] == favourite:
                        return best_u, best_w, best_victim
            other += 1
        u += 1
    return best_u, best_w, best_victim


@bare_kernel
def _chain(net: LoadedNet, search: Search, f: int, limit: float, shun: int, tick: int, undo: Rows) -> int:
    """Move flow f off link `shun` and eject flows in its way until all links are below the limit; return the moves.

    A chain that does not end makes 0 moves and leaves all paths as they were. For unit flows on a two-tier fabric this
    is a Kempe chain: each ejected flow prefers the top switch that the one before it left.
    """
    favourite = -1
    for length in range(undo.shape[0]):
        d, moved = search.demand[f], undo[length]
        moved.flow, moved.up, moved.down = f, search.up[f], search.down[f]
        search.stamp[f] = tick
        left = net.top[search.up[f]]
        _move(net, search, f, -1, -1)
        u, w, worst = _best(net, search.source[f], search.target[f], d, shun)
        if u >= 0 and worst < limit:
            _move(net, search, f, u, w)
            return length + 1
        u, w, victim = _push(net, search, f, limit, shun, favourite, tick)
        if u < 0 or length + 1 == undo.shape[0]:
            for back in range(length, -1, -1):
                _move(net, search, undo[back].flow, undo[back].up, undo[back].down)
            return 0
        conflict = _conflict(net, u, w, d, limit, shun)
        _move(net, search, f, u, w)
        f, shun, favourite = victim, conflict, left
    return 0


@bare_kernel
def _relieve(net: LoadedNet, search: Search, link: int, limit: float) -> bool:
    """Move the one flow off a link whose move leaves the lowest maximum; return whether one lowers it."""
    up, down = search.up, search.down
    best_f, best_u, best_w, best = -1, -1, -1, limit
    node = search.lists.head[link]
    while node >= 0:
        f = node >> 2
        d = search.demand[f]
        if d > 0:
            _put(net, up[f], down[f], -d)
            u, w, worst = _best(net, search.source[f], search.target[f], d, link)
            rest = net.load[link] * net.inverse[link]
            _put(net, up[f], down[f], d)
            if u >= 0 and max(worst, rest) < best:
                best_f, best_u, best_w, best = f, u, w, max(worst, rest)
        node = search.lists.after[node]
    if best_f < 0:
        return False
    _move(net, search, best_f, best_u, best_w)
    return True


@kernel
def improve(
    net: LoadedNet, source: Ints, target: Ints, demands: Floats, seg_u: Ints, seg_w: Ints,
    goal: float, steps: int, longest: int,
) -> float:  # fmt: skip
    """Lower the largest utilisation by moves and chains and return it; `seg_u` and `seg_w` receive the paths.

    Stops at `goal`, after `steps` tries, or where no chain of up to `longest` flows helps.
    """
    load, inverse, flows = net.load, net.inverse, len(source)
    lists = empty_lists(2 * net.cables, flows)
    search = Search(source, target, demands, seg_u, seg_w, lists, np.zeros(flows, np.int64))
    for f in range(flows):
        _enter(net, lists, f, seg_u[f], seg_w[f])
    undo, tick = np.zeros(longest, MOVED), 0
    while True:
        worst, fullest = -1.0, -1
        for link in range(2 * net.cables):
            if load[link] * inverse[link] > worst:
                worst, fullest = load[link] * inverse[link], link
        # The slack covers rounding: sums of floats that should be equal must not count as an improvement.
        limit = worst * (1 - 1e-9)
        if worst <= goal * (1 + 1e-9) or steps <= 0:
            return worst
        steps -= 1
        if _relieve(net, search, fullest, limit):
            continue
        moved, node = 0, lists.head[fullest]
        while node >= 0 and moved == 0 and steps > 0:
            following = lists.after[node]
            tick += 1
            steps -= 1
            moved = _chain(net, search, node >> 2, limit, fullest, tick, undo)
            # A failed chain puts its flow back at the head: continue with the one that followed it before.
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
    """Route flows between leaves (switch numbers) beside the load `base` in bit/s; return their hops.

    The row of a flow that has no path is -1. The search stops at utilisation `goal`.
    """
    cables = topology.cables
    capacity = topology.capacity[: 2 * cables].astype(np.float64)
    usable = live.links[: 2 * cables] & (capacity > 0)
    inverse = np.where(usable, 1 / np.where(usable, capacity, 1.0), FAR)
    # Load on a dead link belongs to jobs that wait for new paths: it must not hide the maximum of the live links.
    load = np.where(usable, base[: 2 * cables], 0.0)
    s = segments
    net = LoadedNet(s.start, s.first, s.second, s.top, s.middle, s.below, s.below_row, cables, load, inverse)
    wanted = demand.astype(np.float64)
    seg_u, seg_w = np.full(len(source), NO_LINK, dtype=np.int64), np.full(len(source), NO_LINK, dtype=np.int64)
    order = np.argsort(-demand, kind="stable")
    if greedy(net, source, target, wanted, order, seg_u, seg_w) == 0:
        steps = min(2000 + len(source), MAX_LINKS_SEEN // max(2 * cables, 1))
        improve(net, source, target, wanted, seg_u, seg_w, goal, steps, CHAIN)
    return _hops(segments, cables, seg_u, seg_w)


def _hops(segments: Segments, cables: int, seg_u: Ints, seg_w: Ints) -> Ints:
    """Return paths of two segments as rows of links, padded with -1 at the end."""
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
