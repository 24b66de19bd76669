"""Building blocks of compiled packet generators: a random generator, and headers written field by field."""

import hashlib
from pathlib import Path

import numba
import numpy as np

from heddle import dataplane
from heddle.dataplane.jit import CHECKED
from heddle.dataplane.packet.memory import load8, load16, store8, store16, store32, store64
from heddle.kernels.cache import digest
from heddle.kernels.compilers import EntryCompiler, PartCompiler

STAMP = digest(Path(dataplane.__file__).parent) + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
"""What kernels on disk that use this file are valid for; they add their own file."""
OPTIONS = {"nogil": True, "_nrt": False, "error_model": "numpy", "boundscheck": CHECKED, "no_cfunc_wrapper": True}
called = numba.njit(pipeline_class=EntryCompiler, **OPTIONS)
"""Compile what Python calls; its file keeps it on disk, with all that it calls."""
_PART_OPTIONS = {**OPTIONS, "pipeline_class": PartCompiler, "no_cpython_wrapper": True}
step, inlined = numba.njit(**_PART_OPTIONS), numba.njit(forceinline=True, **_PART_OPTIONS)
"""Compile what compiled functions alone call."""

_12, _25, _27, _11 = np.uint64(12), np.uint64(25), np.uint64(27), np.uint64(11)
_FACTOR = np.uint64(2685821657736338717)


@step
def below(chance, limit):
    """Return a random number from 0 to `limit` - 1 by xorshift64* (Vigna 2016); `chance` is one uint64, never 0."""
    word = chance[0]
    word ^= word >> _12
    word ^= word << _25
    word ^= word >> _27
    chance[0] = word
    return np.int64(word * _FACTOR >> _11) % limit


def started(seed):
    """Return the state of the random generator for a seed."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 1) & ((1 << 64) - 1) or 1], dtype=np.uint64)


@step
def sum_up(frame, at, end):
    """Write the checksum of an IPv4 header, if there is one that ends before `end`."""
    count = (load8(frame, at) & 15) * 4
    if load8(frame, at) >> 4 != 4 or count < 20 or at + count > end:
        return
    store16(frame, at + 10, 0)
    total = 0
    for word in range(0, count, 2):
        total += load16(frame, at + word)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    store16(frame, at + 10, ~total & 0xFFFF)


@step
def write_ethernet(frame, at, target, source, kind):
    """Write an Ethernet header, 14 bytes."""
    store64(frame, at, target << 16 | source >> 32)
    store32(frame, at + 8, source & 0xFFFFFFFF)
    store16(frame, at + 12, kind)


@step
def write_ipv4(frame, at, total, source, target, protocol, word, identification):
    """Write an IPv4 header, 20 bytes; `word` is flags and offset."""
    store16(frame, at, 0x4500)
    store16(frame, at + 2, total)
    store16(frame, at + 4, identification)
    store16(frame, at + 6, word)
    store8(frame, at + 8, 64)
    store8(frame, at + 9, protocol)
    store32(frame, at + 12, source)
    store32(frame, at + 16, target)
    sum_up(frame, at, at + 20)


@step
def write_ipv6(frame, at, payload, prefix, source, target, following):
    """Write an IPv6 header, 40 bytes; source and target are the last words behind one prefix."""
    store32(frame, at, 0x60000000)
    store16(frame, at + 4, payload)
    store8(frame, at + 6, following)
    store8(frame, at + 7, 64)
    store64(frame, at + 8, prefix)
    store64(frame, at + 16, source)
    store64(frame, at + 24, prefix)
    store64(frame, at + 32, target)


@step
def write_tunnel(frame, host_mac, own_mac, host, own, vni, inner_bytes):
    """Write the 50 bytes of outer headers of an inner frame."""
    write_ethernet(frame, 0, own_mac, host_mac, 0x0800)
    write_ipv4(frame, 14, inner_bytes + 36, host, own, 17, 0x4000, 0)
    store16(frame, 34, 50000)
    store16(frame, 36, 4789)
    store16(frame, 38, inner_bytes + 16)
    store16(frame, 40, 0)
    store32(frame, 42, 0x08000000)
    store32(frame, 46, vni << 8)
