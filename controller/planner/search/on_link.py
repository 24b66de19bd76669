"""Which flows are on which link: a doubly linked chain of nodes per link, joined and left in constant time.

`head` has the first node of each link, `after` and `before` the neighbours of each node, -1 where there is none. Node
4 f + step stands for flow f on the link of that step of its path.
"""

from controller.planner.jit import Floats, Ints, kernel


@kernel
def join(head: Ints, after: Ints, before: Ints, link: int, node: int) -> None:
    """Put a node in front of a link's chain."""
    after[node], before[node] = head[link], -1
    if head[link] >= 0:
        before[head[link]] = node
    head[link] = node


@kernel
def depart(head: Ints, after: Ints, before: Ints, link: int, node: int) -> None:
    """Take a node out of its link's chain."""
    if before[node] >= 0:
        after[before[node]] = after[node]
    else:
        head[link] = after[node]
    if after[node] >= 0:
        before[after[node]] = before[node]


@kernel
def smallest_to_leave(
    first: int, after: Ints, demands: Floats, stamp: Ints, tick: int,
    coming: float, loaded: float, inverse: float, limit: float,
) -> int:  # fmt: skip
    """Return the smallest flow, none above `coming`, whose leaving brings its link below a limit; -1 where none does.

    Args:
        first: the first node of the link's chain.
        after: the next node per node.
        demands: demand per flow.
        stamp: per flow; flows with that of `tick` stay.
        tick: what marks those that stay.
        coming: the demand that is to come onto the link.
        loaded: the link's load with it.
        inverse: one over the link's rate.
        limit: the utilisation to stay below.
    """
    found, size, node = -1, 1e30, first
    while node >= 0:
        g = node >> 2
        small = stamp[g] != tick and demands[g] < size and demands[g] <= coming
        if small and (loaded - demands[g]) * inverse < limit:
            found, size = g, demands[g]
        node = after[node]
    return found
