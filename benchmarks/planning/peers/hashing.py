"""ECMP and E-ECMP: switches choose paths by a hash of the 5-tuple per queue pair (RFC 2992).

As for the contract's figures, a CRC32 of the 5-tuple selects one of the live shortest paths, source ports are random,
and the result is that of the median of 16 seeds. Under ECMP a flow is one queue pair; E-ECMP spreads it over at
least 4 (the queue pair scaling of Gangidi et al., "RDMA over Ethernet for Distributed AI Training", SIGCOMM 2024).
"""

import numpy as np

from heddle.benchmarks.planning.peers.problem import Answer, Problem, UpPaths
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK
from heddle.controller.planner.ground.jit import Ints, kernel

SEEDS = 16
MIN_QUEUE_PAIRS = 4
FIRST_PORT, LAST_PORT = 49152, 65535
ROCE_PORT, UDP = 4791, 17


@kernel
def _crc32(table: Ints, src_ip: int, dst_ip: int, port: int) -> int:
    """Return the CRC32 (IEEE 802.3) of addresses, protocol and ports; `table` has the remainders of all octets."""
    crc = 0xFFFFFFFF
    for i in range(13):
        if i < 4:
            octet = src_ip >> (24 - 8 * i) & 255
        elif i < 8:
            octet = dst_ip >> (56 - 8 * i) & 255
        elif i == 8:
            octet = UDP
        elif i < 11:
            octet = port >> (80 - 8 * i) & 255
        else:
            octet = ROCE_PORT >> (96 - 8 * i) & 255
        crc = (crc >> 8) ^ table[(crc ^ octet) & 255]
    return crc ^ 0xFFFFFFFF


@kernel
def _path(ups: UpPaths, a: int, b: int, wanted: int) -> tuple[int, int, int]:
    """Return the path with a number, and the number of paths before it; -1 returns the count of all paths."""
    start, second, top, middle, at, count = ups.start, ups.second, ups.top, ups.middle, ups.at, ups.size
    passed, turned = 0, False
    for u in range(start[a], start[a + 1]):
        if turned and second[u] >= 0:
            break
        begin = at[b, top[u]]
        if second[u] < 0:
            if 0 <= wanted - passed < count[b, top[u]]:
                return u, begin + wanted - passed, wanted
            passed += count[b, top[u]]
            turned = passed > 0
            continue
        for w in range(begin, begin + count[b, top[u]]):
            if middle[u] == middle[w]:
                continue
            if passed == wanted:
                return u, w, passed
            passed += 1
    return -1, -1, passed


@kernel
def _counts(ups: UpPaths, source: Ints, target: Ints) -> Ints:
    found = np.zeros(source.shape[0], np.int64)
    for f in range(source.shape[0]):
        if source[f] != target[f]:
            _, _, found[f] = _path(ups, source[f], target[f], -1)
    return found


@kernel
def _hashed(
    ups: UpPaths, table: Ints, source: Ints, target: Ints, counts: Ints, src_ip: Ints, dst_ip: Ints, port: Ints,
    hops: Ints,
) -> None:  # fmt: skip
    """Write the hashed path of each flow into its row of `hops`."""
    first, second, cables = ups.first, ups.second, ups.cables
    for f in range(source.shape[0]):
        hops[f, :] = -1
        if counts[f] == 0:
            continue
        u, w, _ = _path(ups, source[f], target[f], _crc32(table, src_ip[f], dst_ip[f], port[f]) % counts[f])
        hops[f, 0] = first[u]
        if second[u] >= 0:
            hops[f, 1], hops[f, 2], hops[f, 3] = second[u], second[w] + cables, first[w] + cables
        else:
            hops[f, 1] = first[w] + cables


def _crc_table() -> Ints:
    octet = np.arange(256, dtype=np.int64)
    for _ in range(8):
        octet = octet >> 1 ^ np.where(octet & 1, 0xEDB88320, 0)
    return octet


def ecmp(problem: Problem, seed: int) -> Answer:
    """Return the paths of the median seed, a hash per flow."""
    return _median(problem, seed, spread=False)


def e_ecmp(problem: Problem, seed: int) -> Answer:
    """Return the paths of the median seed, every flow over at least four hashed queue pairs."""
    return _median(problem, seed, spread=True)


def _median(problem: Problem, seed: int, *, spread: bool) -> Answer:
    _, first, given = np.unique(problem.flows.logical, return_index=True, return_counts=True)
    pairs = np.maximum(given, MIN_QUEUE_PAIRS) if spread else np.ones(len(first), dtype=np.int64)
    whole = np.bincount(problem.flows.logical, weights=problem.demand)[problem.flows.logical[first]]
    row, demand = np.repeat(first, pairs).astype(np.int64), np.repeat(whole / pairs, pairs)
    topology, flows = problem.topology, problem.flows
    source, target = problem.source[row], problem.target[row]
    counts = _counts(problem.up_paths, source, target)
    src_ip, dst_ip = topology.nic_ip[flows.src_nic[row]], topology.nic_ip[flows.dst_nic[row]]

    def drawn(number: int) -> Answer:
        draw = np.random.Generator(np.random.PCG64([seed, number, int(spread)]))
        ports = draw.integers(FIRST_PORT, LAST_PORT + 1, len(row))
        hops = np.full((len(row), MAX_HOPS), NO_LINK, dtype=np.int64)
        _hashed(problem.up_paths, _crc_table(), source, target, counts, src_ip, dst_ip, ports, hops)
        return Answer(row=row, demand=demand, hops=hops)

    worst = [drawn(number).max_utilisation(problem) for number in range(SEEDS)]
    return drawn(int(np.argsort(worst, kind="stable")[SEEDS // 2]))
