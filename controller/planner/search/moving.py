"""The flows of a search, and what their moves mean for the limits of higher priorities."""

from typing import NamedTuple

from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel
from heddle.controller.planner.ground.segments import LoadedNet, segment_link
from heddle.controller.planner.search.layers import Higher, Phased, growth, seen_breach
from heddle.controller.planner.search.on_link import Lists


class Moving(NamedTuple):
    """The flows of a search: leaves, demands in bit/s, layers, which may move, and paths as links by step (-1: none).

    `until` is the step up to which a flow stays where it is.
    """

    source: Ints
    target: Ints
    demand: Floats
    layer: Ints
    free: Flags
    hops: Ints
    until: Ints
    lists: Lists
    higher: Higher


@bare_kernel
def _harms(net: LoadedNet, loads: Phased, moving: Moving, f: int, link: int) -> bool:
    """Return whether flow f would bring a link that is not on its path above the limit of a higher priority."""
    for step in range(4):
        if moving.hops[f, step] == link:
            return False
    higher = moving.higher
    more, _ = growth(loads, link, moving.layer[f], moving.demand[f])
    for level in range(higher.row[f], higher.guard.shape[0]):
        guard = higher.guard[level, link]
        counts = level == higher.row[f] or (more > 0 and guard.flows > 0)
        if counts and (guard.load + more) * net.inverse[link] > guard.limit:
            return True
    return False


@bare_kernel
def path_harms(net: LoadedNet, loads: Phased, moving: Moving, f: int, u: int, w: int) -> bool:
    """Return whether flow f would harm a higher priority on a path of two segments."""
    if moving.higher.row[f] >= moving.higher.guard.shape[0]:
        return False
    for step in range(4):
        link = segment_link(net, u, w, step)
        if link >= 0 and _harms(net, loads, moving, f, link):
            return True
    return False


@bare_kernel
def breach_added(net: LoadedNet, loads: Phased, moving: Moving, f: int, u: int, w: int) -> float:
    """Return what flow f adds on a path of two segments above the limits of higher priorities; without one, its own."""
    total, row, layer = 0.0, moving.higher.row[f], moving.layer[f]
    for step in range(4):
        link = moving.hops[f, step] if u < 0 else segment_link(net, u, w, step)
        if link >= 0:
            total += seen_breach(net, loads, moving.higher, row, link, layer, moving.demand[f] if u >= 0 else 0.0)
            total -= seen_breach(net, loads, moving.higher, row, link, layer, 0.0) if u >= 0 else 0.0
    return total


@bare_kernel
def count_flow(loads: Phased, moving: Moving, f: int, link: int, sign: int) -> None:
    """Add flow f to what the guards know of a link (sign 1), or remove it (-1)."""
    higher, own = moving.higher, moving.higher.row[f]
    more, _ = growth(loads, link, moving.layer[f], sign * moving.demand[f])
    for level in range(own, higher.guard.shape[0]):
        guard = higher.guard[level, link]
        guard.load += more
        guard.flows += sign if level == own else 0
