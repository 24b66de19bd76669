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
    """One family of cuts: which cut each flow crosses (-1: none), and the cut's live links."""

    crossed: Ints
    capacity: Ints
    links: Ints
    widest: Ints


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
    leaf_of_cable = np.where(from_leaf, topology.lower, -1)
    families = [
        _cuts(topology, live, np.where(apart, source, -1), leaf_of_cable),
        _cuts(topology, live, np.where(apart, target, -1), leaf_of_cable),
    ]
    pod = topology.pod
    if (topology.tier == 1).any():
        leaving = topology.tier[topology.upper] == 2
        pod_of_cable = np.where(leaving, pod[topology.lower], -1)
        apart = pod[source] != pod[target]
        families += [
            _cuts(topology, live, np.where(apart, pod[source], -1), pod_of_cable),
            _cuts(topology, live, np.where(apart, pod[target], -1), pod_of_cable),
        ]
    return families


def _cuts(topology: Topology, live: Live, crossed: Ints, cut_of_cable: Ints) -> _Cuts:
    size = len(topology.switch_ids)
    cables = np.flatnonzero(live.links[: topology.cables] & (cut_of_cable >= 0))
    cut, capacity = cut_of_cable[cables], topology.cable_capacity[cables]
    total, widest = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    np.add.at(total, cut, capacity)
    np.maximum.at(widest, cut, capacity)
    return _Cuts(crossed, total, np.bincount(cut, minlength=size), widest)


def _bounds(flows: Flows, cuts: _Cuts) -> list[Bound]:
    """Return the bounds of one family: its best cut, pigeonhole and largest flow."""
    crossing = np.flatnonzero((cuts.crossed >= 0) & (cuts.links[cuts.crossed] > 0))
    if not len(crossing):
        return []
    part = flows.rows(crossing)
    crossed = cuts.crossed[crossing]
    loads = heaviest_phases(part, crossed[:, None], len(cuts.links))
    open_cuts = np.flatnonzero(cuts.capacity > 0)
    fullest = float((loads[open_cuts] / cuts.capacity[open_cuts]).max())
    heavy = _in_heaviest_phase(part, crossed, len(cuts.links))
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
    return _fullest_hole(demand[order], crossed[order], layer[order], cuts.links, cuts.widest)


@kernel
def _fullest_hole(demand: Ints, crossed: Ints, layer: Ints, links: Ints, widest: Ints) -> tuple[float, float]:
    """Scan runs of flows of one cut, the largest first."""
    hole, single = 0.0, 0.0
    begin = 0
    for i in range(demand.shape[0]):
        if i > begin and (crossed[i] != crossed[begin] or layer[i] != layer[begin]):
            begin = i
        rank, cut = i - begin, crossed[i]
        m, capacity = links[cut], widest[cut]
        if rank == 0:
            single = max(single, demand[i] / capacity)
        elif rank % m == 0:
            hole = max(hole, (rank // m + 1) * demand[i] / capacity)
        if rank == m:
            hole = max(hole, (demand[i - 1] + demand[i]) / capacity)
    return hole, single
