"""Global First Fit of Hedera (Al-Fares et al., NSDI 2010, 5.1), and the greedy that takes the least loaded path.

First fit scans a flow's paths in order and reserves the first whose links all have room. A flow without such a path
keeps its ECMP path; its load is counted, which favours first fit compared with the paper. The least-loaded greedy,
largest flow first, is equivalent to constrained shortest path and to the planners of C4 and Crux.
"""

import numpy as np

from heddle.benchmarks.planning.peers.problem import Answer, Problem, UpPaths, no_hops
from heddle.controller.planner.ground.jit import Floats, Ints, kernel

TOLERANCE = 1e-9


@kernel
def _fullest_with(ups: UpPaths, u: int, w: int, demand: float, load: Floats, capacity: Floats) -> tuple[float, float]:
    """Return the maximum and the sum of the utilisations of a path's links with `demand` added."""
    first, second, cables = ups.first, ups.second, ups.cables
    worst, total = 0.0, 0.0
    for step in range(4):
        if step == 0:
            link = first[u]
        elif step == 1:
            link = second[u]
        elif step == 2:
            link = second[w] + cables if second[w] >= 0 else -1
        else:
            link = first[w] + cables
        if link >= 0:
            used = (load[link] + demand) / capacity[link]
            worst, total = max(worst, used), total + used
    return worst, total


@kernel
def _search(
    ups: UpPaths, a: int, b: int, demand: float, load: Floats, capacity: Floats, room: float
) -> tuple[int, int]:
    """Return the first path with utilisation up to `room`; if `room` is negative, the least loaded path."""
    start, second, top, middle, at, count = ups.start, ups.second, ups.top, ups.middle, ups.at, ups.size
    best_u, best_w, best, best_total = -1, -1, np.inf, np.inf
    turned = False
    for u in range(start[a], start[a + 1]):
        if turned and second[u] >= 0:
            break  # a shorter path exists
        for w in range(at[b, top[u]], at[b, top[u]] + count[b, top[u]]):
            if second[u] >= 0 and middle[u] == middle[w]:
                continue
            turned = second[u] < 0
            worst, total = _fullest_with(ups, u, w, demand, load, capacity)
            if room >= 0.0:
                if worst <= room:
                    return u, w
            elif worst < best or (worst == best and total < best_total):
                best_u, best_w, best, best_total = u, w, worst, total
    return best_u, best_w


@kernel
def _nth(ups: UpPaths, a: int, b: int, wanted: int) -> tuple[int, int]:
    """Return a path by its number modulo the number of paths."""
    start, second, top, middle, at, count = ups.start, ups.second, ups.top, ups.middle, ups.at, ups.size
    while True:
        passed, turned = 0, False
        for u in range(start[a], start[a + 1]):
            if turned and second[u] >= 0:
                break
            for w in range(at[b, top[u]], at[b, top[u]] + count[b, top[u]]):
                if second[u] >= 0 and middle[u] == middle[w]:
                    continue
                if passed == wanted:
                    return u, w
                passed += 1
                turned = second[u] < 0
        if passed == 0:
            return -1, -1
        wanted %= passed


@kernel
def _write(ups: UpPaths, u: int, w: int, demand: float, load: Floats, hops: Ints, f: int) -> None:
    """Write a path to a flow's row and add its demand to the links."""
    first, second, cables = ups.first, ups.second, ups.cables
    hops[f, 0] = first[u]
    if second[u] >= 0:
        hops[f, 1], hops[f, 2], hops[f, 3] = second[u], second[w] + cables, first[w] + cables
    else:
        hops[f, 1] = first[w] + cables
    for column in range(4):
        if hops[f, column] >= 0:
            load[hops[f, column]] += demand


@kernel
def _place(
    ups: UpPaths, order: Ints, source: Ints, target: Ints, demand: Floats, load: Floats, capacity: Floats, room: float,
    fallback: Ints, hops: Ints,
) -> int:  # fmt: skip
    """Assign a path to each flow of `order`; return the number of flows without a path with room."""
    unplaced = 0
    for i in range(order.shape[0]):
        f = order[i]
        if source[f] == target[f]:
            continue
        u, w = _search(ups, source[f], target[f], demand[f], load, capacity, room)
        if u < 0:
            unplaced += 1
            u, w = _nth(ups, source[f], target[f], fallback[f])
        if u >= 0:
            _write(ups, u, w, demand[f], load, hops, f)
    return unplaced


def global_first_fit(problem: Problem, seed: int) -> Answer:
    """Return the paths of Hedera's Global First Fit, in the order of the flows."""
    draw = np.random.Generator(np.random.PCG64([seed, 2]))
    fallback = draw.integers(0, 1 << 32, len(problem.flows))
    return _placed(problem, np.arange(len(problem.flows), dtype=np.int64), 1.0 + TOLERANCE, fallback)


def least_loaded(problem: Problem, seed: int) -> Answer:
    """Return the paths of the greedy: largest flow first, each on the path with the lowest maximum utilisation."""
    order = np.argsort(-problem.demand, kind="stable")
    return _placed(problem, order, -1.0, np.zeros(len(problem.flows), dtype=np.int64))


def _placed(problem: Problem, order: Ints, room: float, fallback: Ints) -> Answer:
    hops, load = no_hops(problem), problem.base.copy()
    _place(
        problem.up_paths, order, problem.source, problem.target, problem.demand, load, problem.capacity, room, fallback,
        hops,
    )  # fmt: skip
    return Answer.of(problem, hops)
