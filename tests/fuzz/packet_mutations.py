"""Compiled random mutations of packets: bit flips, cuts, lengths, bytes repeated, dropped and spliced.

A mutation that breaks a header's checksum tests nothing behind that header. Most packets therefore get their lengths
and header checksums corrected afterwards: the outer ones, the inner ones, and those of a packet that an ICMP error
quotes.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heddle.dataplane.engine.burst import BURST
from heddle.dataplane.engine.rings import MIN_FRAME_BYTES, _write_inject
from heddle.dataplane.io.frames.in_memory import collect, offer
from heddle.dataplane.jit import CHECKED
from heddle.dataplane.packet.memory import copy, load8, load16, store8, store16
from heddle.kernels.cache import keep_on_disk
from tests.fakes.gateway.compiled_packets import STAMP, below, called, inlined, step, sum_up

MAX_BYTES = 9000
WORDS = np.array(
    [0, 1, 2, 4, 5, 6, 7, 8, 15, 17, 0x20, 0x3F, 0x40, 44, 0x45, 0x46, 0x4F, 51, 58, 0x60, 0x7F, 0x80, 0xFE, 0xFF]
)
"""Bytes at an edge of what some header knows."""
FIELDS = np.array([0, 1, 2, 4, 6, 7, 8, 9, 12, 16, 20, 22, 24, 25, 26, 32, 33, 40, 41, 42, 44, 48])
"""Bytes of an IP header and of what follows it, that say how the rest is to be read."""


class Seeds(NamedTuple):
    """The packets to mutate."""

    data: np.ndarray
    start: np.ndarray
    length: np.ndarray
    port: np.ndarray


def seeds_of(seeds):
    """Return (port, frame) pairs as arrays."""
    lengths = np.array([len(frame) for _, frame in seeds], dtype=np.int64)
    return Seeds(
        data=np.frombuffer(b"".join(frame for _, frame in seeds), dtype=np.uint8).copy(),
        start=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64),
        length=lengths,
        port=np.array([port for port, _ in seeds], dtype=np.int64),
    )


@inlined
def _network_at(frame, length, port):
    """Return the offset of the inner IP header."""
    if port == 0:
        return 64
    return 18 if length > 14 and load16(frame, 12) == 0x8100 else 14


@step
def _change(frame, length, base, seeds, other, chance):
    """Change a packet in one place; return its new length."""
    kind = below(chance, 11)
    if length < 2:
        kind = 7
    at = below(chance, length) if below(chance, 2) else min(base + below(chance, 60), length - 1)
    if below(chance, 8) == 0:
        at = min(below(chance, 64), length - 1)
    count = 1 + below(chance, 16)
    if kind == 0:
        store8(frame, at, load8(frame, at) ^ 1 << below(chance, 8))
    elif kind == 1:
        store8(frame, at, WORDS[below(chance, WORDS.size)])
    elif kind == 2:
        length = max(at, 1)
    elif kind == 3:
        count = min(count, length - at)
        copy(frame, at, frame, at + count, length - at - count)
        length = max(length - count, 1)
    elif kind == 4:
        count = min(count * 4, length - at)
        copy(frame, at + count, frame, at, length - at)
        length += count
    elif kind == 5:
        copy(frame, at + count, frame, at, length - at)
        for each in range(count):
            store8(frame, at + each, WORDS[below(chance, WORDS.size)])
        length += count
    elif kind == 6:
        begin = min(at, seeds.length[other] - 1)
        count = seeds.length[other] - begin
        copy(frame, at, seeds.data, seeds.start[other] + begin, count)
        length = at + count
    elif kind == 7:
        for each in range(count):
            store8(frame, length + each, below(chance, 256))
        length += count
    elif kind == 8:
        begin = min(at, seeds.length[other] - 1)
        count = min(count, seeds.length[other] - begin, length - at)
        copy(frame, at, seeds.data, seeds.start[other] + begin, count)
    elif kind == 9 and at + 2 <= length:
        value = load16(frame, at)
        edge = below(chance, 5)
        store16(frame, at, (value + 1, value - 1, 0, 0xFFFF, below(chance, 65536))[edge] & 0xFFFF)
    elif base + 50 < length:
        at = base + FIELDS[below(chance, FIELDS.size)]
        value = WORDS[below(chance, WORDS.size)] if below(chance, 2) else load8(frame, at) ^ 1 << below(chance, 8)
        store8(frame, at, value)
    return min(length, MAX_BYTES - 512)


@step
def _repair(frame, length, port, base, chance):
    """Correct most lengths and header checksums."""
    if port == 0 and length >= 50:
        if below(chance, 8):
            store16(frame, 16, length - 14)
        if below(chance, 8):
            store16(frame, 38, length - 34)
        if below(chance, 16):
            sum_up(frame, 14, length)
    if base + 40 > length:
        return
    version = load8(frame, base) >> 4
    if version == 6:
        if below(chance, 2):
            store16(frame, base + 4, length - base - 40)
        return
    if below(chance, 2):
        store16(frame, base + 2, length - base)
    quoted = base + (load8(frame, base) & 15) * 4 + 8
    if load8(frame, base + 9) == 1 and quoted + 20 <= length and below(chance, 2):
        sum_up(frame, quoted, length)
    if below(chance, 16):
        sum_up(frame, base, length)


@step
def _mutated(seeds, seed, frame, calm, chance):
    """Write a seed to `frame`, changed except for one in `calm`; return its length."""
    length, port = seeds.length[seed], seeds.port[seed]
    copy(frame, 0, seeds.data, seeds.start[seed], length)
    base = _network_at(frame, length, port)
    if below(chance, calm):
        for _ in range(1 << below(chance, 3)):
            length = _change(frame, length, base, seeds, below(chance, seeds.start.size), chance)
        if below(chance, 8):
            _repair(frame, length, port, base, chance)
    return length


@called
def throw_in(seeds, one, other, frame, count, chance):
    """Let the slow path of two gateways send or enter the same `count` packets, some of them to invalid ports."""
    for _ in range(count):
        length = max(_mutated(seeds, below(chance, seeds.start.size), frame, np.int64(2), chance), MIN_FRAME_BYTES)
        port, entering = below(chance, 6) - 1, below(chance, 2)
        _write_inject(one, frame[:length], port, entering)
        _write_inject(other, frame[:length], port, entering)


@called
def arrive(seeds, one, other, fills, frame, calm, chance):
    """Let the same packets arrive at two sets of ports whose buffers contain different bytes, new ones if `fills`.

    One packet in `calm` stays unchanged, so that there are connections for the others to match. All arrive at one
    port, like a burst. Returns the port.
    """
    for at in range(0, one.memory.size if fills else 0, 8):
        rubbish = below(chance, 1 << 53) * 0x9E3779B1
        for byte in range(8):
            value = rubbish >> (8 * byte) & 0xFF
            one.memory[at + byte] = value
            other.memory[at + byte] = ~value & 0xFF
    first = below(chance, seeds.start.size)
    port = seeds.port[first]
    for _ in range(BURST):
        seed = below(chance, seeds.start.size)
        while seeds.port[seed] != port:
            seed = below(chance, seeds.start.size)
        length = _mutated(seeds, seed, frame, calm, chance)
        if not offer(one, port, frame, 0, length):
            break
        offer(other, port, frame, 0, length)
    return port


@called
def differ(one, other, here, there, results):
    """Collect all frames sent by both; count them in `results` by port; return how many differ."""
    different = 0
    for port in range(one.ports.size):
        while True:
            length = collect(one, port, here)
            same = collect(other, port, there) == length
            if length == 0:
                different += not same
                break
            results[port] += 1
            for at in range(length):
                same &= here[at] == there[at]
            different += not same
    return different


_STAMP = STAMP + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
for kernel in (arrive, differ, throw_in):
    keep_on_disk(kernel, stamp=_STAMP, variant="-checked" if CHECKED else "")
