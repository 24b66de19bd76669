"""Encapsulation with lookup in NumPy: each step on a whole batch of frames."""

import numpy as np

from heddle.benchmarks.gateway.in_memory.cases import Case
from heddle.benchmarks.gateway.wire.ours import VNI
from heddle.dataplane.engine.burst import V4_PREFIX
from heddle.dataplane.packet.vxlan import OUTER_BYTES
from heddle.dataplane.tables.schema import Tables

GOLDEN, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def encapsulate(case: Case, keys: np.ndarray, rows: np.ndarray, first: int, count: int) -> None:
    """Parse, check, look up and encapsulate frames `first` to `first + count`; `keys`, `rows`: see `sorted_keys`."""
    memory, starts = case.frames.memory, case.frames.starts[first : first + count]
    length = int(case.frames.lengths[first])
    frame = memory[starts[:, None] + np.arange(42)]
    words = frame[:, 14:34].copy().view(">u2").astype(np.uint32)
    total = words.sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    sound = (frame[:, 12] == 8) & (frame[:, 13] == 0) & (frame[:, 14] == 0x45) & (total == 0xFFFF)
    sound &= words[:, 1] == length - 14
    target = frame[:, 30:34].copy().view(">u4")[:, 0].astype(np.int64)
    source = frame[:, 26:30].copy().view(">u4")[:, 0].astype(np.int64)
    at = np.searchsorted(keys, target)
    sound &= keys[np.minimum(at, len(keys) - 1)] == target
    if not sound.all():
        raise ValueError("a frame is invalid")
    ports = frame[:, 34:38].copy().view(">u4")[:, 0].astype(np.int64)
    hop = case.tables.next_hops[rows[at]]
    outer = case.tables.templates[hop["template"][:, None] + np.arange(OUTER_BYTES)]
    whole = length + OUTER_BYTES - 14
    service = frame[:, 15]
    outer[:, 15] = service
    checksum = (~outer[:, 24:26].copy().view(">u2")[:, 0].astype(np.int64) & 0xFFFF) + whole + service
    checksum = (checksum & 0xFFFF) + (checksum >> 16)
    for column, value in ((16, whole), (24, ~checksum & 0xFFFF), (34, _port(source, target, ports)), (38, whole - 20)):
        outer[:, column], outer[:, column + 1] = value >> 8 & 0xFF, value & 0xFF
    for column in range(6):
        frame[:, column] = hop["target_mac"] >> 40 - 8 * column & 0xFF
        frame[:, column + 6] = hop["source_mac"] >> 40 - 8 * column & 0xFF
    memory[starts[:, None] + np.arange(14)] = frame[:, :14]
    memory[starts[:, None] - OUTER_BYTES + np.arange(OUTER_BYTES)] = outer


def _port(source: np.ndarray, target: np.ndarray, ports: np.ndarray) -> np.ndarray:
    """Return the outer source ports: 14 bits of the hash of `engine.hashing.mixed5`."""
    low, high = (V4_PREFIX | source).astype(np.uint64), (V4_PREFIX | target).astype(np.uint64)
    x, y = low * MIX, high * GOLDEN  # the upper words of IPv4 addresses are 0
    x = (x ^ (x >> np.uint64(29))) * GOLDEN
    y = (y ^ (y >> np.uint64(32))) * MIX
    z = x + y + (ports << 32 | 17 << 24 | VNI).astype(np.uint64) * GOLDEN
    z = (z ^ (z >> np.uint64(32))) * MIX
    return 49152 | ((z ^ (z >> np.uint64(29))) >> np.uint64(1)).astype(np.int64) & 0x3FFF


def sorted_keys(tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of all endpoints of the VNI, sorted, and their rows."""
    used = tables.endpoints[(tables.endpoints[:, 3] >= 0) & (tables.endpoints[:, 0] == VNI)]
    order = np.argsort(used[:, 2])
    return used[order, 2] & 0xFFFF_FFFF, used[order, 3]
