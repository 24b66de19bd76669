"""Lower bounds on the largest utilisation, valid for any plan of the same demands.

For each leaf and each pod, out and in, all live links together are a cut. Where failures leave links that reach only
some leaves, there are more: the links that reach one leaf, with all flows to leaves that exactly these reach; and all
links but one, with all flows that cannot use that one. `cut` has the bounds of one cut.

Which cuts there are depends on the fabric and its health, and which flows cross a cut on their ends. So the bound is
monotone: more flows, phases or jobs, or larger demands, never lower it.
"""

from typing import NamedTuple

import numpy as np

from controller.planner.clos import Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Flags, Ints, kernel
from controller.planner.proof.cut import (
    CUT,
    KINDS,
    Best,
    Counters,
    Demands,
    bound_of_cut,
    counters_of,
    demands_of,
    grouped,
)
from controller.planner.proof.loads import layers_of


class Bound(NamedTuple):
    """A proven lower bound and the kind of its proof: "cut", "largest_flow", "pigeonhole" or "bin_packing"."""

    value: float
    kind: str


class _Cuts(NamedTuple):
    """A family of cuts: the cut that each flow crosses (-1: none), and the live links of each cut.

    The links of cut c have the capacities `widths[begin[c]:begin[c + 1]]` and lead to the switches `upper` there.
    `partial` is whether some of the links of a cut are examined too.
    """

    crossed: Ints
    widths: Ints
    upper: Ints
    begin: Ints
    partial: bool


def lower_bound(topology: Topology, live: Live, flows: Flows) -> Bound:
    """Return the largest bound for these flows over the live links; Bound(0, "cut") without flows."""
    best = Best(0.0, CUT)
    if not len(flows):
        return Bound(best.value, KINDS[best.kind])
    falling, demands = _falling(flows.demand_bps), demands_of(flows, layers_of(flows))
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    counters = counters_of(demands, topology.cables)
    for near, far in ((source, target), (target, source)):
        for cuts in _families(topology, live, near, far):
            rows, begin = grouped(falling, cuts.crossed, len(cuts.begin) - 1)
            best = _bound_of_cuts(rows, begin, cuts, demands, counters, best)
            if cuts.partial and live.reach is not None:
                best = _bound_of_partial_cuts(rows, begin, far, cuts, live.reach, demands, counters, best)
    return Bound(best.value, KINDS[best.kind])


def _families(topology: Topology, live: Live, near: Ints, far: Ints) -> list[_Cuts]:
    """Return the cuts around leaves, then around pods, that flows cross at their end `near`."""
    alive = np.flatnonzero(live.links[: topology.cables] & (topology.cable_capacity > 0))
    tier, pod, reach = topology.tier, topology.pod, live.reach
    uplinks = alive[tier[topology.lower[alive]] == 0]
    leaves = np.flatnonzero(tier == 0)
    if reach is not None:
        lower, upper = topology.lower[uplinks], topology.upper[uplinks]
        uplinks = uplinks[reach[:, leaves].sum(axis=1)[upper] > reach[upper, lower]]
    families = [_cuts(topology, np.where(near != far, near, -1), uplinks, topology.lower[uplinks])]
    if (tier == 1).any():
        here, there = pod[near], pod[far]
        cables = alive[tier[topology.upper[alive]] == 2]
        families.append(_cuts(topology, np.where(here != there, here, -1), cables, pod[topology.lower[cables]]))
        if reach is not None:
            leaving = (reach[:, leaves] & (pod[leaves] != pod[:, None])).any(axis=1)
            uplinks = uplinks[leaving[topology.upper[uplinks]]]
            outwards = _cuts(topology, np.where(here != there, near, -1), uplinks, topology.lower[uplinks])
            families.append(outwards._replace(partial=False))
    return families


def _cuts(topology: Topology, crossed: Ints, cables: Ints, cut: Ints) -> _Cuts:
    """Return a family of cuts, numbered by switch; `cut` is the cut of each of `cables`."""
    order = np.argsort(cut, kind="stable")
    begin = np.searchsorted(cut[order], np.arange(len(topology.switch_ids) + 1)).astype(np.int64)
    cables = cables[order]
    return _Cuts(crossed, topology.cable_capacity[cables], topology.upper[cables], begin, True)


def _falling(demand: Ints) -> Ints:
    """Return the rows by descending demand, equal ones in order."""
    if demand.min() == demand.max():
        return np.arange(len(demand), dtype=np.int64)
    return np.argsort(-demand, kind="stable")


@kernel
def _bound_of_cuts(rows: Ints, begin: Ints, cuts: _Cuts, demands: Demands, counters: Counters, best: Best) -> Best:
    """Return the largest of `best` and the bounds of these cuts; `rows` from `begin` on are the flows of each."""
    for cut in range(begin.shape[0] - 1):
        widths = cuts.widths[cuts.begin[cut] : cuts.begin[cut + 1]]
        best = bound_of_cut(rows[begin[cut] : begin[cut + 1]], widths, demands, counters, best)
    return best


@kernel
def _bound_of_partial_cuts(
    rows: Ints, begin: Ints, far: Ints, cuts: _Cuts, reach: Flags, demands: Demands, counters: Counters, best: Best
) -> Best:  # fmt: skip
    """Return the largest of `best` and the bounds of some links of each cut, with the flows that can use no other."""
    group_of_flow = np.empty(far.shape[0], np.int64)
    for cut in range(begin.shape[0] - 1):
        low, high = cuts.begin[cut], cuts.begin[cut + 1]
        crossing, widths = rows[begin[cut] : begin[cut + 1]], cuts.widths[low:high]
        useful = _group_by_links(crossing, far, cuts.upper[low:high], reach, group_of_flow)
        members, start = grouped(crossing, group_of_flow, useful.shape[0])
        for group in range(useful.shape[0]):
            flows = members[start[group] : start[group + 1]]
            best = bound_of_cut(flows, widths[useful[group]], demands, counters, best)
        members, start = _unable_by_link(crossing, group_of_flow, useful)
        others = widths[1:].copy()  # all links but one, the first at first
        for link in range(high - low):
            best = bound_of_cut(members[start[link] : start[link + 1]], others, demands, counters, best)
            if link < others.shape[0]:
                others[link] = widths[link]
    return best


@kernel
def _group_by_links(rows: Ints, far: Ints, upper: Ints, reach: Flags, group_of_flow: Ints) -> Flags:
    """Group flows by the links, to the switches `upper`, that reach their far leaf; return the links of each group.

    Flows that can use all links are in group -1.
    """
    group_of_leaf = np.full(reach.shape[1], -2, np.int64)
    useful, groups = np.empty((16, upper.shape[0]), np.bool_), 0
    for i in range(rows.shape[0]):
        leaf = far[rows[i]]
        if group_of_leaf[leaf] == -2:
            if groups == useful.shape[0]:
                useful = np.concatenate((useful, np.empty_like(useful)))
            for link in range(upper.shape[0]):
                useful[groups, link] = reach[upper[link], leaf]
            group = 0 if not useful[groups].all() else -1
            while 0 <= group < groups and not _equal(useful[group], useful[groups]):
                group += 1
            groups += group == groups
            group_of_leaf[leaf] = group
        group_of_flow[rows[i]] = group_of_leaf[leaf]
    return useful[:groups]


@kernel
def _equal(left: Flags, right: Flags) -> bool:
    """Return whether two rows are equal; a comparison of whole arrays would allocate one."""
    link = 0
    while link < left.shape[0] and left[link] == right[link]:
        link += 1
    return link == left.shape[0]


@kernel
def _unable_by_link(rows: Ints, group_of_flow: Ints, useful: Flags) -> tuple[Ints, Ints]:
    """Return for each link the flows that cannot use it, in the order of `rows`, and where each link's begin."""
    groups, links = useful.shape
    useless, end = np.empty((groups, links), np.int64), np.zeros(groups, np.int64)
    for group in range(groups):
        for link in range(links):
            if not useful[group, link]:
                useless[group, end[group]] = link
                end[group] += 1
    begin = np.zeros(links + 2, np.int64)  # filling moves the begin of link l from l + 1 to that of l + 1
    for i in range(rows.shape[0]):
        group = group_of_flow[rows[i]]
        for j in range(end[group] if group >= 0 else 0):
            begin[useless[group, j] + 2] += 1
    for link in range(links):
        begin[link + 2] += begin[link + 1]
    found = np.empty(begin[links + 1], np.int64)
    for i in range(rows.shape[0]):
        group = group_of_flow[rows[i]]
        for j in range(end[group] if group >= 0 else 0):
            link = useless[group, j]
            found[begin[link + 1]] = rows[i]
            begin[link + 1] += 1
    return found, begin[: links + 1]
