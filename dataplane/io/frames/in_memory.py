"""Ports without an operating system: rings of handles, filled and emptied by tests and benchmarks.

Full and empty rings, jumbo frames in several buffers and an exhausted pool behave as with kernel sockets.
"""

import numpy as np

from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.frames import layout, pool
from heddle.dataplane.io.frames.layout import CHAINED, END, HEADROOM, NEXT, NUMBER, PIECE_AT, PIECE_BYTES, Ports
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline, kernel
from heddle.dataplane.packet import memory as fields

TRANSMIT_FULL = int(Drop.TRANSMIT_FULL)


@element
def receive(ports: Ports, port: int, packets: Rows, at_most: int) -> int:
    """See `ports.receive`."""
    own, count = ports.ports[port], 0
    ring, mask = ports.rings[2 * port], ports.rings.shape[1] - 1
    while count < at_most and own.rx_head < own.rx_tail:
        pool.describe(ports, packets[count], ring[own.rx_head & mask])
        own.rx_head += 1
        count += 1
    return count


@inline
def enqueue(ports: Ports, packet: Row, port: int) -> int:
    """Put a frame with stored pieces on the output ring; return -1, or the drop reason."""
    own, size = ports.ports[port], ports.rings.shape[1]
    if own.tx_tail - own.tx_head == size:
        return TRANSMIT_FULL
    ports.rings[2 * port + 1, own.tx_tail & (size - 1)] = packet.frame
    own.tx_tail += 1
    return -1


@kernel
def offer(ports: Ports, port: int, source: Bytes, at: int, length: int) -> bool:
    """Let a frame arrive at a port; return False, without effect, if its ring or the pool is full."""
    own, size = ports.ports[port], ports.rings.shape[1]
    if own.rx_tail - own.rx_head == size:
        return False
    handle = pool.write_frame(ports, source, at, length)
    if handle == END:
        return False
    ports.rings[2 * port, own.rx_tail & (size - 1)] = handle
    own.rx_tail += 1
    return True


@kernel
def collect(ports: Ports, port: int, target: Bytes) -> int:
    """Take the oldest frame that left by a port and copy it to `target`; return its length, 0 for none.

    A longer frame than `target` is cut there; the length is that of the whole frame.
    """
    own, mask = ports.ports[port], ports.rings.shape[1] - 1
    if own.tx_head == own.tx_tail:
        return 0
    handle = ports.rings[2 * port + 1, own.tx_head & mask]
    own.tx_head += 1
    number, done = handle & NUMBER, 0
    while number != END:
        count = ports.pieces[number, PIECE_BYTES]
        copied = min(count, max(target.size - done, 0))
        fields.copy(target, done, ports.memory, ports.pieces[number, PIECE_AT], copied)
        done += count
        number = ports.pieces[number, NEXT] if handle & CHAINED else END
    pool.free_chain(ports, handle)
    return done


class MemoryPorts:
    """Ports of a test: `put` lets frames arrive, `take` returns the frames that left."""

    def __init__(self, count: int, *, buffers: int = 1024, chunk_bytes: int = 2048, ring: int = 256) -> None:
        """Make `count` ports with rings of `ring` frames; raises ValueError unless sizes are powers of two."""
        if ring & (ring - 1) or chunk_bytes & (chunk_bytes - 1) or chunk_bytes <= HEADROOM + BURST:
            raise ValueError(
                f"ring ({ring}) and chunk_bytes ({chunk_bytes}) have to be powers of two, and large enough"
            )
        words = np.zeros(layout.POOL_WORDS, np.int64)
        words[layout.KIND], words[layout.CHUNK_BYTES] = layout.MEMORY, chunk_bytes
        words[layout.CHUNK_SHIFT], words[layout.FRAMES] = chunk_bytes.bit_length() - 1, buffers
        words[layout.FREE] = buffers
        self.ports = Ports(
            memory=np.zeros(buffers * chunk_bytes, np.uint8),
            pool=words,
            free=np.arange(buffers, dtype=np.int64)[::-1].copy(),
            pieces=np.full((buffers, 3), END, np.int64),
            ports=np.zeros(count, layout.PORT),
            queues=np.zeros(1, layout.QUEUE),
            taps=np.zeros(1, layout.TAP_ROW),
            rings=np.full((2 * count, ring), END, np.int64),
            spare=np.zeros(layout.SPARE_ROWS, PACKET),
        )
        self.ports.ports["max_bytes"] = 1 << 16
        self._frame = np.zeros(1 << 16, np.uint8)

    def put(self, port: int, frame: bytes) -> bool:
        """Let a frame arrive; return False without room for it."""
        content = np.frombuffer(bytearray(frame), np.uint8)
        return bool(offer(self.ports, port, content, 0, len(frame)))

    def take(self, port: int) -> list[bytes]:
        """Return the frames that left by a port since the last call, oldest first."""
        frames = []
        while length := int(collect(self.ports, port, self._frame)):
            frames.append(self._frame[:length].tobytes())
        return frames
