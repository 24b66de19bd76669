"""The flows on each link, as doubly linked lists that flows join and leave in constant time.

Node 4 f + step is flow f on the link at that step of its path.
"""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel, kernel


class Lists(NamedTuple):
    """The first node of each link, and the next and the previous node of each node; -1 for none."""

    head: Ints
    after: Ints
    before: Ints


@kernel
def empty_lists(links: int, flows: int) -> Lists:
    """Return lists without any flow."""
    return Lists(np.full(links, -1, np.int64), np.full(4 * flows, -1, np.int64), np.full(4 * flows, -1, np.int64))


@bare_kernel
def join(lists: Lists, link: int, node: int) -> None:
    """Insert a node at the head of a link's list."""
    first = lists.head[link]
    lists.after[node], lists.before[node] = first, -1
    if first >= 0:
        lists.before[first] = node
    lists.head[link] = node


@bare_kernel
def depart(lists: Lists, link: int, node: int) -> None:
    """Remove a node from its link's list."""
    after, before = lists.after[node], lists.before[node]
    if before >= 0:
        lists.after[before] = after
    else:
        lists.head[link] = after
    if after >= 0:
        lists.before[after] = before


@bare_kernel
def smallest_to_leave(
    lists: Lists, link: int, demands: Floats, stamp: Ints, tick: int,
    coming: float, loaded: float, inverse: float, limit: float,
) -> int:  # fmt: skip
    """Return the smallest flow of at most `coming` bit/s whose removal brings its link below a limit; -1 for none.

    Args:
        lists: the flows of all links.
        link: the link to relieve.
        demands: demand per flow in bit/s.
        stamp: stamp per flow; a flow with stamp `tick` must stay.
        tick: the stamp of the flows that must stay.
        coming: the demand in bit/s that is about to enter the link.
        loaded: the load of the link in bit/s, `coming` included.
        inverse: 1 / capacity of the link.
        limit: the utilisation to stay below.
    """
    found, size, node = -1, 1e30, lists.head[link]
    while node >= 0:
        g = node >> 2
        small = stamp[g] != tick and demands[g] < size and demands[g] <= coming
        if small and (loaded - demands[g]) * inverse < limit:
            found, size = g, demands[g]
        node = lists.after[node]
    return found
