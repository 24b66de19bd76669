"""What kernels know of the ports of a data process: one memory, the pool of buffers in it, and a row for each port.

A buffer is a chunk of the pool, known by its number. Its bytes are, by offset in the memory:

    pool[POOL_AT] + number * pool[CHUNK_BYTES]
    | head room, at least HEADROOM bytes | frame, or a piece of it | unused |
    ^ packet.floor                       ^ packet.at

A frame that is longer than a chunk has room for lies in several: `pieces[number]` says where the next one is. The
handle of a frame (`packet.frame`) is the number of its first buffer, with CHAINED where others follow. Each buffer is
at all times in exactly one place: the stack `free`, a ring, or a burst. AF_PACKET rings have no pool: there a handle
is the offset of the ring's slot.
"""

from typing import NamedTuple

import numpy as np

from dataplane.jit import Bytes, Grid, Ints, Rows

MEMORY, XSK, TAP = range(3)
"""Kinds of port; all ports of a process are of one kind."""

KIND, POOL_AT, CHUNK_BYTES, CHUNK_SHIFT, FRAMES, FREE, POLL_AT, POLL_FDS, POOL_WORDS = range(9)
"""Words of `pool`. FREE: how many entries of the stack are in use. POLL_AT: where the `struct pollfd` rows are."""

NEXT, PIECE_AT, PIECE_BYTES = range(3)
"""Columns of `pieces`: the buffer that goes on, or END; where its bytes begin in the memory; how many they are."""
END = -1
CHAINED = 1 << 40
IN_RING = 1 << 41
"""A handle's bit: it is the slot of an AF_PACKET ring, by the offset of its first byte."""
NUMBER = CHAINED - 1
"""A handle's bits that are the buffer's number."""

HEADROOM = 256
"""In front of a received frame: room for an outer header. AF_XDP's own (XDP_PACKET_HEADROOM)."""
MIN_FRAME_BYTES = 14
"""An Ethernet header; what is shorter is not handed to a kernel."""


def _row(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


PORT = _row(
    "first_queue",  # rows of `queues` that belong to this port; it transmits by the first
    "queues",
    "next_queue",  # whose turn it is to be received from
    "pending",  # handed over in this burst, not yet sent
    "max_bytes",  # of a frame that may leave
    "rx_head",  # memory port: positions in its two rings, counted without end
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
    "tx_written",  # descriptors written; the kernel is told of them at the end of a burst
    "posted",  # buffers that the kernel has for receiving, or has filled
    "max_posted",
    "sent",  # buffers that the kernel has for sending
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
    """All ports of a data process, as kernels take them; arrays that a kind does not need have one row."""

    memory: Bytes
    """What the offsets in packets' rows are offsets of: hand it to elements as their `memory`."""
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
    """Memory ports: handles, shape (2 * ports, a power of two): the ring in and the ring out of each."""
    spare: Rows
    """One PACKET row, for a frame that comes in no burst."""
