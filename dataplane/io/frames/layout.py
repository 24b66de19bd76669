"""The arrays of a data process's ports: one memory, the pool of buffers in it, and a row for each port.

A buffer is a chunk of the pool, identified by its number. Its bytes, by offset in the memory:

    pool[POOL_AT] + number * pool[CHUNK_BYTES]
    | head room, at least HEADROOM bytes | frame, or a piece of it | unused |
    ^ packet.floor                       ^ packet.at

A frame that does not fit into a chunk lies in several: `pieces[number]` names the next one. The handle of a frame
(`packet.frame`) is the number of its first buffer, with CHAINED if others follow. Each buffer is always in exactly one
place: the stack `free`, a ring, or a burst. AF_PACKET rings have no pool for received frames: their handle is the
offset of the ring's slot.
"""

from typing import NamedTuple

import numpy as np

from heddle.dataplane.jit import Bytes, Grid, Ints, Rows

MEMORY, XSK, TAP = range(3)
"""Kinds of port; all ports of a process are of one kind."""

KIND, POOL_AT, CHUNK_BYTES, CHUNK_SHIFT, FRAMES, FREE, POLL_AT, POLL_FDS, POOL_WORDS = range(9)
"""Words of `pool`. FREE: number of entries on the stack. POLL_AT: offset of the `struct pollfd` rows."""

NEXT, PIECE_AT, PIECE_BYTES = range(3)
"""Columns of `pieces`: the next buffer, or END; the offset of its bytes in the memory; how many bytes."""
END = -1
CHAINED = 1 << 40
IN_RING = 1 << 41
"""Bit of a handle: it is a slot of an AF_PACKET ring, by the offset of its first byte."""
NUMBER = CHAINED - 1
"""Bits of a handle with the buffer's number."""

HEADROOM = 256
"""Bytes in front of a received frame for an outer header. AF_XDP uses the same (XDP_PACKET_HEADROOM)."""
SPARE_ROWS = 512
"""Frames that a burst may send in addition to those received: the later fragments of 64 packets, at nine each."""
MIN_FRAME_BYTES = 14
"""An Ethernet header; a shorter frame is not sent."""


def _row(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


PORT = _row(
    "first_queue",  # rows of `queues` that belong to this port; it transmits by the first
    "queues",
    "next_queue",  # the queue to receive from next
    "pending",  # frames of this burst that are queued, but not sent yet
    "max_bytes",  # of a frame that may leave
    "rx_head",  # memory port: free-running positions in its two rings
    "rx_tail",
    "tx_head",
    "tx_tail",
)
QUEUE = _row(
    "port",
    "fd",
    "rx_producer",  # offsets of words and of descriptors in the memory, and sizes less one
    "rx_consumer",
    "rx_at",
    "rx_mask",
    "tx_producer",
    "tx_consumer",
    "tx_at",
    "tx_mask",
    "tx_flags",
    "fill_producer",
    "fill_consumer",
    "fill_at",
    "fill_mask",
    "fill_flags",
    "done_producer",  # the completion ring
    "done_consumer",
    "done_at",
    "done_mask",
    "tx_written",  # descriptors written; published to the kernel at the end of a burst
    "posted",  # buffers that the kernel holds for receiving, or has filled
    "max_posted",
    "sent",  # buffers that the kernel holds for sending
)
"""One AF_XDP socket: one queue of an interface."""
TAP_ROW = _row(
    "rx_fd",
    "tx_fd",
    "ring_at",
    "slot_bytes",
    "slots",
    "slot",  # the next one to be received
    "messages_at",  # `struct mmsghdr` rows, each with an iovec at `vectors_at`
    "vectors_at",
)
"""One AF_PACKET port."""


class Ports(NamedTuple):
    """All ports of a data process, as kernels use them; arrays that a kind does not need have one row."""

    memory: Bytes
    """The memory that offsets in packets' rows refer to; elements get it as `Work.memory`."""
    pool: Ints
    free: Ints
    """Stack of the numbers of free buffers."""
    pieces: Grid
    """Shape (buffers, 3)."""
    ports: Rows
    """PORT rows."""
    queues: Rows
    """QUEUE rows."""
    taps: Rows
    """TAP_ROW rows, by port."""
    rings: Grid
    """Memory ports: handles, shape (2 * ports, a power of two): the input and the output ring of each port."""
    spare: Rows
    """SPARE_ROWS rows of PACKET, for frames outside of a burst: of the slow path, later fragments."""
