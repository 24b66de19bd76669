"""Lower bounds on the largest utilisation: what no plan for the same demands can beat, whatever its paths.

For each leaf and each pod, out and in: all that crosses the cut, over what is alive of it (cut); with m live links,
k m + 1 flows put k + 1 of them on one link, and m + 1 put two there (pigeonhole); the largest flow on the largest
link (largest_flow). With phases, a cut's load is the sum over jobs of the job's heaviest phase across it.
"""

from typing import NamedTuple

import numpy as np

from controller.planner.clos import Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Ints, kernel
from controller.planner.loads import heaviest_phases


class Bound(NamedTuple):
    """A proven lower bound and the kind of its proof: "cut", "pigeonhole" or "largest_flow"."""

    value: float
    kind: str


class _Cuts(NamedTuple):
    """One family of cuts: which cut each flow crosses (-1: none), and each cut's live links.

    The links of cut c have the capacities `widths[begin[c]:begin[c + 1]]`, `capacity` is their sum.
    """

    crossed: Ints
    capacity: Ints
    widths: Ints
    begin: Ints


def lower_bound(topology: Topology, live: Live, flows: Flows) -> Bound:
    """Return the best bound for these flows over what is alive; Bound(0, "cut") for no flow at all."""
    best = Bound(0.0, "cut")
    for family in _families(topology, live, flows):
        for found in _bounds(flows, family):
            if found.value > best.value:
                best = found
    return best


def _families(topology: Topology, live: Live, flows: Flows) -> list[_Cuts]:
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
    """Return sharper cuts where failures leave uplinks that lead nowhere useful.

    For each leaf the uplinks that reach any leaf its flows go to; for each pair of leaves those that reach the other.
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
    """Make a family of `size` cuts: `cut` says which of them each of `cables` belongs to."""
    capacity = topology.cable_capacity[cables]
    order = np.argsort(cut, kind="stable")
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, cut, capacity)
    begin = np.searchsorted(cut[order], np.arange(size + 1)).astype(np.int64)
    return _Cuts(crossed, total, capacity[order], begin)


def _bounds(flows: Flows, cuts: _Cuts) -> list[Bound]:
    """Return the bounds of one family: its best cut, pigeonhole and largest flow."""
    crossing = np.flatnonzero((cuts.crossed >= 0) & (cuts.capacity[cuts.crossed] > 0))
    if not len(crossing):
        return []
    part = flows.rows(crossing)
    crossed = cuts.crossed[crossing]
    loads = heaviest_phases(part, crossed[:, None], len(cuts.capacity))
    open_cuts = np.flatnonzero(cuts.capacity > 0)
    fullest = float((loads[open_cuts] / cuts.capacity[open_cuts]).max())
    heavy = _in_heaviest_phase(part, crossed, len(cuts.capacity))
    layers = np.unique(np.column_stack((part.job, part.phase)), axis=0, return_inverse=True)[1].reshape(-1)
    found = [_pigeonhole(part.demand_bps[heavy], crossed[heavy], np.zeros(len(heavy), dtype=np.int64), cuts)]
    if layers.max(initial=0) > 0:
        found.append(_pigeonhole(part.demand_bps, crossed, layers.astype(np.int64), cuts))
    bounds = [Bound(fullest, "cut")]
    bounds += [Bound(hole, "pigeonhole") for hole, _ in found]
    # A largest flow that equals the pigeonhole is the simpler proof of the same value.
    largest = Bound(max(single for _, single in found), "largest_flow")
    return [bounds[0], largest, *bounds[1:]]


def _in_heaviest_phase(flows: Flows, crossed: Ints, size: int) -> Ints:
    """Return the flows that are in their job's heaviest phase across their cut: one phase per job and cut."""
    layer = np.unique(np.column_stack((flows.job, flows.phase)), axis=0, return_inverse=True)[1].reshape(-1)
    if layer.max(initial=0) == 0:
        return np.arange(len(flows), dtype=np.int64)
    key, slot = np.unique(layer * size + crossed, return_inverse=True)
    weight = np.bincount(slot, weights=flows.demand_bps.astype(np.float64))
    job_of_key = np.empty(len(key), dtype=np.int64)
    job_of_key[slot] = flows.job
    order = np.lexsort((key, -weight, key % size, job_of_key))
    owner = np.column_stack((job_of_key[order], key[order] % size))
    first = np.concatenate(([True], (owner[1:] != owner[:-1]).any(axis=1)))
    chosen = np.zeros(len(key), dtype=np.bool_)
    chosen[order[first]] = True
    return np.flatnonzero(chosen[slot])


def _pigeonhole(demand: Ints, crossed: Ints, layer: Ints, cuts: _Cuts) -> tuple[float, float]:
    """Return the best pigeonhole bound over (layer, cut), and the largest flow over the widest link of its cut."""
    order = np.lexsort((-demand, crossed, layer))
    return _fullest_hole(demand[order], crossed[order], layer[order], cuts.widths, cuts.begin)


@kernel
def _fullest_hole(demand: Ints, crossed: Ints, layer: Ints, widths: Ints, begin: Ints) -> tuple[float, float]:
    """Scan runs of flows of one cut, the largest first.

    n flows of at least demand d fill the n cheapest slots of size d at best: the n-th is the bound. On even links
    the slots go round; on uneven ones the next is where it leaves the link least full.
    """
    hole, single, first, even = 0.0, 0.0, 0, True
    taken = np.zeros(widths.shape[0], np.int64)
    for i in range(demand.shape[0]):
        if i > first and (crossed[i] != crossed[first] or layer[i] != layer[first]):
            first = i
        low, high = begin[crossed[i]], begin[crossed[i] + 1]
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
        value = taken[slot] * demand[i] / widths[slot]
        if rank == 0:
            single = max(single, value)
        else:
            hole = max(hole, value)
        if rank == m:
            hole = max(hole, (demand[i - 1] + demand[i]) / widths[low:high].max())
    return hole, single
