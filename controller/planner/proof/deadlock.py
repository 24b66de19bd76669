"""Prove that the buffers of the lossless class cannot deadlock.

A buffer waits for the next one on a packet's path: link i waits for link j if some flow enters a switch by i and
leaves it by j. Fast failover adds the other uplinks of the same switch, and from there every path down. The network
cannot deadlock if this graph has no cycle (Dally and Seitz 1987).
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.jit import Ints, kernel


@kernel
def _acyclic(nodes: int, tail: Ints, head: Ints) -> bool:
    """Return whether a directed graph has no cycle, by removing nodes without predecessors (Kahn 1962)."""
    start, waiting = np.zeros(nodes + 1, np.int64), np.zeros(nodes, np.int64)
    for e in range(tail.shape[0]):
        start[tail[e] + 1] += 1
        waiting[head[e]] += 1
    for node in range(nodes):
        start[node + 1] += start[node]
    cursor, after = start[:-1].copy(), np.empty(tail.shape[0], np.int64)
    for e in range(tail.shape[0]):
        after[cursor[tail[e]]] = head[e]
        cursor[tail[e]] += 1
    ready, size, removed = np.empty(nodes, np.int64), 0, 0
    for node in range(nodes):
        if waiting[node] == 0:
            ready[size] = node
            size += 1
    while size > 0:
        size -= 1
        node = ready[size]
        removed += 1
        for i in range(start[node], start[node + 1]):
            waiting[after[i]] -= 1
            if waiting[after[i]] == 0:
                ready[size] = after[i]
                size += 1
    return removed == nodes


def deadlock_free(topology: Topology, paths: tuple[Ints, ...]) -> bool:
    """Return whether the buffer dependencies of these paths (rows of links) and of failover have no cycle.

    The dependencies of failover include those of every path that turns from up to down once. Only other steps, which
    do not occur in a fabric as the contract describes it, add dependencies.
    """
    steps = [_uncommon_steps(np.ascontiguousarray(hops), topology.lower, topology.upper) for hops in paths]
    if any(len(tail) for tail, _ in steps):
        return _acyclic_with(topology, steps)
    if topology not in _known:
        _known[topology] = _acyclic_with(topology, [])
    return _known[topology]


_known: WeakKeyDictionary[Topology, bool] = WeakKeyDictionary()
"""Whether failover alone cannot deadlock, by fabric: most plans add no steps to it."""


def _acyclic_with(topology: Topology, steps: Sequence[tuple[Ints, Ints]]) -> bool:
    """Return whether the dependencies of failover and these steps have no cycle."""
    tails, heads = _failover(topology)
    tails = np.concatenate((tails, *(tail for tail, _ in steps)))
    heads = np.concatenate((heads, *(head for _, head in steps)))
    return _acyclic(2 * topology.cables + 2 * len(topology.switch_ids), tails, heads)


@kernel
def _uncommon_steps(hops: Ints, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """Return the steps (link, next link) that are not up and up, up and down or down and down at one switch."""
    cables = lower.shape[0]
    count = 0
    tail, head = np.empty(16, np.int64), np.empty(16, np.int64)
    for f in range(hops.shape[0]):
        for column in range(hops.shape[1] - 1):
            one, other = hops[f, column], hops[f, column + 1]
            if other < 0:
                break
            at = upper[one] if one < cables else lower[one - cables]
            if other >= cables and at == upper[other - cables]:
                continue
            if one < cables and other < cables and at == lower[other]:
                continue
            if count == tail.shape[0]:
                tail, head = np.concatenate((tail, tail)), np.concatenate((head, head))
            tail[count], head[count] = one, other
            count += 1
    return tail[:count], head[:count]


def _failover(topology: Topology) -> tuple[Ints, Ints]:
    """Return the dependencies of failover as edges, over two extra nodes per switch: its uplinks, its downlinks.

    A link that waits for one uplink of a switch may wait for any. An uplink waits for the downlinks and the uplinks of
    its upper switch, and a downlink for the downlinks of its lower switch. This is a superset of the dependencies that
    occur, so without a cycle here there is none in the network.
    """
    cables, switches = topology.cables, len(topology.switch_ids)
    upwards, downwards = 2 * cables, 2 * cables + switches
    cable = np.arange(cables, dtype=np.int64)
    tail = [upwards + topology.lower, cable, cable, downwards + topology.upper, cable + cables]
    head = [cable, downwards + topology.upper, upwards + topology.upper, cable + cables, downwards + topology.lower]
    return np.concatenate(tail), np.concatenate(head)
