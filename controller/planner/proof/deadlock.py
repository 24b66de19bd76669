"""Prove that no cycle of full buffers can arise in the lossless class.

A buffer waits for the next one on a packet's way: link i waits for link j where some flow enters a switch by i and
leaves it by j. Fast failover adds the other uplinks of the same switch, and from there every way down. The network
cannot deadlock if this graph has no cycle (Dally and Seitz 1987).
"""

import numpy as np

from controller.planner.clos import Topology
from controller.planner.jit import Ints, kernel


@kernel
def _acyclic(nodes: int, tail: Ints, head: Ints) -> bool:
    """Say whether a directed graph has no cycle, by removing what nothing waits on (Kahn 1962)."""
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
    """Say whether the buffer dependencies of these paths (rows of links) and their failover choices have no cycle.

    What failover may do covers whatever a path does that turns from up to down once; only steps that are none of that
    (in a fabric as the contract describes it there are none) add dependencies of their own.
    """
    tails, heads = _failover(topology)
    for hops in paths:
        tail, head = _uncommon_steps(np.ascontiguousarray(hops), topology.lower, topology.upper)
        tails, heads = np.concatenate((tails, tail)), np.concatenate((heads, head))
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
    """Return what may wait for what, over two extra nodes per switch: its choice upwards, and its ways down.

    Whoever waits for one uplink of a switch may wait for any; behind an uplink lie all ways down of its upper switch
    and that one's own choice upwards; behind each way down the lower switch's further ways down. This covers more
    than will happen; no cycle here is none there.
    """
    cables, switches = topology.cables, len(topology.switch_ids)
    upwards, downwards = 2 * cables, 2 * cables + switches
    cable = np.arange(cables, dtype=np.int64)
    tail = [upwards + topology.lower, cable, cable, downwards + topology.upper, cable + cables]
    head = [cable, downwards + topology.upper, upwards + topology.upper, cable + cables, downwards + topology.lower]
    return np.concatenate(tail), np.concatenate(head)
