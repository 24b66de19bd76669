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
    """Say whether the buffer dependencies of these paths (rows of links) and their failover choices have no cycle."""
    tails, heads = _dependencies(topology, paths)
    more_tails, more_heads = _failover(topology, tails, heads)
    tail, head = np.concatenate((tails, more_tails)), np.concatenate((heads, more_heads))
    return _acyclic(2 * topology.cables + 2 * len(topology.switch_ids), tail, head)


def _dependencies(topology: Topology, paths: tuple[Ints, ...]) -> tuple[Ints, Ints]:
    links = 2 * topology.cables
    found = [np.empty(0, dtype=np.int64)]
    for hops in paths:
        for column in range(hops.shape[1] - 1):
            both = hops[hops[:, column + 1] >= 0, column : column + 2]
            found.append(np.unique(both[:, 0] * links + both[:, 1]))
    pairs = np.unique(np.concatenate(found))
    return pairs // max(links, 1), pairs % max(links, 1)


def _failover(topology: Topology, tails: Ints, heads: Ints) -> tuple[Ints, Ints]:
    """Add what failover may do, over two extra nodes per switch: its choice upwards, and its ways down.

    Whoever waits for one uplink of a switch may wait for any; behind an uplink of such a switch lie all ways down,
    and, one tier up, its own choice. This covers more than will happen; no cycle here is none there.
    """
    cables, switches = topology.cables, len(topology.switch_ids)
    upwards, downwards = 2 * cables, 2 * cables + switches
    rising = heads < cables
    chosen = topology.lower[heads[rising]]
    tail, head = [tails[rising]], [upwards + chosen]
    cable = np.arange(cables, dtype=np.int64)
    # A switch's choice upwards; behind each uplink its upper switch's ways down and own choice; behind each way down
    # the lower switch's further ways down.
    tail += [upwards + topology.lower, cable, cable, downwards + topology.upper, cable + cables]
    head += [cable, downwards + topology.upper, upwards + topology.upper, cable + cables, downwards + topology.lower]
    return np.concatenate(tail), np.concatenate(head)
