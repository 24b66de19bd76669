"""Compute max-min fair rates by progressive filling, and from them the rates of a plan's flows."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel, kernel
from heddle.controller.planner.proof.heap import sink

INCAST_HEADROOM = 0.95
"""The fraction of a NIC's rate that several senders together may use ("Rate" in docs/contract.md)."""
MAX_COMPLETION_NS = 2**64 - 1
"""The contract's field has 64 bits, for 584 years; 2^64 bytes at 1 bit/s take longer."""
ROUNDING = 1e-6
"""A share or a utilisation within this of 1 counts as 1, because demands and rates are whole bit/s."""


@kernel
def _wanted_links(places: Ints, capacity: Floats, cap: Floats) -> tuple[Ints, Ints, Ints]:
    """Return the links that can become full, because the caps of their flows exceed their capacity.

    Returns the link numbers, then the links of each flow as indices into them: where each flow's begin, and all.
    """
    flows, width, links = places.shape[0], places.shape[1], capacity.shape[0]
    asked, number = np.zeros(links), np.full(links, -1)
    for f in range(flows):
        for column in range(width):
            if places[f, column] >= 0:
                asked[places[f, column]] += cap[f]
    wanted, count = np.empty(links, np.int64), 0
    for link in range(links):
        if asked[link] > capacity[link]:
            wanted[count], number[link] = link, count
            count += 1
    start, crossed, end = np.zeros(flows + 1, np.int64), np.empty(flows * width, np.int64), 0
    for f in range(flows):
        for column in range(width):
            if places[f, column] >= 0 and number[places[f, column]] >= 0:
                crossed[end] = number[places[f, column]]
                end += 1
        start[f + 1] = end
    return wanted[:count], start, crossed[:end]


@kernel
def _flows_of_links(start: Ints, crossed: Ints, links: int) -> tuple[Ints, Ints]:
    """Transpose the links of each flow into the flows of each link: where each link's begin, and all flows."""
    begin = np.zeros(links + 1, np.int64)
    for place in range(crossed.shape[0]):
        begin[crossed[place] + 1] += 1
    for link in range(links):
        begin[link + 1] += begin[link]
    cursor, members = begin[:-1].copy(), np.empty(begin[links], np.int64)
    for f in range(start.shape[0] - 1):
        for place in range(start[f], start[f + 1]):
            members[cursor[crossed[place]]] = f
            cursor[crossed[place]] += 1
    return begin, members


@bare_kernel
def _freeze(f: int, rate: float, start: Ints, crossed: Ints, rates: Floats, left: Floats, active: Ints) -> None:
    """Fix the rate of a flow and subtract it from its links."""
    rates[f] = rate
    for place in range(start[f], start[f + 1]):
        left[crossed[place]] -= rate
        active[crossed[place]] -= 1


@kernel
def _fill(places: Ints, capacity: Floats, cap: Floats, by_cap: Ints) -> Floats:
    """Freeze flows at the fair share of a full link or at their `cap`, whichever is lower; `by_cap` sorts by cap."""
    wanted, start, crossed = _wanted_links(places, capacity, cap)
    size, next_cap = wanted.shape[0], 0
    begin, members = _flows_of_links(start, crossed, size)
    active, left = np.empty(size, np.int64), np.empty(size)
    key, link, rates = np.empty(size), np.empty(size, np.int64), np.empty(places.shape[0])
    for place in range(size):
        active[place], left[place] = begin[place + 1] - begin[place], capacity[wanted[place]]
        key[place], link[place] = left[place] / active[place], place
    for f in range(places.shape[0]):
        rates[f] = -1.0
    for place in range(size // 2 - 1, -1, -1):
        sink(key, link, size, place)
    while size > 0:
        while next_cap < by_cap.shape[0] and rates[by_cap[next_cap]] >= 0:
            next_cap += 1
        if next_cap < by_cap.shape[0] and cap[by_cap[next_cap]] <= key[0]:
            _freeze(by_cap[next_cap], cap[by_cap[next_cap]], start, crossed, rates, left, active)
            continue
        top = link[0]
        share = max(0.0, left[top] / active[top]) if active[top] > 0 else 0.0
        if active[top] > 0 and share > key[0] * (1 + 1e-12):
            key[0] = share
        else:
            if active[top] > 0:
                for i in range(begin[top], begin[top + 1]):
                    if rates[members[i]] < 0:
                        _freeze(members[i], share, start, crossed, rates, left, active)
            size -= 1
            key[0], link[0] = key[size], link[size]
        if size > 0:
            sink(key, link, size, 0)
    for f in range(places.shape[0]):
        if rates[f] < 0:
            rates[f] = cap[f]
    return rates


def max_min_rates(places: Ints, capacity: Floats, cap: Floats) -> Floats:
    """Return the max-min fair rate of each flow over its links (rows of `places`, -1: none), at most its `cap`.

    The fair share of a link only grows while flows freeze, so a heap of shares may be stale: the share of a link is
    recomputed when it is at the top (progressive filling, Bertsekas and Gallager, Data Networks, 6.5.2).
    """
    # Equal demands, the usual case, are already sorted; sorting would cost as much as the filling.
    if (cap[1:] >= cap[:-1]).all():
        return _fill(places, capacity, cap, np.arange(len(cap), dtype=np.int64))
    return _fill(places, capacity, cap, np.argsort(cap, kind="stable"))


class Part(Protocol):
    """A subset of the flows with what they cross."""

    @property
    def demand_bps(self) -> Ints:
        """Return the demand of each flow in bit/s."""

    def rows(self, chosen: Ints) -> "Part":
        """Return some of the flows."""

    def shares(self, topology: Topology, headroom: float) -> Ints:
        """Return the max-min shares of these flows, all active at once, in bit/s."""


class Crossings(Protocol):
    """What each flow crosses, where that is more than one path."""

    def touched(self, tight: Flags) -> Ints:
        """Return the rows of the flows that cross a tight link."""

    def part(self, rows: Ints, tight: Flags) -> Part:
        """Return some of the flows, with the tight links alone: no other can become full."""


def planned_rates(
    topology: Topology, flows: Flows, hops: Ints, loads: Floats, headroom: float = INCAST_HEADROOM,
    crossings: Crossings | None = None,
) -> Ints:  # fmt: skip
    """Return the rate in bit/s at which each flow may send: the paragraph "Rate" of docs/contract.md.

    A flow on links with free capacity sends at its demand. Where the demands exceed a link or a NIC, the flows have
    max-min fair shares, phase by phase: a job's phase competes with the heaviest phase of every other job. `headroom`
    is the fraction of a NIC's rate that several senders together may use. `crossings` are what flows cross where some
    are sprayed over several paths.
    """
    rates = flows.demand_bps.copy()
    first, paths = topology.first_nic_link, np.ascontiguousarray(hops)
    tight = _tight_links(flows.src_nic, flows.dst_nic, first, topology.capacity, loads, headroom)
    if not tight.any():
        return rates
    if crossings is None:
        touched = _touched(flows.src_nic, paths, flows.dst_nic, first, tight)
        part: Part = _Part.of(topology, flows, paths, touched)
    else:
        touched = crossings.touched(tight)
        part = crossings.part(touched, tight)
    layer, job_of_layer, heavy = heaviest_layers_of(flows.job[touched], flows.phase[touched], part.demand_bps)
    # All heaviest phases compete with each other, so one filling serves them all; each other phase has its own.
    solved, first_members = np.empty(len(touched), dtype=np.int64), np.flatnonzero(heavy[layer])
    solved[first_members] = part.rows(first_members).shares(topology, headroom)
    by_layer, begins = np.argsort(layer, kind="stable"), np.searchsorted(np.sort(layer), np.arange(len(heavy) + 1))
    job_of_first = job_of_layer[layer[first_members]]
    for number in np.flatnonzero(~heavy).tolist():
        others = first_members[job_of_first != job_of_layer[number]]
        members = np.sort(np.concatenate((by_layer[begins[number] : begins[number + 1]], others)))
        rows = layer[members] == number
        solved[members[rows]] = part.rows(members).shares(topology, headroom)[rows]
    rates[touched] = np.minimum(solved, rates[touched])
    return rates


def fair_shares(
    topology: Topology, flows: Flows, hops: Ints, loads: Floats, rates: Ints, crossings: Crossings | None = None
) -> Floats:
    """Return each flow's max-min fair rate divided by its demand, at most 1: "Share" in docs/contract.md.

    `rates` are the planned rates in bit/s; where no NIC has an incast, they are the fair rates.
    """
    if not (loads > (1 + ROUNDING) * topology.capacity).any():
        return np.ones(len(flows))
    if crowded_receivers(flows.src_nic, flows.dst_nic, flows.demand_bps, topology.nic_capacity).any():
        rates = planned_rates(topology, flows, hops, loads, 1.0, crossings)
    slowed = rates + 1 < (1 - ROUNDING) * flows.demand_bps  # planned rates are rounded down
    return np.where(slowed, rates / np.maximum(flows.demand_bps, 1), 1.0)


@kernel
def _tight_links(
    src_nic: Ints, dst_nic: Ints, first_nic_link: int, capacity: Ints, loads: Floats, headroom: float
) -> Flags:
    """Return the overloaded links: a utilisation above 1, or several senders above the headroom of a NIC.

    Demands are rounded to whole bit/s, so flows that exactly fill a link may exceed its capacity: within `ROUNDING`, a
    utilisation is 1.
    """
    links, nics = capacity.shape[0], (capacity.shape[0] - first_nic_link) // 2
    entering, sender, tight = first_nic_link + nics, np.full(nics, -1), np.zeros(links, np.bool_)
    for link in range(links):
        tight[link] = loads[link] > (1 + ROUNDING) * capacity[link]
    for f in range(src_nic.shape[0] if headroom < 1 else 0):
        into = dst_nic[f]
        if sender[into] < 0:
            sender[into] = src_nic[f]
        elif sender[into] != src_nic[f]:
            tight[entering + into] = loads[entering + into] > headroom * capacity[entering + into]
    return tight


@kernel
def _touched(src_nic: Ints, hops: Ints, dst_nic: Ints, first_nic_link: int, tight: Flags) -> Ints:
    """Return the rows of the flows that cross a tight link."""
    entering = first_nic_link + (tight.shape[0] - first_nic_link) // 2
    found, count = np.empty(src_nic.shape[0], np.int64), 0
    for f in range(src_nic.shape[0]):
        touched = tight[first_nic_link + src_nic[f]] or tight[entering + dst_nic[f]]
        for column in range(hops.shape[1]):
            touched = touched or (hops[f, column] >= 0 and tight[hops[f, column]])
        if touched:
            found[count] = f
            count += 1
    return found[:count].copy()


@kernel
def crowded_receivers(src_nic: Ints, dst_nic: Ints, demand_bps: Ints, nic_capacity: Ints) -> Flags:
    """Return the NICs to which two or more senders together send more than the headroom."""
    asked, sender = np.zeros(nic_capacity.shape[0]), np.full(nic_capacity.shape[0], -1)
    crowded = np.zeros(nic_capacity.shape[0], np.bool_)
    for f in range(dst_nic.shape[0]):
        into = dst_nic[f]
        asked[into] += demand_bps[f]
        if sender[into] < 0:
            sender[into] = src_nic[f]
        elif sender[into] != src_nic[f]:
            crowded[into] = True
    for nic in range(nic_capacity.shape[0]):
        crowded[nic] = crowded[nic] and asked[nic] > INCAST_HEADROOM * nic_capacity[nic]
    return crowded


def heaviest_layers_of(job: Ints, phase: Ints, demand_bps: Ints) -> tuple[Ints, Ints, Flags]:
    """Return the layer (a phase of a job) of each flow, the job of each layer, and which are the heaviest of a job."""
    begins = np.ones(len(job), dtype=np.bool_)
    begins[1:] = (job[1:] != job[:-1]) | (phase[1:] != phase[:-1])
    # A job's flows are ordered by phase, or nearly so: there are few runs.
    run, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    layers, of_run = np.unique(np.column_stack((job[first], phase[first])), axis=0, return_inverse=True)
    layer = of_run.reshape(-1)[run]
    weight = np.bincount(layer, weights=demand_bps)
    order = np.lexsort((layers[:, 1], -weight, layers[:, 0]))
    jobs = layers[order, 0]
    heavy = np.zeros(len(layers), dtype=np.bool_)
    heavy[order[np.concatenate(([True], jobs[1:] != jobs[:-1]))[: len(jobs)]]] = True
    return layer, layers[:, 0], heavy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """A subset of the flows with all their links, NIC links included."""

    src_nic: Ints
    dst_nic: Ints
    demand_bps: Ints
    places: Ints

    @staticmethod
    def of(topology: Topology, flows: Flows, hops: Ints, rows: Ints) -> "_Part":
        source, target, first = flows.src_nic[rows], flows.dst_nic[rows], topology.first_nic_link
        places = np.empty((len(rows), hops.shape[1] + 2), dtype=np.int64)
        places[:, 0], places[:, 1:-1], places[:, -1] = source + first, hops[rows], target + first + topology.nics
        return _Part(src_nic=source, dst_nic=target, demand_bps=flows.demand_bps[rows], places=places)

    def rows(self, chosen: Ints) -> "_Part":
        if len(chosen) == len(self.src_nic):
            return self
        return _Part(
            src_nic=self.src_nic[chosen], dst_nic=self.dst_nic[chosen], demand_bps=self.demand_bps[chosen],
            places=self.places[chosen],
        )  # fmt: skip

    def shares(self, topology: Topology, headroom: float) -> Ints:
        """Return the max-min shares of these flows, all active at once, in bit/s."""
        capacity = topology.capacity.astype(np.float64)
        crowded = crowded_receivers(self.src_nic, self.dst_nic, self.demand_bps, topology.nic_capacity)
        capacity[topology.first_nic_link + topology.nics :] *= np.where(crowded, headroom, 1.0)
        rates = max_min_rates(self.places, capacity, self.demand_bps.astype(np.float64))
        return np.floor(rates + 1e-6).astype(np.int64)


@kernel
def _slowest_of_runs(phase: Ints, size_bytes: Floats, rates: Floats) -> tuple[Ints, Floats]:
    """Return for each run of flows of one phase the phase and the time in ns of its slowest flow."""
    phases, slowest, runs = np.empty(phase.shape[0], np.int64), np.zeros(phase.shape[0]), 0
    for f in range(phase.shape[0]):
        if f == 0 or phase[f] != phase[f - 1]:
            phases[runs] = phase[f]
            runs += 1
        if size_bytes[f] > 0:
            time_ns = size_bytes[f] * 8e9 / rates[f] if rates[f] > 0 else np.inf
            slowest[runs - 1] = max(slowest[runs - 1], time_ns)
    return phases[:runs].copy(), slowest[:runs].copy()


def completion_ns(flows: Flows, rates: Ints, slots: Ints | None = None) -> int:
    """Return the time in ns of one iteration of a job: the sum over phases of the time of its slowest flow.

    This is the fluid model. The rates of a phase are max-min shares beside the heaviest phase of every other job, and
    senders keep to them, so no flow delays another or speeds up when another ends. A flow that may send in one of n
    `slots` has an n-th of its rate on average. Returns 0 if no flow has a size, or one has no rate. Dependencies inside
    a collective are not modelled. A time above MAX_COMPLETION_NS counts as that.
    """
    mean_rates = rates.astype(np.float64) if slots is None else rates / np.maximum(slots, 1)
    phase, time_ns = _slowest_of_runs(flows.phase, flows.size_bytes, mean_rates)
    if not np.isfinite(time_ns).all():
        return 0
    if len(time_ns) == 1:
        return min(round(float(time_ns[0])), MAX_COMPLETION_NS)
    phases, index = np.unique(phase, return_inverse=True)
    slowest = np.zeros(len(phases))
    np.maximum.at(slowest, index, time_ns)
    return min(round(float(slowest.sum())), MAX_COMPLETION_NS)
