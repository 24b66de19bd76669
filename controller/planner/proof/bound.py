"""Lower bounds on the largest utilisation, valid for any plan of the same demands.

For each leaf and each pod, out and in: the load across the cut over its live capacity (cut); of k m + 1 flows over m
live links, k + 1 share one, and of m + 1 flows two share one (pigeonhole); the largest flow over the widest link
(largest_flow). With phases, the load of a cut is the sum over jobs of the job's heaviest phase across it.
"""

from typing import NamedTuple

import numpy as np

from controller.planner.clos import Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Ints, kernel
from controller.planner.proof.loads import Layers, heaviest_phases, layers_of


class Bound(NamedTuple):
    """A proven lower bound and the kind of its proof: "cut", "pigeonhole" or "largest_flow"."""

    value: float
    kind: str


class _Cuts(NamedTuple):
    """A family of cuts: the cut that each flow crosses (-1: none), and the live links of each cut.

    The links of cut c have the capacities `widths[begin[c]:begin[c + 1]]`, `capacity` is their sum.
    """

    crossed: Ints
    capacity: Ints
    widths: Ints
    begin: Ints


def lower_bound(topology: Topology, live: Live, flows: Flows) -> Bound:
    """Return the largest bound for these flows over the live links; Bound(0, "cut") without flows."""
    best, layers, falling = Bound(0.0, "cut"), layers_of(flows), _falling(flows.demand_bps)
    for family in _families(topology, live, flows):
        for found in _bounds(flows, layers, falling, family):
            if found.value > best.value:
                best = found
    return best


def _families(topology: Topology, live: Live, flows: Flows) -> list[_Cuts]:
    """Return the cuts of leaves and pods, out and in, and sharper ones where links have failed."""
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    from_leaf = topology.tier[topology.lower] == 0
    apart = source != target
    uplinks = np.flatnonzero(live.links[: topology.cables] & from_leaf)
    size = len(topology.switch_ids)
    families = [
        _cuts(topology, np.where(apart, source, -1), uplinks, topology.lower[uplinks], size),
        _cuts(topology, np.where(apart, target, -1), uplinks, topology.lower[uplinks], size),
    ]
    families += _families_of_pairs(topology, live, uplinks, source, target)
    pod = topology.pod
    if (topology.tier == 1).any():
        leaving = topology.tier[topology.upper] == 2
        cables = np.flatnonzero(live.links[: topology.cables] & leaving)
        apart = pod[source] != pod[target]
        families += [
            _cuts(topology, np.where(apart, pod[source], -1), cables, pod[topology.lower[cables]], size),
            _cuts(topology, np.where(apart, pod[target], -1), cables, pod[topology.lower[cables]], size),
        ]
    return families


def _families_of_pairs(topology: Topology, live: Live, uplinks: Ints, source: Ints, target: Ints) -> list[_Cuts]:
    """Return cuts without the uplinks that, after failures, reach no destination.

    For each leaf these are the uplinks that reach a leaf of its flows; for each pair of leaves, those that reach the
    other leaf.
    """
    reach, size = live.reach, len(topology.switch_ids)
    apart = np.flatnonzero(source != target)
    if reach is None or not len(apart):
        return []
    uplinks = uplinks[np.argsort(topology.lower[uplinks], kind="stable")]
    begin = np.searchsorted(topology.lower[uplinks], np.arange(size + 1))
    families = []
    for near, far in ((source, target), (target, source)):
        pairs, inverse = np.unique(near[apart] * size + far[apart], return_inverse=True)
        here, there = pairs // size, pairs % size
        counts = begin[here + 1] - begin[here]
        pair = np.repeat(np.arange(len(pairs), dtype=np.int64), counts)
        cable = uplinks[np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[here[pair]]]
        useful = reach[topology.upper[cable], there[pair]]
        crossed = np.full(len(source), -1, dtype=np.int64)
        crossed[apart] = inverse
        families.append(_cuts(topology, crossed, cable[useful], pair[useful], len(pairs)))
        some = np.unique(cable[useful])
        families.append(_cuts(topology, np.where(source != target, near, -1), some, topology.lower[some], size))
    return families


def _cuts(topology: Topology, crossed: Ints, cables: Ints, cut: Ints, size: int) -> _Cuts:
    """Return a family of `size` cuts; `cut` is the cut of each of `cables`."""
    capacity = topology.cable_capacity[cables]
    order = np.argsort(cut, kind="stable")
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, cut, capacity)
    begin = np.searchsorted(cut[order], np.arange(size + 1)).astype(np.int64)
    return _Cuts(crossed, total, capacity[order], begin)


def _falling(demand: Ints) -> Ints:
    """Return the rows by descending demand, equal ones in order."""
    if not len(demand) or demand.min() == demand.max():
        return np.arange(len(demand), dtype=np.int64)
    return np.argsort(-demand, kind="stable")


def _bounds(flows: Flows, layers: Layers, falling: Ints, cuts: _Cuts) -> list[Bound]:
    """Return the bounds of one family: its best cut, pigeonhole and largest flow."""
    crossed = np.where(cuts.capacity[cuts.crossed] > 0, cuts.crossed, -1)
    loads = heaviest_phases(flows, crossed[:, None], len(cuts.capacity))
    open_cuts = np.flatnonzero(cuts.capacity > 0)
    if not len(open_cuts) or not loads.any():
        return []
    fullest = float((loads[open_cuts] / cuts.capacity[open_cuts]).max())
    heavy = crossed if layers.one_per_job else _in_heaviest_phase(flows, layers, crossed, len(cuts.capacity))
    found = [_pigeonhole(flows.demand_bps, heavy, np.zeros(1, dtype=np.int64), falling, cuts)]
    if len(layers.job) > 1:
        found.append(_pigeonhole(flows.demand_bps, crossed, layers.of_flow, falling, cuts))
    bounds = [Bound(fullest, "cut")]
    bounds += [Bound(hole, "pigeonhole") for hole, _ in found]
    # Of equal values the largest flow is the simpler proof.
    largest = Bound(max(single for _, single in found), "largest_flow")
    return [bounds[0], largest, *bounds[1:]]


def _in_heaviest_phase(flows: Flows, layers: Layers, crossed: Ints, size: int) -> Ints:
    """Return the cut of each flow, -1 unless the flow is in the heaviest phase of its job across that cut."""
    some = np.flatnonzero(crossed >= 0)
    key, slot = np.unique(layers.of_flow[some] * size + crossed[some], return_inverse=True)
    weight = np.bincount(slot, weights=flows.demand_bps[some].astype(np.float64))
    owner = layers.job[key // size]
    order = np.lexsort((key, -weight, key % size, owner))
    owner, cut = owner[order], key[order] % size
    first = np.concatenate(([True], (owner[1:] != owner[:-1]) | (cut[1:] != cut[:-1])))
    chosen = np.zeros(len(key), dtype=np.bool_)
    chosen[order[first]] = True
    heavy = np.full(len(crossed), -1, dtype=np.int64)
    heavy[some] = np.where(chosen[slot], crossed[some], -1)
    return heavy


def _pigeonhole(demand: Ints, crossed: Ints, layer: Ints, falling: Ints, cuts: _Cuts) -> tuple[float, float]:
    """Return the best pigeonhole bound over (layer, cut), and the largest flow over the widest link of its cut."""
    order = _grouped(falling, crossed, len(cuts.capacity))
    if len(layer) == 1:
        layer = np.zeros(len(demand), dtype=np.int64)
    else:
        order = _grouped(order, layer, int(layer.max()) + 1)
    return _fullest_hole(order, demand, crossed, layer, cuts.widths, cuts.begin)


@kernel
def _grouped(order: Ints, key: Ints, size: int) -> Ints:
    """Return the rows of `order` grouped by key (0 to size - 1), keys rising; rows of key -1 are left out."""
    start = np.zeros(size + 1, np.int64)
    for i in range(order.shape[0]):
        if key[order[i]] >= 0:
            start[key[order[i]] + 1] += 1
    for group in range(size):
        start[group + 1] += start[group]
    found = np.empty(start[size], np.int64)
    for i in range(order.shape[0]):
        group = key[order[i]]
        if group >= 0:
            found[start[group]] = order[i]
            start[group] += 1
    return found


@kernel
def _fullest_hole(
    order: Ints, demand: Ints, crossed: Ints, layer: Ints, widths: Ints, begin: Ints
) -> tuple[float, float]:  # fmt: skip
    """Return the largest pigeonhole bound and the largest flow over its widest link; `order` groups flows by cut.

    n flows of demand d or more fill at best the n cheapest slots of size d, so the n-th slot is a bound. Equal links
    take slots in rotation; of unequal links, the one that stays least full takes the next slot.
    """
    hole, single, first, even = 0.0, 0.0, 0, True
    taken = np.zeros(widths.shape[0], np.int64)
    for i in range(order.shape[0]):
        f, run = order[i], order[first]
        if crossed[f] != crossed[run] or layer[f] != layer[run]:
            first = i
        low, high = begin[crossed[f]], begin[crossed[f] + 1]
        rank, m = i - first, high - low
        if rank == 0:
            taken[low:high] = 0
            even = widths[low:high].min() == widths[low:high].max()
        slot = low
        if even:
            slot = low + rank % m
        else:
            for link in range(low + 1, high):
                if (taken[link] + 1) * widths[slot] < (taken[slot] + 1) * widths[link]:
                    slot = link
        taken[slot] += 1
        value = taken[slot] * demand[f] / widths[slot]
        if rank == 0:
            single = max(single, value)
        else:
            hole = max(hole, value)
        if rank == m:
            hole = max(hole, (demand[order[i - 1]] + demand[f]) / widths[low:high].max())
    return hole, single
