"""Simulated annealing of Hedera (Al-Fares et al., NSDI 2010, 5.2).

The state is a core switch per destination host, not per flow, which keeps the search small. Initially the hosts of a
pod have distinct cores. A neighbour state swaps the cores of two hosts of one pod. The energy is the demand beyond the
links' capacity, in units of the fastest link. A worse neighbour is accepted with probability exp(c (e - e') / T), with
c = 1000 T0 as in the paper for large fabrics; the temperature T decreases by one per iteration. The result is the best
state seen. With two tiers the hosts of a leaf are a pod: they share the links down from every spine, as a pod does from
every core.
"""

import numpy as np

from heddle.benchmarks.planning.peers.problem import Answer, Problem, UpPaths, no_hops
from heddle.controller.planner.ground.jit import Floats, Ints, kernel

ITERATIONS = 100_000
GREED = 1000.0


@kernel
def _path_over(ups: UpPaths, tops: int, a: int, b: int, core: int, nic: int) -> tuple[int, int]:
    """Return the path from leaf a to leaf b over a core, or the next live one; below it if a switch is above both."""
    start, second, top, middle, at, count = ups.start, ups.second, ups.top, ups.middle, ups.at, ups.size
    for step in range(tops):
        t = (core + step) % tops
        if count[b, t] == 0:
            continue
        w = at[b, t] + nic % count[b, t]
        below = middle[w]
        if below >= 0 and count[a, below] > 0:
            return at[a, below] + nic % count[a, below], at[b, below] + nic % count[b, below]
        if count[a, t] > 0:
            u = at[a, t] + nic % count[a, t]
            if second[u] < 0 or middle[u] != middle[w]:
                return u, w
    for u in range(start[a], start[a + 1]):
        for w in range(at[b, top[u]], at[b, top[u]] + count[b, top[u]]):
            if second[u] < 0 or middle[u] != middle[w]:
                return u, w
    return -1, -1


@kernel
def _add(ups: UpPaths, u: int, w: int, amount: float, load: Floats, capacity: Floats, unit: float) -> float:
    """Add an amount to the links of a path and return the change of the energy."""
    first, second, cables = ups.first, ups.second, ups.cables
    grown = 0.0
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
            before = max(0.0, load[link] - capacity[link])
            load[link] += amount
            grown += max(0.0, load[link] - capacity[link]) - before
    return grown / unit


@kernel
def _move(
    ups: UpPaths, tops: int, nic: int, core: int, members: Ints, begin: Ints, source: Ints, target: Ints,
    demand: Floats, load: Floats, capacity: Floats, unit: float, up: Ints, down: Ints,
) -> float:  # fmt: skip
    """Route all flows to a NIC via another core; return the change of the energy."""
    grown = 0.0
    for i in range(begin[nic], begin[nic + 1]):
        f = members[i]
        if source[f] == target[f]:
            continue
        if up[f] >= 0:
            grown += _add(ups, up[f], down[f], -demand[f], load, capacity, unit)
        up[f], down[f] = _path_over(ups, tops, source[f], target[f], core, nic)
        if up[f] >= 0:
            grown += _add(ups, up[f], down[f], demand[f], load, capacity, unit)
    return grown


@kernel
def _anneal(
    ups: UpPaths, tops: int, core: Ints, pod_nics: Ints, pod_begin: Ints, members: Ints, begin: Ints, source: Ints,
    target: Ints, demand: Floats, load: Floats, capacity: Floats, unit: float, up: Ints, down: Ints, iterations: int,
    seed: int,
) -> tuple[float, float]:  # fmt: skip
    """Anneal; write the best state to `core`, `up` and `down`; return its energy and that of the first state."""
    np.random.seed(seed)
    for nic in range(core.shape[0]):
        _move(ups, tops, nic, core[nic], members, begin, source, target, demand, load, capacity, unit, up, down)
    energy = 0.0
    for link in range(load.shape[0]):
        energy += max(0.0, load[link] - capacity[link]) / unit
    first = best = energy
    taken, best_taken = 0, 0
    swapped = np.empty((iterations, 2), np.int64)
    pods = pod_begin.shape[0] - 1
    for temperature in range(iterations, 0, -1):
        if best <= 1e-9 or pods == 0:
            break
        pod = np.random.randint(0, pods)
        size = pod_begin[pod + 1] - pod_begin[pod]
        one = pod_nics[pod_begin[pod] + np.random.randint(0, size)]
        other = pod_nics[pod_begin[pod] + np.random.randint(0, size)]
        if core[one] == core[other]:
            continue
        core[one], core[other] = core[other], core[one]
        grown = 0.0
        for nic in (one, other):
            grown += _move(
                ups, tops, nic, core[nic], members, begin, source, target, demand, load, capacity, unit, up, down
            )
        if grown < 0.0 or np.random.random() < np.exp(-GREED * iterations * grown / temperature):
            energy += grown
            swapped[taken, 0], swapped[taken, 1] = one, other
            taken += 1
            if energy < best - 1e-9:
                best, best_taken = energy, taken
            continue
        core[one], core[other] = core[other], core[one]
        for nic in (one, other):
            _move(ups, tops, nic, core[nic], members, begin, source, target, demand, load, capacity, unit, up, down)
    for number in range(taken - 1, best_taken - 1, -1):
        one, other = swapped[number, 0], swapped[number, 1]
        core[one], core[other] = core[other], core[one]
        for nic in (one, other):
            _move(ups, tops, nic, core[nic], members, begin, source, target, demand, load, capacity, unit, up, down)
    return best, first


@kernel
def _write(ups: UpPaths, up: Ints, down: Ints, hops: Ints) -> None:
    first, second, cables = ups.first, ups.second, ups.cables
    for f in range(up.shape[0]):
        u, w = up[f], down[f]
        if u < 0:
            continue
        hops[f, 0] = first[u]
        if second[u] >= 0:
            hops[f, 1], hops[f, 2], hops[f, 3] = second[u], second[w] + cables, first[w] + cables
        else:
            hops[f, 1] = first[w] + cables


def simulated_annealing(problem: Problem, seed: int) -> Answer:
    """Return the paths of the best state of Hedera's annealing."""
    return annealed(problem, seed)[0]


def annealed(problem: Problem, seed: int, iterations: int = ITERATIONS) -> tuple[Answer, float, float]:
    """Return the paths of the best state, its energy and that of the first state."""
    topology, flows = problem.topology, problem.flows
    pod = topology.pod[topology.nic_leaf] if (topology.tier == 1).any() else topology.nic_leaf
    receivers = np.unique(flows.dst_nic)
    pod_nics = receivers[np.argsort(pod[receivers], kind="stable")]
    _, begins, sizes = np.unique(pod[pod_nics], return_index=True, return_counts=True)
    core = np.zeros(topology.nics, dtype=np.int64)
    core[pod_nics] = (np.arange(len(pod_nics)) - np.repeat(begins, sizes)) % problem.tops
    members = np.argsort(flows.dst_nic, kind="stable")
    begin = np.searchsorted(flows.dst_nic[members], np.arange(topology.nics + 1)).astype(np.int64)
    up, down = np.full(len(flows), -1, dtype=np.int64), np.full(len(flows), -1, dtype=np.int64)
    best, first = _anneal(
        problem.up_paths, problem.tops, core, pod_nics, np.append(begins, len(pod_nics)).astype(np.int64), members,
        begin, problem.source, problem.target, problem.demand, problem.base.copy(), problem.capacity,
        float(problem.capacity.max(initial=1.0)), up, down, iterations, seed,
    )  # fmt: skip
    hops = no_hops(problem)
    _write(problem.up_paths, up, down, hops)
    return Answer.of(problem, hops), best, first
