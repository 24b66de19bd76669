"""Max-min fair rates by progressive filling, and what they say of rates and completion times."""

import numpy as np

from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.jit import Flags, Floats, Ints, kernel
from controller.planner.loads import link_places

INCAST_HEADROOM = 0.95
"""The share of a NIC's rate that several senders together may fill (the contract's "Rate")."""


@kernel
def _sink(key: Floats, link: Ints, size: int, place: int) -> None:
    """Restore the heap order below a place."""
    share, moved = key[place], link[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[child] >= share:
            break
        key[place], link[place] = key[child], link[child]
        place = child
    key[place], link[place] = share, moved


@kernel
def _flows_of_links(places: Ints, links: int) -> tuple[Ints, Ints]:
    """Turn rows of links into the flows of each link: flow numbers, and where each link's begin."""
    start = np.zeros(links + 1, np.int64)
    for f in range(places.shape[0]):
        for column in range(places.shape[1]):
            if places[f, column] >= 0:
                start[places[f, column] + 1] += 1
    for link in range(links):
        start[link + 1] += start[link]
    cursor, members = start[:-1].copy(), np.empty(start[links], np.int64)
    for f in range(places.shape[0]):
        for column in range(places.shape[1]):
            link = places[f, column]
            if link >= 0:
                members[cursor[link]] = f
                cursor[link] += 1
    return members, start


@kernel
def _freeze(f: int, rate: float, places: Ints, rates: Floats, left: Floats, active: Ints) -> None:
    rates[f] = rate
    for column in range(places.shape[1]):
        if places[f, column] >= 0:
            left[places[f, column]] -= rate
            active[places[f, column]] -= 1


@kernel
def max_min_rates(places: Ints, capacity: Floats, most: Floats) -> Floats:
    """Return the max-min fair rate of each flow over its links (rows of `places`, -1: none), none above `most`.

    A link's fair share only grows while others freeze, so a heap of shares may be stale: a link is looked at again
    when it comes out on top (progressive filling, Bertsekas and Gallager, Data Networks, 6.5.2).
    """
    members, start = _flows_of_links(places, capacity.shape[0])
    active, left, rates = np.diff(start), capacity.copy(), np.full(places.shape[0], -1.0)
    key, link, size = np.empty(capacity.shape[0]), np.empty(capacity.shape[0], np.int64), 0
    for number in range(capacity.shape[0]):
        if active[number] > 0:
            key[size], link[size] = left[number] / active[number], number
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sink(key, link, size, place)
    by_cap, next_cap = np.argsort(most), 0
    while size > 0:
        while next_cap < len(by_cap) and rates[by_cap[next_cap]] >= 0:
            next_cap += 1
        if next_cap < len(by_cap) and most[by_cap[next_cap]] <= key[0]:
            _freeze(by_cap[next_cap], most[by_cap[next_cap]], places, rates, left, active)
            continue
        top = link[0]
        share = max(0.0, left[top] / active[top]) if active[top] > 0 else 0.0
        if active[top] > 0 and share > key[0] * (1 + 1e-12):
            key[0] = share
        else:
            if active[top] > 0:
                for i in range(start[top], start[top + 1]):
                    if rates[members[i]] < 0:
                        _freeze(members[i], share, places, rates, left, active)
            size -= 1
            key[0], link[0] = key[size], link[size]
        if size > 0:
            _sink(key, link, size, 0)
    for f in range(places.shape[0]):
        if rates[f] < 0:
            rates[f] = most[f]
    return rates


def planned_rates(topology: Topology, flows: Flows, hops: Ints, loads: Floats) -> Ints:
    """Return the rate in bits per second at which each flow may send: the contract's paragraph "Rate".

    Flows on links with room send what they ask for. Where a NIC's senders, or a link's flows, ask for too much, the
    flows are given max-min shares, phase by phase: a job's phase meets the heaviest phase of every other job.
    """
    rates = flows.demand_bps.copy()
    places = link_places(topology, flows, hops)
    tight = _tight_links(topology, flows, places, loads)
    if not tight.any():
        return rates
    touched = np.flatnonzero((tight[places] & (places >= 0)).any(axis=1))
    part, part_places = flows.rows(touched), places[touched]
    heavy = _heaviest(part)
    solved = np.full(len(part), np.iinfo(np.int64).max)
    for job, phase in _rounds(part, heavy):
        mine = (part.job == job) & (part.phase == phase)
        members = np.flatnonzero(mine | (heavy & (part.job != job)))
        found = _shares(topology, part.rows(members), part_places[members])
        rows = np.flatnonzero(mine[members]) if job >= 0 else np.arange(len(members))
        solved[members[rows]] = np.minimum(solved[members[rows]], found[rows])
    rates[touched] = np.minimum(solved, rates[touched])
    return rates


def _tight_links(topology: Topology, flows: Flows, places: Ints, loads: Floats) -> Flags:
    """Return which links may have to be shared: over 1, or a NIC asked for more than its headroom by several."""
    capacity = topology.capacity.astype(np.float64)
    # Demands are rounded to whole bits: n flows that exactly fill a link may pass it by n / 2 bit/s.
    tight = loads > capacity + np.bincount(places[places >= 0], minlength=len(capacity)) / 2
    entering = topology.first_nic_link + topology.nics
    pairs = np.unique(flows.dst_nic * topology.nics + flows.src_nic)
    senders = np.bincount(pairs // topology.nics, minlength=topology.nics)
    tight[entering:] |= (senders > 1) & (loads[entering:] > INCAST_HEADROOM * capacity[entering:])
    return tight


def _heaviest(flows: Flows) -> Flags:
    """Return which flows are in their job's heaviest phase, the first of equal ones."""
    layers, layer = np.unique(np.column_stack((flows.job, flows.phase)), axis=0, return_inverse=True)
    weight = np.bincount(layer.reshape(-1), weights=flows.demand_bps)
    order = np.lexsort((layers[:, 1], -weight, layers[:, 0]))
    jobs = layers[order, 0]
    chosen = np.zeros(len(layers), dtype=np.bool_)
    chosen[order[np.concatenate(([True], jobs[1:] != jobs[:-1]))]] = True
    return np.asarray(chosen[layer.reshape(-1)], dtype=np.bool_)


def _rounds(flows: Flows, heavy: Flags) -> list[tuple[int, int]]:
    """Return which (job, phase) to solve: (-1, -1) stands for all jobs of a single phase at once."""
    pairs = np.unique(np.column_stack((flows.job, flows.phase)), axis=0)
    jobs, counts = np.unique(pairs[:, 0], return_counts=True)
    many = set(jobs[counts > 1].tolist())
    rounds = [(int(job), int(phase)) for job, phase in pairs if int(job) in many]
    return [(-1, -1), *rounds] if heavy.any() else rounds


def _shares(topology: Topology, flows: Flows, places: Ints) -> Ints:
    """Return max-min shares of flows that are all active at once."""
    capacity = topology.capacity.astype(np.float64)
    asked = np.bincount(flows.dst_nic, weights=flows.demand_bps, minlength=topology.nics)
    pairs = np.unique(flows.dst_nic * topology.nics + flows.src_nic)
    senders = np.bincount(pairs // topology.nics, minlength=topology.nics)
    crowded = (senders > 1) & (asked > INCAST_HEADROOM * topology.nic_capacity)
    capacity[topology.first_nic_link + topology.nics :] *= np.where(crowded, INCAST_HEADROOM, 1.0)
    rates = max_min_rates(np.ascontiguousarray(places), capacity, flows.demand_bps.astype(np.float64))
    return np.floor(rates + 1e-6).astype(np.int64)


def completion_ns(flows: Flows, rates: Ints) -> int:
    """Return how long one iteration of a job takes: the sum over phases of its slowest flow's time at its rate.

    0 where no flow says how many bytes it carries. Dependencies inside a collective are not modelled.
    """
    if not len(flows) or not flows.size_bytes.any():
        return 0
    with np.errstate(divide="ignore", invalid="ignore"):
        time_ns = np.where(flows.size_bytes > 0, flows.size_bytes * 8e9 / rates, 0.0)
    if not np.isfinite(time_ns).all():
        return 0
    phases, index = np.unique(flows.phase, return_inverse=True)
    slowest = np.zeros(len(phases))
    np.maximum.at(slowest, index, time_ns)
    return round(float(slowest.sum()))
