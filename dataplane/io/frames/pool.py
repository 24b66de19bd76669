"""The buffer pool: allocate, free and chain buffers, and check frames before they leave."""

from heddle.dataplane.io.frames import layout
from heddle.dataplane.io.frames.layout import (
    CHAINED,
    CHUNK_BYTES,
    END,
    FREE,
    HEADROOM,
    NEXT,
    NUMBER,
    PIECE_AT,
    PIECE_BYTES,
    POOL_AT,
    Ports,
)
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import memory as fields
from heddle.dataplane.packet.intrinsics import prefetch, prefetch_to_write

LINE = 64
"""Bytes of a cache line."""
MAX_AHEAD_BYTES = 1024
"""Prefetch limit in a piece: beyond it, the processor's own prefetcher has detected the pattern."""


@inline
def prefetch_headers(memory: Bytes, at: int) -> None:
    """Prefetch a frame's headers: another core wrote them, and all frames of a burst are read at once."""
    prefetch_to_write(memory, at, 0)
    prefetch_to_write(memory, at, LINE)


@inline
def prefetch_payload(memory: Bytes, at: int, done: int, length: int) -> None:
    """Prefetch a piece beyond its first `done` bytes: the kernel copies all of it when it is sent."""
    for line in range(done, min(length, MAX_AHEAD_BYTES), LINE):
        prefetch(memory, at, line)


@inline
def allocate(ports: Ports) -> int:
    """Return the number of a free buffer, or END."""
    left = ports.pool[FREE]
    if left == 0:
        return END
    ports.pool[FREE] = left - 1
    return ports.free[left - 1]


@inline
def allocate_run(ports: Ports, count: int) -> int:
    """Allocate `count` buffers, of which there are enough; return the index of the first in `free`.

    The entries are in the order in which the buffers were freed: neighbouring buffers stay in use together, which
    keeps address translation predictable.
    """
    ports.pool[FREE] -= count
    return ports.pool[FREE]


@inline
def free_buffer(ports: Ports, number: int) -> None:
    """Free one buffer."""
    ports.free[ports.pool[FREE]] = number
    ports.pool[FREE] += 1


@inline
def start_of(ports: Ports, number: int) -> int:
    """Return the offset of a buffer's first byte."""
    return ports.pool[POOL_AT] + number * ports.pool[CHUNK_BYTES]


@element
def free_chain(ports: Ports, handle: int) -> None:
    """Free the buffers of a whole frame."""
    number = handle & NUMBER
    if handle & CHAINED == 0:
        free_buffer(ports, number)
        return
    while number != END:
        following = ports.pieces[number, NEXT]
        free_buffer(ports, number)
        number = following


@inline
def following(ports: Ports, handle: int) -> int:
    """Return the number of the buffer behind a frame's first one, or END."""
    return ports.pieces[handle & NUMBER, NEXT] if handle & CHAINED else END


@inline
def fits(ports: Ports, number: int, at: int, count: int) -> bool:
    """Return whether a range of bytes lies within a buffer."""
    start = start_of(ports, number)
    return at >= start and count > 0 and at + count <= start + ports.pool[CHUNK_BYTES]


@inline
def close_chain(ports: Ports, packet: Row) -> int:
    """Store the pieces of a frame that leaves; return how many, 0 if they do not match the row.

    Pieces beyond the frame's length are freed.
    """
    number = packet.frame & NUMBER
    first = min(packet.first_length, packet.length)
    if packet.length < layout.MIN_FRAME_BYTES or not fits(ports, number, packet.at, first):
        return 0
    pieces = ports.pieces
    pieces[number, PIECE_AT] = packet.at
    pieces[number, PIECE_BYTES] = first
    if packet.frame & CHAINED == 0:
        pieces[number, NEXT] = END
        return 1 if first == packet.length else 0
    return _close_rest(ports, packet, number, packet.length - first)


@element
def _close_rest(ports: Ports, packet: Row, number: int, left: int) -> int:
    pieces, count = ports.pieces, 1
    following = pieces[number, NEXT]
    while left > 0 and following != END:
        number = following
        pieces[number, PIECE_BYTES] = min(left, pieces[number, PIECE_BYTES])
        if not fits(ports, number, pieces[number, PIECE_AT], pieces[number, PIECE_BYTES]):
            return 0
        left -= pieces[number, PIECE_BYTES]
        count += 1
        following = pieces[number, NEXT]
    if left > 0:
        return 0
    if following != END:
        free_chain(ports, following | CHAINED)
        pieces[number, NEXT] = END
    if count == 1:
        packet.frame = number
    return count


@inline
def describe(ports: Ports, packet: Row, handle: int) -> None:
    """Fill in a packet's row from the stored pieces."""
    number = handle & NUMBER
    packet.at = ports.pieces[number, PIECE_AT]
    packet.first_length = ports.pieces[number, PIECE_BYTES]
    packet.length = length_of(ports, handle)
    packet.floor = start_of(ports, number)
    packet.frame = handle


@element
def length_of(ports: Ports, handle: int) -> int:
    """Return the bytes of a frame in all its buffers."""
    number, length = handle & NUMBER, 0
    while number != END:
        length += ports.pieces[number, PIECE_BYTES]
        number = ports.pieces[number, NEXT] if handle & CHAINED else END
    return length


@element
def write_frame(ports: Ports, source: Bytes, at: int, length: int) -> int:
    """Copy a frame into free buffers; return its handle, or END if there are too few."""
    room = ports.pool[layout.CHUNK_BYTES] - HEADROOM
    if length <= 0 or (length + room - 1) // room > ports.pool[layout.FREE]:
        return END
    first, before, done = END, END, 0
    while done < length:
        number, count = allocate(ports), min(room, length - done)
        to = start_of(ports, number) + HEADROOM
        fields.copy(ports.memory, to, source, at + done, count)
        ports.pieces[number, NEXT] = END
        ports.pieces[number, PIECE_AT] = to
        ports.pieces[number, PIECE_BYTES] = count
        if before == END:
            first = number
        else:
            ports.pieces[before, NEXT] = number
        before = number
        done += count
    return first | CHAINED if length > room else first
