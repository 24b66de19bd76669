"""Every live route upwards from every leaf, of which `balance`, `proof.ecmp` and `incast` compose paths.

A path is two *segments* that meet: a route from a leaf up to a switch, which the source follows upwards and the
destination downwards. The segments of both leaves are sorted by that switch, so the paths of a pair are one merge of
two short lists and no pair needs a table of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, Small, bare_kernel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """Live segments: those of switch s are rows start[s] to start[s+1], sorted by their `top`.

    `first` is the leaf's cable, `second` the next one up or -1, `middle` the switch between them or -1.
    `below[m, s]` is whether switch s is below middle switch number m in the fabric as built: a path through m to s
    turns there. `below_row[switch]` is the number m of a switch or -1.
    """

    start: Ints
    first: Ints
    second: Ints
    top: Ints
    middle: Ints
    below: Flags
    below_row: Ints


class Net(NamedTuple):
    """The columns of `Segments` and the number of cables, for kernels; columns may have half the width."""

    start: Ints
    first: Ints | Small
    second: Ints | Small
    top: Ints | Small
    middle: Ints | Small
    below: Flags
    below_row: Ints
    cables: int


class LoadedNet(NamedTuple):
    """A `Net` with the load in bit/s and the inverse capacity of each link."""

    start: Ints
    first: Ints
    second: Ints
    top: Ints
    middle: Ints
    below: Flags
    below_row: Ints
    cables: int
    load: Floats
    inverse: Floats


@bare_kernel
def segment_link(net: Net | LoadedNet, u: int, w: int, step: int) -> int:
    """Return the link at a step of a path of two segments (0 and 1 up, 2 and 3 down), -1 where it has none there."""
    if step == 0:
        return net.first[u]
    if step == 1:
        return net.second[u]
    if step == 2:
        return net.second[w] + net.cables if net.second[w] >= 0 else -1
    return net.first[w] + net.cables


@bare_kernel
def write_path(net: Net | LoadedNet, hops: Ints, f: int, u: int, w: int) -> None:
    """Write a path of two segments as the path of flow f."""
    for step in range(4):
        hops[f, step] = segment_link(net, u, w, step)


@bare_kernel
def admissible(net: Net | LoadedNet, u: int, w: int, a: int, b: int, late: bool) -> bool:
    """Return whether segments u of leaf a and w of leaf b make a path that turns as early as the fabric allows.

    With `late`, a path may also turn at a higher switch than it needs to.
    """
    middle, below, below_row = net.middle, net.below, net.below_row
    if middle[u] >= 0 and (middle[u] == middle[w] or (not late and below[below_row[middle[u]], b])):
        return False
    return late or middle[w] < 0 or not below[below_row[middle[w]], a]


def segments_of(topology: Topology, live: Live) -> Segments:
    """Enumerate the live segments of all leaves."""
    alive = np.flatnonzero(live.links[: topology.cables])
    from_leaf = alive[topology.tier[topology.lower[alive]] == 0]
    from_middle = alive[topology.tier[topology.lower[alive]] == 1]
    from_middle = from_middle[np.argsort(topology.lower[from_middle], kind="stable")]
    begin = np.searchsorted(topology.lower[from_middle], np.arange(len(topology.switch_ids) + 1))
    middle = topology.upper[from_leaf]
    counts = begin[middle + 1] - begin[middle]
    first = np.repeat(from_leaf, counts)
    offset = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    second = from_middle[np.repeat(begin[middle], counts) + offset]
    all_first = np.concatenate((from_leaf, first))
    all_second = np.concatenate((np.full(len(from_leaf), NO_LINK, dtype=np.int64), second))
    top = np.where(all_second >= 0, topology.upper[all_second], topology.upper[all_first])
    # Equal keys stay in the order of their cables. One key sorts ten times as fast as four columns.
    order = np.argsort(topology.lower[all_first] * len(topology.switch_ids) + top, kind="stable")
    leaf = topology.lower[all_first][order]
    below, below_row = _below(topology)
    return Segments(
        start=np.searchsorted(leaf, np.arange(len(topology.switch_ids) + 1)).astype(np.int64),
        first=all_first[order],
        second=all_second[order],
        top=top[order].astype(np.int64),
        middle=np.where(all_second >= 0, topology.upper[all_first], NO_LINK)[order].astype(np.int64),
        below=below,
        below_row=below_row,
    )


def _below(topology: Topology) -> tuple[Flags, Ints]:
    """Return which switches are below each middle switch as built, and the row of each switch in that table."""
    middles = np.flatnonzero(topology.tier == 1)
    row = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    row[middles] = np.arange(len(middles))
    below = np.zeros((len(middles), len(topology.switch_ids)), dtype=np.bool_)
    cables = np.flatnonzero(row[topology.upper] >= 0)
    below[row[topology.upper[cables]], topology.lower[cables]] = True
    return below, row
