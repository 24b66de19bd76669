"""Compute the load of links: the sum over jobs of the job's heaviest phase on each link.

A *layer* is one phase of one job: flows of one layer run at the same time, layers of one job never do.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Floats, Ints, bare_kernel, kernel


@kernel
def phase_loads(order: Ints, job: Ints, phase: Ints, places: Ints, amount: Floats, total: Floats) -> None:
    """Add up, per place, `amount` over each job's heaviest phase; `order` sorts the flows by job and phase."""
    load, best = np.zeros(total.shape[0]), np.zeros(total.shape[0])
    flows, width = order.shape[0], places.shape[1]
    begin = 0
    while begin < flows:
        end = begin
        while end < flows and job[order[end]] == job[order[begin]]:
            stop = end
            while stop < flows and job[order[stop]] == job[order[end]] and phase[order[stop]] == phase[order[end]]:
                for column in range(width):
                    if places[order[stop], column] >= 0:
                        load[places[order[stop], column]] += amount[order[stop]]
                stop += 1
            for i in range(end, stop):
                for column in range(width):
                    place = places[order[i], column]
                    if place >= 0:
                        best[place] = max(best[place], load[place])
                        load[place] = 0.0
            end = stop
        for i in range(begin, end):
            for column in range(width):
                place = places[order[i], column]
                if place >= 0:
                    total[place] += best[place]
                    best[place] = 0.0
        begin = end


class Layers(NamedTuple):
    """The layer of each flow and the job of each layer; layers are numbered by job, then phase."""

    of_flow: Ints
    job: Ints

    @property
    def one_per_job(self) -> bool:
        """Return whether no job has a second phase."""
        return bool((self.job[1:] != self.job[:-1]).all())


def layers_of(flows: Flows) -> Layers:
    """Number the phases of all jobs; flows form few runs of one job and phase, so only the runs are sorted."""
    if not len(flows):
        return Layers(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    layer: Ints = np.empty(len(flows), dtype=np.int64)
    count = _layers_of_jobs(flows.job, flows.phase, layer)
    if count:
        first = np.searchsorted(layer, np.arange(count))
        return Layers(layer, flows.job[first])
    changes = np.flatnonzero((flows.job[1:] != flows.job[:-1]) | (flows.phase[1:] != flows.phase[:-1]))
    begins = np.concatenate(([0], changes + 1))
    if len(begins) == 1:
        return Layers(np.zeros(len(flows), dtype=np.int64), flows.job[:1])
    job, phase = flows.job[begins], flows.phase[begins]
    order = np.lexsort((phase, job))
    job, phase = job[order], phase[order]
    first = np.concatenate(([True], (job[1:] != job[:-1]) | (phase[1:] != phase[:-1])))
    layer_of_run = np.empty(len(begins), dtype=np.int64)
    layer_of_run[order] = np.cumsum(first) - 1
    return Layers(np.repeat(layer_of_run, np.diff(np.append(begins, len(flows)))), job[first])


@bare_kernel
def _layers_of_jobs(job: Ints, phase: Ints, layer: Ints) -> int:
    """Number the jobs of flows in `layer` and return their number; 0 where jobs do not rise, or one has two phases."""
    jobs = 0
    for f in range(job.shape[0]):
        if f == 0 or job[f] > job[f - 1]:
            jobs += 1
        elif job[f] < job[f - 1] or phase[f] != phase[f - 1]:
            return 0
        layer[f] = jobs - 1
    return jobs


@bare_kernel
def sums(places: Ints, amount: Floats, total: Floats) -> None:
    """Add up `amount` at the places of each flow (-1: none)."""
    for f in range(places.shape[0]):
        for column in range(places.shape[1]):
            if places[f, column] >= 0:
                total[places[f, column]] += amount[f]


@bare_kernel
def _sums_of_paths(
    src_nic: Ints, hops: Ints, dst_nic: Ints, demand: Ints, first_nic_link: int, total: Floats
) -> None:  # fmt: skip
    """Add up the demands on every link, NIC links included."""
    into = (total.shape[0] + first_nic_link) // 2
    for f in range(hops.shape[0]):
        total[first_nic_link + src_nic[f]] += demand[f]
        total[into + dst_nic[f]] += demand[f]
        for column in range(hops.shape[1]):
            if hops[f, column] >= 0:
                total[hops[f, column]] += demand[f]


def heaviest_phases(flows: Flows, places: Ints, size: int, amount: Ints | Floats | None = None) -> Floats:
    """Return the load at each of `size` places; each flow adds its demand, or `amount`, at the places of its row.

    Sums of whole bits per second are exact below 2^53, which is 9 Pbit/s at one place.
    """
    total, layers = np.zeros(size), layers_of(flows)
    weight, places = (flows.demand_bps if amount is None else amount).astype(np.float64), np.ascontiguousarray(places)
    if layers.one_per_job:
        sums(places, weight, total)
        return total
    layer = layers.of_flow
    rising = bool((layer[1:] >= layer[:-1]).all())
    order = np.arange(len(flows), dtype=np.int64) if rising else np.argsort(layer, kind="stable")
    phase_loads(order, flows.job, flows.phase, places, weight, total)
    return total


def link_places(topology: Topology, flows: Flows, hops: Ints) -> Ints:
    """Return every link of every flow, the two NIC links included."""
    first = topology.first_nic_link
    return np.column_stack((flows.src_nic + first, hops, flows.dst_nic + first + topology.nics))


def link_loads(topology: Topology, flows: Flows, hops: Ints) -> Floats:
    """Return the load of every directed link in bits per second."""
    if not layers_of(flows).one_per_job:
        return heaviest_phases(flows, link_places(topology, flows, hops), len(topology.capacity))
    total = np.zeros(len(topology.capacity))
    paths = np.ascontiguousarray(hops)
    _sums_of_paths(flows.src_nic, paths, flows.dst_nic, flows.demand_bps, topology.first_nic_link, total)
    return total


def utilisation(topology: Topology, loads: Floats) -> Floats:
    """Return load / capacity of every directed link; infinite for a loaded link without capacity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = loads / topology.capacity
    return np.where(loads > 0, ratio, 0.0)


class LinkLoads(Mapping[str, int]):
    """A job's load in bit/s by link id, NIC links included; computed on first access."""

    def __init__(self, topology: Topology, flows: Flows, hops: Ints) -> None:
        self._topology, self._flows, self._hops = topology, flows, hops

    @cached_property
    def _by_link(self) -> dict[str, int]:
        places, size = link_places(self._topology, self._flows, self._hops), len(self._topology.capacity)
        some = places >= 0
        if places.size < size:  # a small job: only its links are added up
            links, number = np.unique(places[some], return_inverse=True)
            places[some] = number.reshape(-1)
            loads = heaviest_phases(self._flows, places, len(links))
        else:
            used = np.zeros(size, dtype=np.bool_)
            used[places[some]] = True
            links = np.flatnonzero(used)
            loads = link_loads(self._topology, self._flows, self._hops)[links]
        whole = np.rint(loads).astype(np.int64).tolist()
        return {self._topology.link_ids[link]: load for link, load in zip(links.tolist(), whole, strict=True)}

    def __getitem__(self, link: str) -> int:
        return self._by_link[link]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_link)

    def __len__(self) -> int:
        return len(self._by_link)
