"""Lower bounds on the largest utilisation, valid for any plan of the same demands.

For each leaf and each pod, out and in, all live links together are a cut. Where failures leave links that reach only
some leaves, there are more: the links that reach one leaf, with all flows to leaves that exactly these reach; and all
links but one, with all flows that cannot use that one. `cut` has the bounds of one cut.

Which cuts there are depends on the fabric and its health, and which flows cross a cut on their ends. So the bound is
monotone: more flows, phases or jobs, or larger demands, never lower it.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints, bare_kernel, kernel
from heddle.controller.planner.ground.loads import layers_of
from heddle.controller.planner.ground.ordered import smallest
from heddle.controller.planner.proof.cut import (
    CUT,
    KINDS,
    Best,
    Counters,
    Demands,
    bound_of_cut,
    counters_of,
    demands_of,
    grouped,
    may_improve,
)


class Bound(NamedTuple):
    """A proven lower bound and the kind of its proof: "cut", "largest_flow", "pigeonhole" or "bin_packing"."""

    value: float
    kind: str


class _Cuts(NamedTuple):
    """A family of cuts, numbered by switch, and the live links of each cut.

    A flow crosses the cut `around` its near leaf if its two leaves differ in `side`. The links of cut c have the
    capacities `widths[begin[c]:begin[c + 1]]` and lead to the switches `upper` there. `partial` is whether some of the
    links of a cut are examined too.
    """

    around: Ints
    side: Ints
    widths: Ints
    upper: Ints
    begin: Ints
    partial: bool


class _Reach(NamedTuple):
    """Which switches (rows) reach which leaves, and the leaves that each switch s above the leaves does not reach.

    These are `unreached[begin[s]:begin[s + 1]]`.
    """

    table: Flags
    unreached: Ints
    begin: Ints


class _Ends(NamedTuple):
    """For each leaf, how many flows across one cut end there, and the largest demand of these."""

    flows: Ints
    largest: Ints


def lower_bound(topology: Topology, live: Live, flows: Flows) -> Bound:
    """Return the largest bound for these flows over the live links; Bound(0, "cut") without flows."""
    best = Best(0.0, CUT)
    if not len(flows):
        return Bound(best.value, KINDS[best.kind])
    falling, demands = _falling(flows.demand_bps), demands_of(flows, layers_of(flows))
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    counters = counters_of(demands, topology.cables)
    if live.topology is not topology or live not in _known:
        reach = None if live.reach is None else _reach(topology, live.reach)
        families = _families(topology, live, reach)
        if live.topology is topology:
            _known[live] = reach, families
    else:
        reach, families = _known[live]
    some: list[tuple[Ints, Ints, Ints, _Cuts]] = []
    for near, far in ((source, target), (target, source)):
        for cuts in families:
            crossed = np.where(cuts.side[near] != cuts.side[far], cuts.around[near], -1)
            rows, begin = grouped(falling, crossed, len(cuts.begin) - 1)
            best = Best(*_bound_of_cuts(rows, begin, cuts, demands, counters, best))
            if cuts.partial:
                some.append((rows, begin, far, cuts))
    if reach is not None:  # last: the bounds so far are high enough to pass over most of these cuts
        for rows, begin, far, cuts in some:
            best = Best(*_bound_of_partial_cuts(rows, begin, far, cuts, reach, demands, counters, best))
    return Bound(best.value, KINDS[best.kind])


_known: WeakKeyDictionary[Live, tuple[_Reach | None, list[_Cuts]]] = WeakKeyDictionary()
"""The cuts that live links leave: they serve until a link changes its state."""


def _reach(topology: Topology, table: Flags) -> _Reach:
    """Return `Live.reach` with the lists of the leaves that are out of reach."""
    leaves, above = np.flatnonzero(topology.tier == 0), np.flatnonzero(topology.tier > 0)
    row, column = np.nonzero(~table[np.ix_(above, leaves)])
    begin = np.searchsorted(above[row], np.arange(len(topology.switch_ids) + 1)).astype(np.int64)
    return _Reach(table, leaves[column], begin)


def _families(topology: Topology, live: Live, reach: _Reach | None) -> list[_Cuts]:
    """Return the cuts around leaves, then around pods."""
    alive = np.flatnonzero(live.links[: topology.cables] & (topology.cable_capacity > 0))
    tier, pod, itself = topology.tier, topology.pod, np.arange(len(topology.tier), dtype=np.int64)
    uplinks = alive[tier[topology.lower[alive]] == 0]
    if reach is not None:
        lower, upper = topology.lower[uplinks], topology.upper[uplinks]
        reached = (tier == 0).sum() - np.diff(reach.begin)
        uplinks = uplinks[reached[upper] > reach.table[upper, lower]]
    families = [_cuts(topology, itself, itself, uplinks)]
    if (tier == 1).any():
        families.append(_cuts(topology, pod, pod, alive[tier[topology.upper[alive]] == 2]))
        if reach is not None:
            uplinks = uplinks[_leaving(topology, reach.table)[topology.upper[uplinks]]]
            families.append(_cuts(topology, itself, pod, uplinks)._replace(partial=False))
    return families


def _leaving(topology: Topology, table: Flags) -> Flags:
    """Return whether each switch reaches a leaf of another pod; False for a leaf."""
    leaves, above = np.flatnonzero(topology.tier == 0), np.flatnonzero(topology.tier > 0)
    leaving = np.zeros(len(topology.tier), dtype=np.bool_)
    elsewhere = topology.pod[leaves] != topology.pod[above, None]
    leaving[above] = (table[np.ix_(above, leaves)] & elsewhere).any(axis=1)
    return leaving


def _cuts(topology: Topology, around: Ints, side: Ints, cables: Ints) -> _Cuts:
    """Return the cuts that these cables leave."""
    cut = around[topology.lower[cables]]
    order = np.argsort(cut, kind="stable")
    begin = np.searchsorted(cut[order], np.arange(len(topology.switch_ids) + 1)).astype(np.int64)
    cables = cables[order]
    return _Cuts(around, side, topology.cable_capacity[cables], topology.upper[cables], begin, True)


def _falling(demand: Ints) -> Ints:
    """Return the rows by descending demand, equal ones in order."""
    if demand.min() == demand.max():
        return np.arange(len(demand), dtype=np.int64)
    return np.argsort(-demand, kind="stable")


@kernel
def _bound_of_cuts(
    rows: Ints, begin: Ints, cuts: _Cuts, demands: Demands, counters: Counters, best: Best
) -> tuple[float, int]:  # fmt: skip
    """Return the largest of `best` and the bounds of these cuts; `rows` from `begin` on are the flows of each."""
    for cut in range(begin.shape[0] - 1):
        widths = cuts.widths[cuts.begin[cut] : cuts.begin[cut + 1]]
        best = bound_of_cut(rows[begin[cut] : begin[cut + 1]], widths, demands, counters, best)
    return best.value, best.kind


@kernel
def _bound_of_partial_cuts(
    rows: Ints, begin: Ints, far: Ints, cuts: _Cuts, reach: _Reach, demands: Demands, counters: Counters, best: Best
) -> tuple[float, int]:  # fmt: skip
    """Return the largest of `best` and the bounds of some links of each cut, with the flows that can use no other."""
    switches = reach.table.shape[1]
    ends, leaves = _Ends(np.zeros(switches, np.int64), np.zeros(switches, np.int64)), np.empty(switches, np.int64)
    for cut in range(begin.shape[0] - 1):
        low, high = cuts.begin[cut], cuts.begin[cut + 1]
        crossing, widths, upper = rows[begin[cut] : begin[cut + 1]], cuts.widths[low:high], cuts.upper[low:high]
        if crossing.shape[0] > 0 and high > low:
            found = leaves[: _count_by_leaf(crossing, far, demands, ends, leaves)]
            best = _bound_of_groups(crossing, far, found, ends, widths, upper, reach, demands, counters, best)
            best = _bound_of_others(crossing, far, ends, widths, upper, reach, demands, counters, best)
            ends.flows[found] = ends.largest[found] = 0
    return best.value, best.kind


@bare_kernel
def _count_by_leaf(rows: Ints, far: Ints, demands: Demands, ends: _Ends, leaves: Ints) -> int:
    """Count the flows by far leaf in `ends`, list these leaves in `leaves` and return how many they are."""
    found = 0
    for i in range(rows.shape[0]):
        leaf = far[rows[i]]
        if ends.flows[leaf] == 0:
            leaves[found], ends.largest[leaf] = leaf, demands.bps[rows[i]]
            found += 1
        ends.flows[leaf] += 1
    return found


@kernel
def _bound_of_groups(
    crossing: Ints, far: Ints, leaves: Ints, ends: _Ends, widths: Ints, upper: Ints, reach: _Reach, demands: Demands,
    counters: Counters, best: Best,
) -> Best:  # fmt: skip
    """Return the largest of `best` and the bounds of the links that reach one leaf and of the flows these reach."""
    group_of_leaf = np.full(reach.table.shape[1], -1, np.int64)
    group_of_leaf[leaves] = 0
    links = _group_by_links(group_of_leaf, upper, reach)
    flows, largest, member = np.zeros_like(links), np.zeros_like(links), np.zeros_like(links)
    for i in range(leaves.shape[0]):
        group = group_of_leaf[leaves[i]]
        flows[group] += ends.flows[leaves[i]]
        largest[group], member[group] = max(largest[group], ends.largest[leaves[i]]), leaves[i]
    narrowest = widths[smallest(widths)]
    for group in range(1, links.shape[0]):
        if may_improve(flows[group], largest[group], links[group], narrowest, best):
            useful, useless = np.empty(upper.shape[0], np.bool_), group_of_leaf != group
            for link in range(upper.shape[0]):
                useful[link] = reach.table[upper[link], member[group]]
            best = bound_of_cut(_without(crossing, far, useless), widths[useful], demands, counters, best)
    return best


@kernel
def _group_by_links(group_of_leaf: Ints, upper: Ints, reach: _Reach) -> Ints:
    """Split group 0 of leaves by the links, to the switches `upper`, that reach them; return the links of each group.

    Leaves that all links reach stay in group 0. Leaves of group -1 stay there, and a group may end up empty.
    """
    most = 1
    for link in range(upper.shape[0]):
        most += reach.begin[upper[link] + 1] - reach.begin[upper[link]]
    links, split_at, rest, groups = np.zeros(most, np.int64), np.full(most, -1, np.int64), np.zeros(most, np.int64), 1
    links[0] = upper.shape[0]
    for link in range(upper.shape[0]):
        for i in range(reach.begin[upper[link]], reach.begin[upper[link] + 1]):
            group = group_of_leaf[reach.unreached[i]]
            if group < 0:
                continue
            if split_at[group] != link:
                split_at[group], rest[group], links[groups] = link, groups, links[group] - 1
                groups += 1
            group_of_leaf[reach.unreached[i]] = rest[group]
    return links[:groups]


@kernel
def _bound_of_others(
    crossing: Ints, far: Ints, ends: _Ends, widths: Ints, upper: Ints, reach: _Reach, demands: Demands,
    counters: Counters, best: Best,
) -> Best:  # fmt: skip
    """Return the largest of `best` and the bounds of all links but one and of the flows that cannot use that one."""
    narrowest = widths[smallest(widths)]
    for link in range(upper.shape[0]):
        flows, largest = 0, 0
        for i in range(reach.begin[upper[link]], reach.begin[upper[link] + 1]):
            flows += ends.flows[reach.unreached[i]]
            largest = max(largest, ends.largest[reach.unreached[i]])
        if may_improve(flows, largest, upper.shape[0] - 1, narrowest, best):
            others = np.concatenate((widths[:link], widths[link + 1 :]))
            unable = _without(crossing, far, reach.table[upper[link]])
            best = bound_of_cut(unable, others, demands, counters, best)
    return best


@kernel
def _without(rows: Ints, far: Ints, leaves: Flags) -> Ints:
    """Return the flows whose far leaf is none of these, in order."""
    found, count = np.empty_like(rows), 0
    for i in range(rows.shape[0]):
        if not leaves[far[rows[i]]]:
            found[count] = rows[i]
            count += 1
    return found[:count]
