"""Rings of frames between the data process and the control process, in memory that both have mapped.

One writer and one reader each, no lock: the writer owns the position up to which it has written, the reader the one
up to which it has read; each reads the other's by `acquire` and moves its own by `release`. Positions only grow.
A record is a number of lines of 64 bytes: a header of int64 words, the first of them its size in bytes, then the
frame. It never goes round the end: where too little is left there, a SKIP stands in its place. So a ring is made at
least twice as large as its largest record.

What finds no room is counted (`FULL`) and refused: nobody waits. The writer can take back what was not read yet
(`withdraw`): the reader passes it over and counts it.
"""

from typing import NamedTuple

import numpy as np

from dataplane.engine.reasons import Punt
from dataplane.jit import Bytes, Row, inline, kernel
from dataplane.packet.memory import acquire64, copy, native64, release64, set_native64

LINE = 64
WRITTEN, READ, FULL = 0, LINE, 2 * LINE
"""Bytes of the words: each position has a cache line of its own."""
VOID, WITHDRAWN = WRITTEN + 8, READ + 8
"""Of the writer: records before this position are not to be read. Of the reader: how many it passed over for that."""
WORDS_BYTES = 3 * LINE
SKIP = -1
MIN_FRAME_BYTES, MAX_FRAME_BYTES = 14, 9_216 + LINE
"""Jumbo frames, and a tunnel's headers. Of a frame no more than this is copied; `length` tells how long it was."""

PUNT_FIELDS = (
    "size_bytes",  # of the record
    "frame_bytes",  # that follow the header
    "length",  # of the whole frame from `start` on
    "reason",
    "in_port",
    "inner",  # first byte, in the frame, of what an element last looked at: behind the tunnel's headers
    "l3",  # first byte of the IP header there, or -1
    "vni",
    "vpc",
    "outer_source",
    "out_port",
    "next_hop",
    "source_hop",
    "family",
    "protocol",
    "time_ns",
)
INJECT_FIELDS = ("size_bytes", "frame_bytes", "port", "entering", "unused4", "unused5", "unused6", "unused7")
PUNT_HEADER, INJECT_HEADER = 8 * len(PUNT_FIELDS), 8 * len(INJECT_FIELDS)


class Ring(NamedTuple):
    """The positions, WORDS_BYTES, and a power of two of bytes for records."""

    words: Bytes
    data: Bytes


def empty_ring(capacity_bytes: int) -> Ring:
    """Return a ring in the process's own memory."""
    if capacity_bytes < 2 * LINE or capacity_bytes & (capacity_bytes - 1):
        raise ValueError(f"a ring holds a power of two of bytes, 128 at least, not {capacity_bytes}")
    return Ring(np.zeros(WORDS_BYTES, np.uint8), np.zeros(capacity_bytes, np.uint8))


@inline
def lines(size: int) -> int:
    """Return a size in bytes, rounded up to whole lines."""
    return (size + LINE - 1) & -LINE


@inline
def room(ring: Ring, size: int) -> int:
    """Return where in the data a record of `size` bytes, whole lines, may be written, or -1 (counted)."""
    capacity = ring.data.size
    written = native64(ring.words, WRITTEN)
    at = written & (capacity - 1)
    skipped = capacity - at if size > capacity - at else 0
    if written + skipped + size - acquire64(ring.words, READ) > capacity:
        release64(ring.words, FULL, native64(ring.words, FULL) + 1)
        return -1
    if skipped:
        set_native64(ring.data, at, SKIP)
        release64(ring.words, WRITTEN, written + skipped)
        at = 0
    return at


@inline
def publish(ring: Ring, at: int) -> None:
    """Show the reader the record at `at`, which is whole now."""
    release64(ring.words, WRITTEN, native64(ring.words, WRITTEN) + native64(ring.data, at))


@inline
def front(ring: Ring) -> int:
    """Return where the oldest record begins that was not read and not withdrawn, or -1."""
    capacity = ring.data.size
    read = native64(ring.words, READ)
    written = acquire64(ring.words, WRITTEN)
    while read != written:
        at = read & (capacity - 1)
        size = native64(ring.data, at)
        if size == SKIP:
            size = capacity - at
        elif read >= acquire64(ring.words, VOID):
            return at
        else:
            release64(ring.words, WITHDRAWN, native64(ring.words, WITHDRAWN) + 1)
        read += size
        release64(ring.words, READ, read)
    return -1


@inline
def consume(ring: Ring, at: int) -> None:
    """Give the room of the record at `at`, the oldest, back to the writer."""
    release64(ring.words, READ, native64(ring.words, READ) + native64(ring.data, at))


@inline
def begin_punt(ring: Ring, packet: Row, now_ns: int) -> int:
    """Make a record of a packet, as it arrived and with what is known of it; return where it begins, or -1.

    The caller copies `punted_bytes(packet)` from `packet.start` on behind the header, and calls `publish`.
    """
    start, count = packet.start, punted_bytes(packet)
    size = lines(PUNT_HEADER + count)
    at = room(ring, size)
    if at < 0:
        return -1
    data = ring.data
    set_native64(data, at, size)
    set_native64(data, at + 8, count)
    set_native64(data, at + 16, packet.length + packet.at - start)
    set_native64(data, at + 24, packet.reason)
    set_native64(data, at + 32, packet.in_port)
    set_native64(data, at + 40, packet.at - start)
    set_native64(data, at + 48, packet.l3 - start if packet.l3 >= start else -1)
    set_native64(data, at + 56, packet.vni)
    set_native64(data, at + 64, packet.vpc)
    set_native64(data, at + 72, packet.outer_source)
    set_native64(data, at + 80, packet.out_port)
    set_native64(data, at + 88, packet.next_hop)
    set_native64(data, at + 96, packet.source_hop)
    set_native64(data, at + 104, packet.family)
    set_native64(data, at + 112, packet.protocol)
    set_native64(data, at + 120, now_ns)
    return at


@inline
def punted_bytes(packet: Row) -> int:
    """Return how much of a packet is published: all from `start` on, but no more than MAX_FRAME_BYTES."""
    return min(packet.length + packet.at - packet.start, MAX_FRAME_BYTES)


@kernel
def _front(ring: Ring) -> int:
    return front(ring)


@kernel
def _consume(ring: Ring, at: int) -> None:
    consume(ring, at)


@kernel
def _write_inject(ring: Ring, frame: Bytes, port: int, entering: int) -> bool:
    size = lines(INJECT_HEADER + frame.size)
    at = room(ring, size)
    if at < 0:
        return False
    set_native64(ring.data, at, size)
    set_native64(ring.data, at + 8, frame.size)
    set_native64(ring.data, at + 16, port)
    set_native64(ring.data, at + 24, entering)
    copy(ring.data, at + INJECT_HEADER, frame, 0, frame.size)
    publish(ring, at)
    return True


@kernel
def _word(ring: Ring, at: int) -> int:
    return acquire64(ring.words, at)


@kernel
def withdraw(ring: Ring) -> None:
    """Have nobody read what is in a ring now; for its writer."""
    release64(ring.words, VOID, native64(ring.words, WRITTEN))


class Punted(NamedTuple):
    """What the slow path is handed. `frame` is from the first byte that arrived, the tunnel's headers included."""

    reason: Punt
    in_port: int
    vni: int
    vpc: int
    outer_source: int
    """IPv4 address of the VTEP that it came from, 0 for none."""
    inner: int
    """Where in `frame` the Ethernet header begins that was looked at last."""
    l3: int
    """Where in `frame` its IP header begins, or -1."""
    out_port: int
    next_hop: int
    source_hop: int
    family: int
    protocol: int
    length: int
    """Bytes that arrived; `frame` holds MAX_FRAME_BYTES of them at most."""
    time_ns: int
    frame: bytes


class PuntReader:
    """The control process's end of the ring of punted packets."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def read(self, at_most: int = 256) -> list[Punted]:
        """Return what has come, the oldest first."""
        found: list[Punted] = []
        while len(found) < at_most and (at := _front(self._ring)) >= 0:
            words = self._ring.data[at : at + PUNT_HEADER].view(np.int64).tolist()
            published = dict(zip(PUNT_FIELDS, words, strict=True))
            frame = self._ring.data[at + PUNT_HEADER : at + PUNT_HEADER + published.pop("frame_bytes")].tobytes()
            del published["size_bytes"]
            _consume(self._ring, at)
            found.append(Punted(**{**published, "reason": Punt(published["reason"])}, frame=frame))
        return found

    def refused(self) -> int:
        """Return how many packets found the ring full."""
        return int(_word(self._ring, FULL))


class Injector:
    """The control process's end of the ring of frames that it wants to be sent."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def send(self, frame: bytes, port: int) -> bool:
        """Send a frame out of a port as it is; False where the ring is full, which is counted."""
        return self._write(frame, port, 0)

    def enter(self, frame: bytes, port: int) -> bool:
        """Let a frame go through the graph as if it had arrived at a port; False where the ring is full."""
        return self._write(frame, port, 1)

    def withdraw(self) -> None:
        """Take back what has not been sent yet: it is true no longer."""
        withdraw(self._ring)

    def withdrawn(self) -> int:
        """Return how many frames were taken back; each is counted when it would have been sent."""
        return int(_word(self._ring, WITHDRAWN))

    def refused(self) -> int:
        """Return how many frames found the ring full."""
        return int(_word(self._ring, FULL))

    def _write(self, frame: bytes, port: int, entering: int) -> bool:
        if not MIN_FRAME_BYTES <= len(frame) <= MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {len(frame)} bytes; {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES} can be sent")
        # An array of its own: kernels take only those that may be written to.
        return bool(_write_inject(self._ring, np.frombuffer(bytearray(frame), np.uint8), port, entering))
