"""Compute the largest utilisation of the same flows under ECMP and E-ECMP: two figures of the contract.

A CRC32 of the 5-tuple picks among the live admissible paths, with random source ports. The figure is the median of the
largest utilisation over 16 seeds. E-ECMP is the same with every flow spread over max(q, 4) queue pairs.
"""

import numpy as np

from controller.planner.clos import MAX_HOPS, NO_LINK, Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Floats, Ints, bare_kernel, kernel
from controller.planner.ordered import first_from
from controller.planner.proof.loads import heaviest_phases, layers_of
from controller.planner.search.segments import Net, Segments, admissible

SEEDS = 16
LEAST_QUEUE_PAIRS = 4
TRIES = 8
FIRST_PORT, LAST_PORT = 49152, 65535
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


@kernel
def _hash_parts(table: Ints, src_ip: Ints, dst_ip: Ints) -> tuple[Ints, Ints]:
    """Return the parts of a 5-tuple's hash by addresses and by port; CRC32 is affine, so their XOR is the hash."""
    zero = crc32_of_tuple(table, 0, 0, 0)
    of_addresses, of_port = np.empty(src_ip.shape[0], np.int64), np.empty(1 << 14, np.int64)
    for f in range(src_ip.shape[0]):
        of_addresses[f] = crc32_of_tuple(table, src_ip[f], dst_ip[f], 0)
    for port in range(1 << 14):
        of_port[port] = crc32_of_tuple(table, 0, 0, 0xC000 + port) ^ zero
    return of_addresses, of_port


@bare_kernel
def _hash_paths(net: Net, of_tuple: tuple[Ints, Ints], ends: tuple[Ints, Ints], port: Ints, hops: Ints) -> None:
    """Write the hashed path of each flow into its row of `hops`.

    The first try of `_pick` is inlined here for tops with a single downward segment of the same index: a call costs
    more than its work.
    """
    start, first, second, top, middle = net.start, net.first, net.second, net.top, net.middle
    below, below_row, cables = net.below, net.below_row, net.cables
    of_addresses, of_port = of_tuple
    source, target = ends
    for f in range(source.shape[0]):
        for column in range(hops.shape[1]):
            hops[f, column] = -1
        a, b = source[f], target[f]
        if a == b:
            continue
        hash_value = of_addresses[f] ^ of_port[port[f] & 0x3FFF]
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


@bare_kernel
def _fullest(hops: Ints, amount: Floats, capacity: Floats, load: Floats) -> float:
    """Return the largest utilisation of flows that are all active at once; `load` is scratch space per link."""
    for link in range(load.shape[0]):
        load[link] = 0.0
    for f in range(hops.shape[0]):
        for column in range(hops.shape[1]):
            if hops[f, column] >= 0:
                load[hops[f, column]] += amount[f]
    worst = 0.0
    for link in range(load.shape[0]):
        worst = max(worst, load[link] / capacity[link])
    return worst


def ecmp_figures(topology: Topology, live: Live, segments: Segments, flows: Flows) -> tuple[float, float]:
    """Return the largest utilisation under ECMP and under E-ECMP, each the median over 16 seeds."""
    if not len(flows):
        return 0.0, 0.0
    first, queue_pairs = _logical(flows.logical)
    one = flows.rows(first)
    demand = np.add.reduceat(flows.demand_bps, first).astype(np.float64)
    return (
        _median(topology, segments, one, demand, np.ones(len(first), dtype=np.int64), salt=0),
        _median(topology, segments, one, demand, np.maximum(queue_pairs, LEAST_QUEUE_PAIRS), salt=1),
    )


def _logical(logical: Ints) -> tuple[Ints, Ints]:
    """Return the first row of every logical flow and its number of rows; `logical` never falls."""
    first = np.flatnonzero(np.concatenate(([True], logical[1:] != logical[:-1])))
    return first, np.diff(np.append(first, len(logical)))


def _median(
    topology: Topology, segments: Segments, flows: Flows, demand: Floats, queue_pairs: Ints, *, salt: int
) -> float:
    """Return the median over the seeds; the logical `flows` are spread over their queue pairs."""
    row = np.repeat(np.arange(len(flows), dtype=np.int64), queue_pairs)
    share = (demand / queue_pairs)[row]
    s = segments
    first, second, top, middle = (column.astype(np.int32) for column in (s.first, s.second, s.top, s.middle))
    # In half the width the tables take half the cache lines.
    net = Net(s.start, first, second, top, middle, s.below, s.below_row, topology.cables)
    ends = (topology.nic_leaf[flows.src_nic][row], topology.nic_leaf[flows.dst_nic][row])
    of_addresses, of_port = _hash_parts(_CRC_TABLE, topology.nic_ip[flows.src_nic], topology.nic_ip[flows.dst_nic])
    of_tuple = (of_addresses[row], of_port)
    capacity = np.where(topology.cable_capacity > 0, topology.cable_capacity, 1).astype(np.float64)
    capacity, load = np.concatenate((capacity, capacity)), np.empty(2 * len(capacity))
    spread = None if layers_of(flows).one_per_job else flows.rows(row)
    hops = np.full((len(row), MAX_HOPS), NO_LINK, dtype=np.int64)
    worst = []
    for seed in range(SEEDS):
        ports = np.random.Generator(np.random.PCG64([seed, salt])).integers(FIRST_PORT, LAST_PORT + 1, len(row))
        _hash_paths(net, of_tuple, ends, ports, hops)
        if spread is None:
            worst.append(_fullest(hops, share, capacity, load))
        else:
            worst.append(float((heaviest_phases(spread, hops, len(capacity), share) / capacity).max(initial=0.0)))
    return float(np.median(worst))
