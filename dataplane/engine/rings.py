"""Rings of frames between the data process and the control process, in shared memory.

Each ring has one writer and one reader, and no lock: the writer owns the position up to which it has written, the
reader the position up to which it has read. Each reads the other's position by `acquire` and publishes its own by
`release`. Positions only grow. A record is a whole number of 64-byte lines: a header of int64 words, the first of
which is the record's size in bytes, then the frame. A record never wraps round the end: if too little space is left
there, a SKIP word marks it. A ring must therefore be at least twice as large as its largest record.

A record without room is counted (`FULL`) and refused: neither side waits. The writer can withdraw unread records
(`withdraw`): the reader skips and counts them.
"""

from typing import NamedTuple

import numpy as np

from heddle.dataplane.engine.reasons import Punt
from heddle.dataplane.jit import Bytes, Row, inline, kernel
from heddle.dataplane.packet.memory import acquire64, copy, native64, release64, set_native64

LINE = 64
WRITTEN, READ, FULL = 0, LINE, 2 * LINE
"""Offsets of the words; each position has a cache line of its own."""
VOID, WITHDRAWN = WRITTEN + 8, READ + 8
"""The writer's: records before this position must not be read. The reader's: how many records it skipped for that."""
WORDS_BYTES = 3 * LINE
SKIP = -1
MIN_FRAME_BYTES, MAX_FRAME_BYTES = 14, 9_216 + LINE
"""Frame sizes; the maximum is a jumbo frame with tunnel headers. A longer frame is cut; `length` has its full length.
"""

PUNT_FIELDS = (
    "size_bytes",  # of the record
    "frame_bytes",  # that follow the header
    "length",  # of the whole frame from `start` on
    "reason",
    "in_port",
    "inner",  # offset in the frame of the innermost Ethernet header that was read, behind the tunnel's headers
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
    """Positions (WORDS_BYTES), and the records, whose size in bytes is a power of two."""

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
    """Return the offset at which a record of `size` bytes, whole lines, may be written, or -1 (counted)."""
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
    """Make the complete record at `at` visible to the reader."""
    release64(ring.words, WRITTEN, native64(ring.words, WRITTEN) + native64(ring.data, at))


@inline
def front(ring: Ring) -> int:
    """Return the offset of the oldest record that is neither read nor withdrawn, or -1."""
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
    """Release the space of the record at `at`, the oldest, to the writer."""
    release64(ring.words, READ, native64(ring.words, READ) + native64(ring.data, at))


@inline
def begin_punt(ring: Ring, packet: Row, now_ns: int) -> int:
    """Write the header of a packet's record; return the record's offset, or -1.

    The caller copies `punted_bytes(packet)` bytes from `packet.start` on behind the header, and calls `publish`.
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
    """Return how many bytes of a packet are copied: all from `start` on, limited to MAX_FRAME_BYTES."""
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
    """Withdraw all unread records; for the ring's writer."""
    release64(ring.words, VOID, native64(ring.words, WRITTEN))


class Punted(NamedTuple):
    """A punted packet. `frame` starts at the first byte that arrived, including the tunnel's headers."""

    reason: Punt
    in_port: int
    vni: int
    vpc: int
    outer_source: int
    """IPv4 address of the sending VTEP, 0 for none."""
    inner: int
    """Offset in `frame` of the innermost Ethernet header that was read."""
    l3: int
    """Offset in `frame` of its IP header, or -1."""
    out_port: int
    next_hop: int
    source_hop: int
    family: int
    protocol: int
    length: int
    """Bytes that arrived; `frame` contains MAX_FRAME_BYTES of them at most."""
    time_ns: int
    frame: bytes


class PuntReader:
    """The control process's end of the ring of punted packets."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def read(self, at_most: int = 256) -> list[Punted]:
        """Return the packets that have arrived, oldest first."""
        found: list[Punted] = []
        while len(found) < at_most and (at := _front(self._ring)) >= 0:
            words = self._ring.data[at : at + PUNT_HEADER].view(np.int64).tolist()
            fields = dict(zip(PUNT_FIELDS, words, strict=True))
            frame = self._ring.data[at + PUNT_HEADER : at + PUNT_HEADER + fields.pop("frame_bytes")].tobytes()
            del fields["size_bytes"]
            _consume(self._ring, at)
            found.append(Punted(**{**fields, "reason": Punt(fields["reason"])}, frame=frame))
        return found

    def refused(self) -> int:
        """Return how many packets found the ring full."""
        return int(_word(self._ring, FULL))


class Injector:
    """The control process's end of the ring of frames to send."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def send(self, frame: bytes, port: int) -> bool:
        """Send a frame out of a port as it is; return False if the ring is full, which is counted."""
        return self._write(frame, port, 0)

    def enter(self, frame: bytes, port: int) -> bool:
        """Process a frame through the graph as if it had arrived at a port; return False if the ring is full."""
        return self._write(frame, port, 1)

    def withdraw(self) -> None:
        """Withdraw the frames that have not been sent yet, because they are out of date."""
        withdraw(self._ring)

    def withdrawn(self) -> int:
        """Return how many frames were withdrawn; each is counted when the reader reaches it."""
        return int(_word(self._ring, WITHDRAWN))

    def refused(self) -> int:
        """Return how many frames found the ring full."""
        return int(_word(self._ring, FULL))

    def _write(self, frame: bytes, port: int, entering: int) -> bool:
        if not MIN_FRAME_BYTES <= len(frame) <= MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {len(frame)} bytes; {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES} can be sent")
        # A copy, because the kernel is compiled for writable arrays only.
        return bool(_write_inject(self._ring, np.frombuffer(bytearray(frame), np.uint8), port, entering))
