"""What the same flows would meet under ECMP: the contract's two figures.

A CRC32 of the 5-tuple picks among the live admissible paths, source ports are random; the figure is the median of
the largest utilisation over 16 seeds. E-ECMP is the same with every flow spread over max(q, 4) queue pairs.
"""

import numpy as np

from controller.planner.clos import MOST_HOPS, NO_LINK, Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Flags, Floats, Ints, kernel
from controller.planner.loads import heaviest_phases
from controller.planner.segments import Segments

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

Ways = tuple[Ints, Ints, Ints, Ints, Ints, Flags, Ints, int]
"""start, first, second, top, middle, below, below_row, number of cables."""


@kernel
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


@kernel
def _admissible(ways: Ways, u: int, w: int, a: int, b: int, late: bool) -> bool:
    middle, below, below_row = ways[4], ways[5], ways[6]
    if middle[u] >= 0 and (middle[u] == middle[w] or (not late and below[below_row[middle[u]], b])):
        return False
    return late or middle[w] < 0 or not below[below_row[middle[w]], a]


@kernel
def _nth_path(ways: Ways, a: int, b: int, wanted: int) -> tuple[int, int, int]:
    """Return the wanted path of a pair of leaves, and how many were passed: all of them where `wanted` is -1."""
    start, top = ways[0], ways[3]
    passed = 0
    for late in range(2):
        u, w = start[a], start[b]
        while u < start[a + 1] and w < start[b + 1]:
            if top[w] < top[u]:
                w += 1
                continue
            other = w
            while other < start[b + 1] and top[other] == top[u]:
                if _admissible(ways, u, other, a, b, late == 1):
                    if passed == wanted:
                        return u, other, passed
                    passed += 1
                other += 1
            u += 1
        if passed > 0:
            break
    return -1, -1, passed


@kernel
def _pick(ways: Ways, a: int, b: int, hash_value: int) -> tuple[int, int]:
    """Pick a path by a hash: any up-segment and a partner, a few tries before all paths are counted."""
    start, top = ways[0], ways[3]
    ups, downs = start[a + 1] - start[a], start[b + 1] - start[b]
    if ups == 0 or downs == 0:
        return -1, -1
    chosen = hash_value
    for _ in range(TRIES):
        u = start[a] + chosen % ups
        low = start[b] + np.searchsorted(top[start[b] : start[b + 1]], top[u])
        high = start[b] + np.searchsorted(top[start[b] : start[b + 1]], top[u], side="right")
        if high > low:
            w = low + chosen // ups % (high - low)
            if _admissible(ways, u, w, a, b, False):
                return u, w
        # A refused pick is hashed again: to go on at a neighbour would heap the refused ones up there.
        chosen = (chosen * 1664525 + 1013904223) & 0xFFFFFFFF
        chosen ^= chosen >> 16
    _, _, count = _nth_path(ways, a, b, -1)
    if count == 0:
        return -1, -1
    u, w, _ = _nth_path(ways, a, b, hash_value % count)
    return u, w


@kernel
def _hash_paths(
    ways: Ways, table: Ints, source: Ints, target: Ints, src_ip: Ints, dst_ip: Ints, port: Ints, hops: Ints
) -> None:  # fmt: skip
    """Write the hashed path of each flow into its row of `hops`."""
    first, second, cables = ways[1], ways[2], ways[7]
    for f in range(source.shape[0]):
        hops[f, :] = -1
        if source[f] == target[f]:
            continue
        u, w = _pick(ways, source[f], target[f], crc32_of_tuple(table, src_ip[f], dst_ip[f], port[f]))
        if u < 0:
            continue
        hops[f, 0], hops[f, 1], hops[f, 3] = first[u], second[u], first[w] + cables
        if second[w] >= 0:
            hops[f, 2] = second[w] + cables


def ecmp_figures(topology: Topology, live: Live, segments: Segments, flows: Flows) -> tuple[float, float]:
    """Return the largest utilisation under ECMP and under E-ECMP, each the median over 16 seeds."""
    if not len(flows):
        return 0.0, 0.0
    _, first, queue_pairs = np.unique(flows.logical, return_index=True, return_counts=True)
    one = flows.rows(first)
    demand: Floats = np.bincount(flows.logical, weights=flows.demand_bps)[flows.logical[first]].astype(np.float64)
    return (
        _median(topology, live, segments, one, demand, np.ones(len(one), dtype=np.int64), salt=0),
        _median(topology, live, segments, one, demand, np.maximum(queue_pairs, LEAST_QUEUE_PAIRS), salt=1),
    )


def _median(
    topology: Topology, live: Live, segments: Segments, flows: Flows, demand: Floats, queue_pairs: Ints, *, salt: int
) -> float:
    row = np.repeat(np.arange(len(flows), dtype=np.int64), queue_pairs)
    spread = flows.rows(row)
    share = demand[row] / queue_pairs[row]
    s = segments
    ways = (s.start, s.first, s.second, s.top, s.middle, s.below, s.below_row, topology.cables)
    source, target = topology.nic_leaf[spread.src_nic], topology.nic_leaf[spread.dst_nic]
    src_ip, dst_ip = topology.nic_ip[spread.src_nic], topology.nic_ip[spread.dst_nic]
    capacity = np.where(topology.cable_capacity > 0, topology.cable_capacity, 1)
    hops = np.full((len(spread), MOST_HOPS), NO_LINK, dtype=np.int64)
    worst = []
    for seed in range(SEEDS):
        ports = np.random.Generator(np.random.PCG64([seed, salt])).integers(FIRST_PORT, LAST_PORT + 1, len(spread))
        _hash_paths(ways, _CRC_TABLE, source, target, src_ip, dst_ip, ports, hops)
        loads = heaviest_phases(spread, hops, 2 * topology.cables, share)
        worst.append(float((loads / np.concatenate((capacity, capacity))).max(initial=0.0)))
    return float(np.median(worst))
