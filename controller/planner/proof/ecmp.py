"""Compute the largest utilisation of the same flows under ECMP and E-ECMP: two figures of the contract.

A CRC32 of the 5-tuple picks among the live admissible paths, with random source ports. The figure is the median of the
largest utilisation over 16 seeds. E-ECMP is the same with every flow spread over max(q, 4) queue pairs.

The port of a queue pair is drawn from the seed, the id of its flow and its number, so the path of a flow does not
depend on which others there are: `hashed` adds and removes jobs one by one.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import MAX_HOPS, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Floats, Ints, Rows, bare_kernel
from heddle.controller.planner.ground.loads import phase_loads, sums
from heddle.controller.planner.ground.ordered import first_from
from heddle.controller.planner.ground.segments import Net, Segments, admissible

SEEDS = 16
LEAST_QUEUE_PAIRS = 4
TRIES = 8
FIRST_PORT, PORT_BITS = 49152, 14
HASHED = np.dtype(
    [(name, np.int64) for name in ("source", "target", "addresses", "number", "job", "phase")] + [("bps", np.float64)]
)
"""A queue pair: its leaves, the part of its hash by addresses, the number that its port is drawn from, and its load."""
_CRC_TABLE: Ints = np.zeros(256, dtype=np.int64)
for _byte in range(256):
    _value = _byte
    for _ in range(8):
        _value = _value >> 1 ^ (0xEDB88320 if _value & 1 else 0)
    _CRC_TABLE[_byte] = _value


@bare_kernel
def crc32_of_tuple(table: Ints, src_ip: int, dst_ip: int, port: int) -> int:
    """Return the CRC32 (IEEE 802.3) of source ip, destination ip, protocol UDP, source port and port 4791."""
    crc = 0xFFFFFFFF
    for i in range(13):
        if i < 4:
            octet = src_ip >> (24 - 8 * i) & 255
        elif i < 8:
            octet = dst_ip >> (56 - 8 * i) & 255
        elif i == 8:
            octet = 17
        elif i < 11:
            octet = port >> (80 - 8 * i) & 255
        else:
            octet = 4791 >> (96 - 8 * i) & 255
        crc = (crc >> 8) ^ table[(crc ^ octet) & 255]
    return crc ^ 0xFFFFFFFF


@bare_kernel
def _nth_path(net: Net, a: int, b: int, wanted: int) -> tuple[int, int, int]:
    """Return path number `wanted` of a pair of leaves and `wanted`; with `wanted` -1, the number of paths."""
    start, top = net.start, net.top
    passed = 0
    for late in range(2):
        u, w = start[a], start[b]
        while u < start[a + 1] and w < start[b + 1]:
            if top[w] < top[u]:
                w += 1
                continue
            other = w
            while other < start[b + 1] and top[other] == top[u]:
                if admissible(net, u, other, a, b, late == 1):
                    if passed == wanted:
                        return u, other, passed
                    passed += 1
                other += 1
            u += 1
        if passed > 0:
            break
    return -1, -1, passed


@bare_kernel
def _partners(net: Net, u: int, a: int, b: int) -> tuple[int, int]:
    """Return the range of b's segments that meet a's segment u at its top.

    In a regular fabric they have the index that u has among those of a: that index is tried before a search.
    """
    start, top = net.start, net.top
    guess = start[b] + u - start[a]
    if guess < start[b + 1] and top[guess] == top[u]:
        low, high = guess, guess + 1
        while low > start[b] and top[low - 1] == top[u]:
            low -= 1
        while high < start[b + 1] and top[high] == top[u]:
            high += 1
        return low, high
    low = first_from(top, start[b], start[b + 1], top[u])
    return low, first_from(top, low, start[b + 1], top[u] + 1)


@bare_kernel
def _turns_early(net: Net, a: int, b: int) -> tuple[int, int]:
    """Return the range of a's one-cable segments where every switch directly above a has b below it, else (0, 0).

    Only such segments are admissible then. The range is also (0, 0) where they are not adjacent.
    """
    start, second, top, below, below_row = net.start, net.second, net.top, net.below, net.below_row
    low = start[a + 1]
    while low > start[a] and second[low - 1] < 0:
        low -= 1
        row = below_row[top[low]]
        if row < 0 or not below[row, b]:
            return 0, 0
    for u in range(start[a], low):
        if second[u] < 0:
            return 0, 0
    return low, start[a + 1]


@bare_kernel
def _pick(net: Net, a: int, b: int, hash_value: int) -> tuple[int, int]:
    """Pick a path by a hash: an up-segment and a partner; after `TRIES` refusals, one of all counted paths."""
    start, top, below, below_row = net.start, net.top, net.below, net.below_row
    ups, downs = start[a + 1] - start[a], start[b + 1] - start[b]
    if ups == 0 or downs == 0:
        return -1, -1
    first, chosen = start[a], hash_value
    last = below_row[top[start[a + 1] - 1]]
    if last >= 0 and below[last, b]:
        low, high = _turns_early(net, a, b)
        if high > low:
            first, ups = low, high - low
    for _ in range(TRIES):
        # The hash times the number of choices, over 2^32: as even as a remainder and without its division.
        spread = chosen * ups
        u = first + (spread >> 32)
        low, high = _partners(net, u, a, b)
        if high > low:
            w = low + ((spread & 0xFFFFFFFF) * (high - low) >> 32)
            if admissible(net, u, w, a, b, False):
                return u, w
        # A refused pick is hashed again: its neighbour would otherwise collect all refused picks.
        chosen = (chosen * 1664525 + 1013904223) & 0xFFFFFFFF
        chosen ^= chosen >> 16
    _, _, count = _nth_path(net, a, b, -1)
    if count == 0:
        return -1, -1
    u, w, _ = _nth_path(net, a, b, hash_value % count)
    return u, w


@bare_kernel
def mixed(value: int) -> int:
    """Return 32 bits that depend on all 32 bits of a value: the last step of MurmurHash3."""
    value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


@bare_kernel
def _name_tuples(table: Ints, source: Ints, target: Ints, id_columns: Ints, rows: Rows) -> None:
    """Write the hash by addresses of each flow, and a number that is drawn from the columns of its id."""
    for f in range(rows.shape[0]):
        rows[f].addresses = crc32_of_tuple(table, source[f], target[f], 0)
        number = 0
        for column in range(id_columns.shape[1]):
            number = mixed(number * 31 + id_columns[f, column] & 0xFFFFFFFF)
        rows[f].number = number


@bare_kernel
def _spread(flows: Rows, demand_bps: Ints, count: Ints, rows: Rows) -> None:
    """Write `count` queue pairs of each flow, with whole numbers of bit/s, so that sums are exact."""
    written = 0
    for f in range(flows.shape[0]):
        flow, each, rest = flows[f], demand_bps[f] // count[f], demand_bps[f] % count[f]
        for pair in range(count[f]):
            row = rows[written]
            row.source, row.target, row.addresses = flow.source, flow.target, flow.addresses
            row.number, row.job, row.phase = mixed(flow.number + pair & 0xFFFFFFFF), flow.job, flow.phase
            row.bps = each + 1 if pair < rest else each
            written += 1


@bare_kernel
def _hash_ports(table: Ints, found: Ints) -> None:
    """Write the part of a hash by each port; CRC32 is affine, so its XOR with that by addresses is the hash."""
    zero = crc32_of_tuple(table, 0, 0, 0)
    for port in range(found.shape[0]):
        found[port] = crc32_of_tuple(table, 0, 0, FIRST_PORT + port) ^ zero


@bare_kernel
def _hash_paths(net: Net, of_port: Ints, rows: Rows, seed: int, hops: Ints) -> None:
    """Write the hashed path of each row into its row of `hops`.

    The first try of `_pick` is inlined here for tops with a single downward segment of the same index: a call costs
    more than its work.
    """
    start, first, second, top, middle = net.start, net.first, net.second, net.top, net.middle
    below, below_row, cables = net.below, net.below_row, net.cables
    salt, ports = mixed(seed + 1), of_port.shape[0] - 1
    for f in range(rows.shape[0]):
        for column in range(hops.shape[1]):
            hops[f, column] = -1
        a, b = rows[f].source, rows[f].target
        if a == b:
            continue
        hash_value = rows[f].addresses ^ of_port[mixed(rows[f].number ^ salt) & ports]
        u = start[a] + (hash_value * (start[a + 1] - start[a]) >> 32)
        w, end = start[b] + u - start[a], start[b + 1]
        plain = w < end and u < start[a + 1] and top[w] == top[u]
        plain = plain and (w + 1 == end or top[w + 1] != top[u]) and (w == start[b] or top[w - 1] != top[u])
        if plain and middle[u] >= 0:
            plain = middle[u] != middle[w] and not below[below_row[middle[u]], b]
        if plain and middle[w] >= 0:
            plain = not below[below_row[middle[w]], a]
        if not plain:
            u, w = _pick(net, a, b, hash_value)
            if u < 0:
                continue
        hops[f, 0], hops[f, 1], hops[f, 3] = first[u], second[u], first[w] + cables
        if second[w] >= 0:
            hops[f, 2] = second[w] + cables


class Hashing(NamedTuple):
    """What hashes queue pairs to paths: the live segments, for kernels, and the part of a hash by each port."""

    net: Net
    of_port: Ints

    @staticmethod
    def of(topology: Topology, segments: Segments) -> "Hashing":
        """Return the hashing over these segments; in half the width their columns take half the cache lines."""
        s, of_port = segments, np.empty(1 << PORT_BITS, dtype=np.int64)
        _hash_ports(_CRC_TABLE, of_port)
        first, second, top, middle = (column.astype(np.int32) for column in (s.first, s.second, s.top, s.middle))
        return Hashing(Net(s.start, first, second, top, middle, s.below, s.below_row, topology.cables), of_port)

    def add(self, pairs: "Signed", seed: int, loads: Floats) -> None:
        """Add queue pairs to the loads of all links, or remove them, with the ports of a seed."""
        _hash_paths(self.net, self.of_port, pairs.rows, seed, pairs.hops)
        if pairs.phases is None:
            sums(pairs.hops, pairs.sign * pairs.bps if pairs.sign < 0 else pairs.bps, loads)
            return
        phase_loads(*pairs.phases, pairs.hops, pairs.bps, part := np.zeros(len(loads)))
        loads += pairs.sign * part


class Signed(NamedTuple):
    """Queue pairs that are added, or with the sign -1 removed; `hops` is scratch space, a row each.

    `phases` are their order, jobs and phases, None where no job has two phases. A job counts on a link with its
    heaviest phase, so one with several phases is added or removed as a whole.
    """

    rows: Rows
    sign: int
    bps: Floats
    phases: tuple[Ints, Ints, Ints] | None
    hops: Ints

    @staticmethod
    def of(rows: Rows, sign: int) -> "Signed":
        """Return rows of `HASHED`, whose phases rise in each job, with a sign of 1 or -1."""
        job, phase = (np.ascontiguousarray(rows[name]) for name in ("job", "phase"))
        single = ((job[1:] != job[:-1]) | (phase[1:] == phase[:-1])).all()
        order = np.arange(len(rows), dtype=np.int64)
        hops = np.empty((len(rows), MAX_HOPS), dtype=np.int64)
        return Signed(rows, sign, np.ascontiguousarray(rows["bps"]), None if single else (order, job, phase), hops)


def ecmp_figures(topology: Topology, segments: Segments, flows: Flows, names: Sequence[int]) -> tuple[float, float]:
    """Return the largest utilisation under ECMP and under E-ECMP, each the median over 16 seeds.

    `names` has a number for each job, from which ports are drawn: `name_of` its id.
    """
    hashing, capacity, found = Hashing.of(topology, segments), capacities(topology), []
    for kind, rows in enumerate(queue_pairs(topology, flows, names)):
        pairs, worst = Signed.of(rows, 1), []
        for seed in range(SEEDS):
            hashing.add(pairs, SEEDS * kind + seed, loads := np.zeros(len(capacity)))
            worst.append(float((loads / capacity).max(initial=0.0)))
        found.append(float(np.median(worst)))
    return found[0], found[1]


def name_of(job_id: str) -> int:
    """Return a number for a job, from which the ports of its flows are drawn."""
    return zlib.crc32(job_id.encode())


def capacities(topology: Topology) -> Floats:
    """Return the capacity in bit/s of every link between switches, 1 instead of 0."""
    capacity = np.where(topology.cable_capacity > 0, topology.cable_capacity, 1).astype(np.float64)
    return np.concatenate((capacity, capacity))


def queue_pairs(topology: Topology, flows: Flows, names: Sequence[int]) -> tuple[Rows, Rows]:
    """Return the queue pairs of flows under ECMP, one each, and under E-ECMP, as rows of `HASHED` by job and phase.

    `names` has a number for each job.
    """
    first = np.flatnonzero(np.diff(flows.logical, prepend=-1))  # `logical` never falls
    one = flows.rows(first[np.lexsort((flows.phase[first], flows.job[first]))])
    used, leaf = np.bincount(flows.logical)[one.logical], topology.nic_leaf
    demand = np.bincount(flows.logical, flows.demand_bps)[one.logical].astype(np.int64)
    rows = np.zeros(len(one), dtype=HASHED)
    rows["source"], rows["target"] = leaf[one.src_nic], leaf[one.dst_nic]
    rows["job"], rows["phase"] = one.job, one.phase
    ids = (np.array(names, dtype=np.int64)[one.job], one.collective, one.src_rank, one.dst_rank, one.queue_pair)
    _name_tuples(_CRC_TABLE, topology.nic_ip[one.src_nic], topology.nic_ip[one.dst_nic], np.column_stack(ids), rows)
    found = []
    for count in (np.ones(len(one), dtype=np.int64), np.maximum(used, LEAST_QUEUE_PAIRS)):
        spread = np.empty(int(count.sum()), dtype=HASHED)
        _spread(rows, demand, count, spread)
        found.append(spread)
    return found[0], found[1]
