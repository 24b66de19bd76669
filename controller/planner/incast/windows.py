"""Plan admission windows: the senders of an incast take turns, so that the receiver is full but not overloaded.

Rates are the default. Turns are planned for a job that requests them, and where so many senders share a receiver that
their paced packets, arriving together, exceed the buffer of its switch port. The senders of one job's phase into one
NIC take turns within the share of the receiver that their rates sum up to; jobs share it by rate. In its slot a sender
is faster by as much as the others pause, limited by the free capacity on its path; a sender without free capacity
keeps its rate. All rates derive from those already planned, so no slot overloads a link or a NIC.
"""

from collections.abc import Sequence

import numpy as np

from heddle.controller.model.job import Incast, JobRequest
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, kernel
from heddle.controller.planner.ground.loads import heaviest_phases, layers_of
from heddle.controller.planner.ground.ordered import first_from, smallest, total
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.planner.incast.confinement import grouped
from heddle.controller.planner.incast.incast import crowded_nics

MTU_BYTES = 4_096
PORT_BUFFER_BYTES = 1 << 20
"""What one lossless port of a shallow-buffered switch holds before it pauses its neighbours, conservatively."""
MAX_UNSYNCHRONISED = PORT_BUFFER_BYTES // MTU_BYTES
"""The number of paced senders whose packets fit into the buffer at once; above it, turns are planned by default."""
MIN_SLOT_NS = 100_000
"""The clocks of hosts must agree within a tenth of a slot: 10 us, which PTP achieves and NTP does not."""
MAX_SLOT_NS = 1_000_000_000
PACKETS_PER_SLOT = 16
"""The least number of packets per slot, which limits the loss of capacity at its edges."""
MAX_SLOTS = 4_096
MIN_THROUGHPUT_RATIO = 0.95
"""The throughput, relative to that of rates, below which turns that the job has not requested are not used."""


def admitted(
    topology: Topology, jobs: Sequence[JobRequest], flows: Flows, hops: Ints, rates: Ints
) -> tuple[Ints, Turns | None]:
    """Return the rates of flows in their slots, and the turns; the same `rates` and None where all may always send."""
    if len(jobs) == 0 or np.array_equal(rates, flows.demand_bps):
        return rates, None  # an incast would have lowered some
    rows, classes, forced = _candidates(topology, jobs, flows, rates)
    if not len(rows):
        return rates, None
    places = np.column_stack((flows.src_nic + topology.first_nic_link, hops))
    links = topology.first_nic_link + topology.nics
    busy = heaviest_phases(flows, places, links, rates)
    turning = heaviest_phases(flows.rows(rows), places[rows], links, rates[rows])
    slack = np.maximum(topology.capacity[:links].astype(np.float64) - busy, 0.0)
    by_class, begin = grouped(rows, classes, int(classes.max()) + 1)
    table = np.zeros((3, len(flows)), dtype=np.int64)
    faster = rates.copy()
    _take_turns(
        np.ascontiguousarray(places), flows.src_nic, rates, by_class, begin, forced, slack, turning, topology.nics,
        table, faster,
    )  # fmt: skip
    if not table[1].any():
        return rates, None
    return faster, Turns(slot=table[0], slots=table[1], slot_ns=table[2])


def _candidates(
    topology: Topology, jobs: Sequence[JobRequest], flows: Flows, rates: Ints
) -> tuple[Ints, Ints, Flags]:  # fmt: skip
    """Return the rows that may take turns, their class (a job's phase into a NIC), and which classes must."""
    none = np.empty(0, dtype=np.int64)
    wish = np.array([job.incast for job in jobs], dtype=np.int64)
    many = np.bincount(flows.dst_nic, minlength=topology.nics) > MAX_UNSYNCHRONISED
    if not (wish == Incast.WINDOWS).any() and not (many.any() and (wish == Incast.UNSPECIFIED).any()):
        return none, none, none.astype(np.bool_)
    full, wanted = crowded_nics(topology, flows), wish[flows.job]
    may = full[flows.dst_nic] & ((wanted == Incast.WINDOWS) | ((wanted == Incast.UNSPECIFIED) & many[flows.dst_nic]))
    if not _some_can_speed_up(topology, flows, rates, may):
        return none, none, none.astype(np.bool_)
    rows = np.flatnonzero(full[flows.dst_nic])
    classes = _classes(topology, flows, rows)
    count = int(classes.max(initial=-1)) + 1
    by_class, begin = grouped(rows, classes, count)
    senders = _first_of_sender(flows.src_nic, by_class, begin, topology.nics)
    crowd = heaviest_phases(flows.rows(senders), flows.dst_nic[senders][:, None], topology.nics, np.ones(len(senders)))
    chosen = may[rows] & ((wanted[rows] == Incast.WINDOWS) | (crowd[flows.dst_nic[rows]] > MAX_UNSYNCHRONISED))
    forced = np.zeros(count, dtype=np.bool_)
    forced[classes[wanted[rows] == Incast.WINDOWS]] = True
    return rows[chosen], classes[chosen], forced


def _some_can_speed_up(topology: Topology, flows: Flows, rates: Ints, may: Flags) -> bool:
    """Return whether any NIC can send twice as fast in a slot; in an all-to-all none can."""
    busy = heaviest_phases(flows, flows.src_nic[:, None], topology.nics, rates)
    turning = heaviest_phases(flows, np.where(may, flows.src_nic, -1)[:, None], topology.nics, rates)
    return bool(((turning > 0) & (topology.nic_capacity - busy >= turning)).any())


def _classes(topology: Topology, flows: Flows, rows: Ints) -> Ints:
    """Number the pairs of layer and receiver."""
    layers = layers_of(flows)
    if len(layers.job) == 1:
        return flows.dst_nic[rows]  # numbers without a flow are harmless
    key = layers.of_flow[rows] * topology.nics + flows.dst_nic[rows]
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


@kernel
def _first_of_sender(src_nic: Ints, rows: Ints, begin: Ints, nics: int) -> Ints:
    """Return the first flow of each sender in each class."""
    seen, found, count = np.full(nics, -1, np.int64), np.empty(rows.shape[0], np.int64), 0
    for group in range(begin.shape[0] - 1):
        for i in range(begin[group], begin[group + 1]):
            if seen[src_nic[rows[i]]] != group:
                seen[src_nic[rows[i]]] = group
                found[count] = rows[i]
                count += 1
    return found[:count].copy()


@kernel
def _by_sender(src_nic: Ints, rows: Ints, number: Ints) -> tuple[Ints, Ints]:
    """Sort a class's flows by sender; return them and where each sender's begin. `number` is scratch space, all -1."""
    count = 0
    for f in rows:
        if number[src_nic[f]] < 0:
            number[src_nic[f]] = count
            count += 1
    begin = np.zeros(count + 1, np.int64)
    for f in rows:
        begin[number[src_nic[f]] + 1] += 1
    for i in range(count):
        begin[i + 1] += begin[i]
    cursor, found = begin[:-1].copy(), np.empty(rows.shape[0], np.int64)
    for f in rows:
        found[cursor[number[src_nic[f]]]] = f
        cursor[number[src_nic[f]]] += 1
    for f in rows:
        number[src_nic[f]] = -1
    return found, begin


@kernel
def _add(total: Floats, places: Ints, rates: Ints, rows: Ints, sign: float) -> None:
    """Add the rates of flows, times `sign`, to the totals of their links."""
    for f in rows:
        for column in range(places.shape[1]):
            if places[f, column] >= 0:
                total[places[f, column]] += sign * rates[f]


@kernel
def _factor(room: Floats, total: Floats, places: Ints, rows: Ints, limit: float) -> float:
    """Return the factor, at most `limit`, by which flows with `total` on their links may speed up within `room`."""
    for f in rows:
        for column in range(places.shape[1]):
            link = places[f, column]
            if link >= 0 and total[link] > 0:
                limit = min(limit, room[link] / total[link])
    return limit


@kernel
def _slot_count(speedup: Floats, max_slots: int) -> int:
    """Return the number of slots for senders that can speed up by these factors; 1 where slots gain nothing.

    The result minimises the senders that send at once; of equal results it has the fewest slots.
    """
    order = np.sort(speedup)
    best, fewest, senders = 1, order.shape[0], order.shape[0]
    below = 0
    for slots in range(2, min(senders, max_slots) + 1):
        while below < senders and order[below] < slots * (1 - 1e-9):
            below += 1
        turning = senders - below
        if turning < slots:
            break
        at_once = below + (turning + slots - 1) // slots
        if at_once < fewest:
            best, fewest = slots, at_once
    return best


@kernel
def _slots_of(means: Floats, slots: int) -> Ints:
    """Divide senders evenly among slots by mean rate: the largest first, each to the emptiest slot."""
    slot, filled = np.empty(means.shape[0], np.int64), np.zeros(slots)
    order = np.argsort(-means, kind="mergesort")
    even = means[order[0]] - means[order[-1]] <= 1e-6 * means[order[0]]
    for i in range(order.shape[0]):
        place = i % slots if even else smallest(filled)
        slot[order[i]] = place
        filled[place] += means[order[i]]
    return slot


@kernel
def _slot_ns(rate: float) -> int:
    """Return the length of a slot in ns, a power of ten, for the rate of the slowest sender; 0 where it is too long."""
    least, length = PACKETS_PER_SLOT * MTU_BYTES * 8e9 / max(rate, 1.0), MIN_SLOT_NS
    while length < least and length <= MAX_SLOT_NS:
        length *= 10
    return length if length <= MAX_SLOT_NS else 0


@kernel
def _take_turns(
    places: Ints, src_nic: Ints, rates: Ints, rows: Ints, begin: Ints, forced: Flags, slack: Floats, turning: Floats,
    nics: int, table: Ints, faster: Ints,
) -> None:  # fmt: skip
    """Plan the turns of each class; write slot, slots and slot_ns to `table` and the rates in a slot to `faster`."""
    number = np.full(nics, -1, np.int64)
    mine, used, room = np.zeros(slack.shape[0]), np.zeros(slack.shape[0]), np.zeros(slack.shape[0])
    for group in range(begin.shape[0] - 1):
        if begin[group + 1] - begin[group] < 2:
            continue
        members, first = _by_sender(src_nic, rows[begin[group] : begin[group + 1]], number)
        senders = first.shape[0] - 1
        _add(mine, places, rates, members, 1.0)
        for f in members:
            for column in range(places.shape[1]):
                link = places[f, column]
                if link >= 0:  # the free capacity is divided among classes by their rates
                    room[link] = mine[link] + slack[link] * mine[link] / max(turning[link], 1.0)
        speedup, means = np.empty(senders), np.zeros(senders)
        for i in range(senders):
            part = members[first[i] : first[i + 1]]
            _add(used, places, rates, part, 1.0)
            speedup[i] = _factor(room, used, places, part, 1e9)
            _add(used, places, rates, part, -1.0)
            means[i] = total(rates[part])
        slots = _slot_count(speedup, MAX_SLOTS)
        if slots > 1:
            _turns_of_class(
                places, rates, members, first, speedup, means, slots, room, used, forced[group], table, faster
            )
        _add(mine, places, rates, members, -1.0)


@kernel
def _turns_of_class(
    places: Ints, rates: Ints, members: Ints, first: Ints, speedup: Floats, means: Floats, slots: int, room: Floats,
    used: Floats, forced: bool, table: Ints, faster: Ints,
) -> None:  # fmt: skip
    """Assign slots and rates to the senders of a class that can speed up; the others keep their rates at all times."""
    takes_turns = (speedup >= slots * (1 - 1e-9)) & (means > 0)
    turns = np.arange(means.shape[0])[takes_turns]
    if turns.shape[0] < slots:
        return
    for i in range(means.shape[0]):
        if not takes_turns[i]:
            _add(room, places, rates, members[first[i] : first[i + 1]], -1.0)
    whole, slot = total(means[turns]), _slots_of(means[turns], slots)
    order, factor, slowest, mean = np.argsort(slot, kind="mergesort"), np.ones(slots), 1e30, 0.0
    in_order, end = slot[order], 0
    for s in range(slots):
        begin, end = end, first_from(in_order, end, in_order.shape[0], s + 1)
        here = turns[order[begin:end]]
        for i in here:
            _add(used, places, rates, members[first[i] : first[i + 1]], 1.0)
        factor_here = min(float(slots), whole / total(means[here]))
        for i in here:
            factor_here = _factor(room, used, places, members[first[i] : first[i + 1]], factor_here)
        for i in here:
            _add(used, places, rates, members[first[i] : first[i + 1]], -1.0)
            slowest = min(slowest, means[i] * max(1.0, factor_here))
        factor[s] = max(1.0, factor_here)
        mean += total(means[here]) * factor[s] / slots
    length = _slot_ns(slowest)
    if length == 0 or (mean < MIN_THROUGHPUT_RATIO * whole and not forced):
        return
    for j in range(turns.shape[0]):
        for f in members[first[turns[j]] : first[turns[j] + 1]]:
            table[0, f], table[1, f], table[2, f] = slot[j], slots, length
            faster[f] = np.int64(rates[f] * factor[slot[j]])
