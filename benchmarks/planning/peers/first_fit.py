"""Global First Fit of Hedera (Al-Fares et al., NSDI 2010, 5.1), and the greedy that takes the least loaded path.

First fit looks through a flow's paths in their order and reserves the first whose links all have room. A flow that
finds none stays on the path that ECMP gives it; we count its load, which is kinder than the paper. The least-loaded
greedy, with the largest flow first, is what constrained shortest path and the planners of C4 and Crux come to.
"""

import numpy as np

from benchmarks.planning.peers.problem import Answer, Problem, Ways, no_hops
from controller.planner.jit import Floats, Ints, kernel

TOLERANCE = 1e-9


@kernel
def _fullest_with(ways: Ways, u: int, w: int, demand: float, load: Floats, capacity: Floats) -> tuple[float, float]:
    """Return the largest utilisation and the sum of them on a path if it carried `demand` more."""
    first, second, cables = ways[1], ways[2], ways[7]
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
def _search(ways: Ways, a: int, b: int, demand: float, load: Floats, capacity: Floats, room: float) -> tuple[int, int]:
    """Return the first path that stays within `room`; with a negative one, the path that is least full."""
    start, second, top, middle, at, count = ways[0], ways[2], ways[3], ways[4], ways[5], ways[6]
    best_u, best_w, best, best_total = -1, -1, np.inf, np.inf
    turned = False
    for u in range(start[a], start[a + 1]):
        if turned and second[u] >= 0:
            break  # there were shorter paths
        for w in range(at[b, top[u]], at[b, top[u]] + count[b, top[u]]):
            if second[u] >= 0 and middle[u] == middle[w]:
                continue
            turned = second[u] < 0
            worst, total = _fullest_with(ways, u, w, demand, load, capacity)
            if room >= 0.0:
                if worst <= room:
                    return u, w
            elif worst < best or (worst == best and total < best_total):
                best_u, best_w, best, best_total = u, w, worst, total
    return best_u, best_w


@kernel
def _nth(ways: Ways, a: int, b: int, wanted: int) -> tuple[int, int]:
    """Return a path by number, counted round and round."""
    start, second, top, middle, at, count = ways[0], ways[2], ways[3], ways[4], ways[5], ways[6]
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
def _write(ways: Ways, u: int, w: int, demand: float, load: Floats, hops: Ints, f: int) -> None:
    """Write a path into a flow's row and its demand onto the links."""
    first, second, cables = ways[1], ways[2], ways[7]
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
    ways: Ways, order: Ints, source: Ints, target: Ints, demand: Floats, load: Floats, capacity: Floats, room: float,
    fallback: Ints, hops: Ints,
) -> int:  # fmt: skip
    """Give each flow of `order` a path; returns how many found none with room."""
    unplaced = 0
    for i in range(order.shape[0]):
        f = order[i]
        if source[f] == target[f]:
            continue
        u, w = _search(ways, source[f], target[f], demand[f], load, capacity, room)
        if u < 0:
            unplaced += 1
            u, w = _nth(ways, source[f], target[f], fallback[f])
        if u >= 0:
            _write(ways, u, w, demand[f], load, hops, f)
    return unplaced


def global_first_fit(problem: Problem, seed: int) -> Answer:
    """Return the paths of Hedera's Global First Fit, flows in the order in which they are listed."""
    draw = np.random.Generator(np.random.PCG64([seed, 2]))
    fallback = draw.integers(0, 1 << 32, len(problem.flows))
    return _placed(problem, np.arange(len(problem.flows), dtype=np.int64), 1.0 + TOLERANCE, fallback)


def least_loaded(problem: Problem, seed: int) -> Answer:
    """Return the paths of the greedy: the largest flow first, each where the fullest link stays least full."""
    order = np.argsort(-problem.demand, kind="stable")
    return _placed(problem, order, -1.0, np.zeros(len(problem.flows), dtype=np.int64))


def _placed(problem: Problem, order: Ints, room: float, fallback: Ints) -> Answer:
    hops, load = no_hops(problem), problem.base.copy()
    _place(
        problem.ways, order, problem.source, problem.target, problem.demand, load, problem.capacity, room, fallback,
        hops,
    )  # fmt: skip
    return Answer.of(problem, hops)
