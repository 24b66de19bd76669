"""Every way up from every leaf: what the general engine and the ECMP figures choose among.

A path is two *segments* that meet: the way from a leaf up to a switch, walked up by the source and down by the
destination. Both leaves' segments are sorted by that switch, so all paths of a pair are one merge of two short lists
and no pair needs a table of its own.
"""

from dataclasses import dataclass

import numpy as np

from controller.planner.clos import NO_LINK, Live, Topology
from controller.planner.jit import Flags, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segments:
    """Live ways up: those of switch s are rows start[s] to start[s+1], sorted by their `top`.

    `first` is the leaf's cable, `second` the next one up or -1, `middle` the switch between or -1.
    `below[m, s]` says that switch s can be reached from middle switch number m by going down in the fabric as
    built: a path that passes m on its way up or down would have turned there.
    """

    start: Ints
    first: Ints
    second: Ints
    top: Ints
    middle: Ints
    below: Flags
    below_row: Ints


def segments_of(topology: Topology, live: Live) -> Segments:
    """Enumerate every live way up from every leaf."""
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
    order = np.lexsort((all_second, all_first, top, topology.lower[all_first]))
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
    """Return which switches each middle switch has below it as built, and its row in that table."""
    middles = np.flatnonzero(topology.tier == 1)
    row = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
    row[middles] = np.arange(len(middles))
    below = np.zeros((len(middles), len(topology.switch_ids)), dtype=np.bool_)
    cables = np.flatnonzero(row[topology.upper] >= 0)
    below[row[topology.upper[cables]], topology.lower[cables]] = True
    return below, row
