"""The fullest link of some paths beside a load, from their links alone: a fabric has many more than a job uses.

Only for flows that all run at once.
"""

import numpy as np

from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel


def fullest_beside(hops: Ints, demand_bps: Ints, base: Floats, capacity: Ints, least: float = 0.0) -> float:
    """Return the largest of `least` and the utilisations of the links of these paths with their flows.

    Args:
        hops: the links of each flow, padded with -1.
        demand_bps: the demand of each flow.
        base: the load of other flows per link, whole numbers of bit/s, so that sums are exact; the same afterwards.
        capacity: the rate of each link in bit/s.
        least: the least value returned.
    """
    paths = np.ascontiguousarray(hops)
    _add(paths, demand_bps, base, 1)
    found = _fullest(paths, base, capacity, least)
    _add(paths, demand_bps, base, -1)
    return found


def slowed_beside(hops: Ints, demand_bps: Ints, base: Floats, capacity: Ints, limit: float) -> int:
    """Return how many of these flows cross a link above a utilisation; the arguments are those of `fullest_beside`."""
    paths = np.ascontiguousarray(hops)
    _add(paths, demand_bps, base, 1)
    found = _above(paths, base, capacity, limit)
    _add(paths, demand_bps, base, -1)
    return found


@bare_kernel
def _add(hops: Ints, demand_bps: Ints, load: Floats, sign: int) -> None:
    """Add flows to the loads of their links, or with `sign` -1 remove them."""
    for f in range(hops.shape[0]):
        for step in range(hops.shape[1]):
            if hops[f, step] >= 0:
                load[hops[f, step]] += sign * demand_bps[f]


@bare_kernel
def _fullest(hops: Ints, load: Floats, capacity: Ints, least: float) -> float:
    """Return the largest of `least` and the utilisations of the links of these paths."""
    found = least
    for f in range(hops.shape[0]):
        for step in range(hops.shape[1]):
            link = hops[f, step]
            if link >= 0:
                found = max(found, load[link] / max(capacity[link], 1))
    return found


@bare_kernel
def _above(hops: Ints, load: Floats, capacity: Ints, limit: float) -> int:
    """Return how many of these paths have a link above a utilisation."""
    count = 0
    for f in range(hops.shape[0]):
        above = False
        for step in range(hops.shape[1]):
            link = hops[f, step]
            above = above or (link >= 0 and load[link] / max(capacity[link], 1) > limit)
        count += 1 if above else 0
    return count
