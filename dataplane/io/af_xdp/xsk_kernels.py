"""AF_XDP rings from compiled code (<linux/if_xdp.h>).

Producer and consumer are free-running 32-bit words, each written by one side after the entries that it covers. A
descriptor of the rx and tx rings has 16 bytes: address 64 | length 32 | options 32; one of the fill and completion
rings is an address.
"""

from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.accounting import count_lost
from heddle.dataplane.io.frames import pool
from heddle.dataplane.io.frames.layout import (
    CHAINED,
    CHUNK_SHIFT,
    END,
    FREE,
    NEXT,
    NUMBER,
    PIECE_AT,
    PIECE_BYTES,
    POOL_AT,
    Ports,
)
from heddle.dataplane.io.frames.pool import LINE, prefetch_headers, prefetch_payload
from heddle.dataplane.io.system_calls import MSG_DONTWAIT, errno, recvfrom, sendto
from heddle.dataplane.jit import Row, Rows, element, inline, kernel
from heddle.dataplane.packet.memory import WORD, acquire32, native32, native64, release32, set_native32, set_native64

NEED_WAKEUP = 1
CONTINUED = 1
TRANSMIT_FULL, TRANSMIT_FAILED = int(Drop.TRANSMIT_FULL), int(Drop.TRANSMIT_FAILED)
EAGAIN, EBUSY, ENOBUFS = 11, 16, 105
KICK_FRAMES = 32
"""Least number of frames that the kernel sends per call."""
MAX_PIECES = 18
"""Descriptors of one frame: the limit of a kernel buffer (MAX_SKB_FRAGS + 1)."""


@element
def receive(ports: Ports, port: int, packets: Rows, at_most: int, counters: Counters) -> int:
    """See `ports.receive`. The queues of an interface are served in turn."""
    own, count = ports.ports[port], 0
    if own.queues == 0:
        reap_and_kick(ports, own.first_queue, port, counters)
        return 0
    for _ in range(own.queues):
        number = own.first_queue + own.next_queue
        own.next_queue = own.next_queue + 1 if own.next_queue + 1 < own.queues else 0
        if ports.queues[number].sent > 0:
            reap_and_kick(ports, number, port, counters)
        count = _receive_queue(ports, ports.queues[number], packets, count, at_most)
        refill(ports, number)
        if count == at_most:
            break
    return count


@element
def _receive_queue(ports: Ports, queue: Row, packets: Rows, count: int, at_most: int) -> int:
    memory, before = ports.memory, native32(ports.memory, queue.rx_consumer)
    ready = (acquire32(memory, queue.rx_producer) - before) & WORD
    taken = 0
    while taken < ready and count < at_most:
        pieces = _whole(ports, queue, before + taken, ready - taken)
        if pieces == 0:
            break
        _describe(ports, queue, before + taken, pieces, packets[count])
        prefetch_headers(memory, packets[count].at)
        prefetch_payload(memory, packets[count].at, 2 * LINE, packets[count].first_length)
        taken += pieces
        count += 1
    if taken:
        release32(memory, queue.rx_consumer, before + taken)
        queue.posted -= taken
    return count


@inline
def _descriptor(queue: Row, position: int) -> int:
    return queue.rx_at + (position & queue.rx_mask) * 16


@inline
def _whole(ports: Ports, queue: Row, position: int, ready: int) -> int:
    """Return the number of descriptors of the frame at a position, or 0 if some have not arrived yet."""
    pieces = 1
    while native32(ports.memory, _descriptor(queue, position + pieces - 1) + 12) & CONTINUED:
        pieces += 1
        if pieces > ready:
            return 0
    return pieces


@inline
def _describe(ports: Ports, queue: Row, position: int, pieces: int, packet: Row) -> None:
    """Fill in a packet's row from its descriptors."""
    memory, at = ports.memory, _descriptor(queue, position)
    address = native64(memory, at)
    number = address >> ports.pool[CHUNK_SHIFT]
    packet.at = ports.pool[POOL_AT] + address
    packet.floor = pool.start_of(ports, number)
    packet.length = packet.first_length = native32(memory, at + 8)
    packet.frame = number
    if pieces > 1:
        packet.frame = number | CHAINED
        for further in range(1, pieces):
            at = _descriptor(queue, position + further)
            address = native64(memory, at)
            follower = address >> ports.pool[CHUNK_SHIFT]
            ports.pieces[number, NEXT] = follower
            ports.pieces[follower, NEXT] = END
            ports.pieces[follower, PIECE_AT] = ports.pool[POOL_AT] + address
            ports.pieces[follower, PIECE_BYTES] = native32(memory, at + 8)
            prefetch_payload(memory, ports.pieces[follower, PIECE_AT], 0, ports.pieces[follower, PIECE_BYTES])
            packet.length += native32(memory, at + 8)
            number = follower


@kernel
def refill(ports: Ports, number: int) -> None:
    """Post free buffers to the kernel for receiving, up to the limit of this queue."""
    queue, memory = ports.queues[number], ports.memory
    count = min(queue.max_posted - queue.posted, ports.pool[FREE])
    if count > 0:
        produced = native32(memory, queue.fill_producer)
        count = min(count, queue.fill_mask + 1 - ((produced - acquire32(memory, queue.fill_consumer)) & WORD))
        first = pool.allocate_run(ports, count)
        for i in range(count):
            address = ports.free[first + i] << ports.pool[CHUNK_SHIFT]
            set_native64(memory, queue.fill_at + ((produced + i) & queue.fill_mask) * 8, address)
        release32(memory, queue.fill_producer, produced + count)
        queue.posted += count
    if acquire32(memory, queue.fill_flags) & NEED_WAKEUP:
        recvfrom(queue.fd, 0, 0, MSG_DONTWAIT, 0, 0)


@inline
def enqueue(ports: Ports, packet: Row, pieces: int) -> int:
    """Write the descriptors of a frame that leaves; return -1, or the drop reason."""
    port, memory = ports.ports[packet.out_port], ports.memory
    queue = ports.queues[port.first_queue]
    waiting = (queue.tx_written - acquire32(memory, queue.tx_consumer)) & WORD
    if pieces > queue.tx_mask + 1 - waiting or queue.sent + pieces > queue.done_mask + 1:
        port.pending += 1  # wake the kernel again: an interface that was down may be up
        return TRANSMIT_FULL
    if pieces > MAX_PIECES:
        return TRANSMIT_FAILED
    number, left = packet.frame & NUMBER, pieces
    while left > 0:
        left -= 1
        at = queue.tx_at + (queue.tx_written & queue.tx_mask) * 16
        set_native64(memory, at, ports.pieces[number, PIECE_AT] - ports.pool[POOL_AT])
        set_native32(memory, at + 8, ports.pieces[number, PIECE_BYTES])
        set_native32(memory, at + 12, CONTINUED if left > 0 else 0)
        queue.tx_written += 1
        number = ports.pieces[number, NEXT]
    queue.sent += pieces
    port.pending += 1
    return -1


@element
def flush(ports: Ports, counters: Counters) -> None:
    """Publish the tx descriptors of this burst to the kernel, and free the buffers of sent frames."""
    for port in range(ports.ports.size):
        if ports.ports[port].pending:
            ports.ports[port].pending = 0
            queue = ports.queues[ports.ports[port].first_queue]
            release32(ports.memory, queue.tx_producer, queue.tx_written)
            reap_and_kick(ports, ports.ports[port].first_queue, port, counters)


@kernel
def reap_and_kick(ports: Ports, number: int, port: int, counters: Counters) -> None:
    """Let the kernel send the frames in a tx ring, and free the buffers of sent frames.

    A call sends 32 frames, or as many as configured, and ends at the first frame that the interface refuses: EBUSY
    means that this frame was taken from the ring and lost. The progress of a call is visible only once the ring is
    empty, so calls are counted.
    """
    queue, memory = ports.queues[number], ports.memory
    waiting = (queue.tx_written - acquire32(memory, queue.tx_consumer)) & WORD
    calls, refusals = waiting // KICK_FRAMES + 2, waiting
    while waiting > 0 and calls > 0 and acquire32(memory, queue.tx_flags) & NEED_WAKEUP:
        calls -= 1
        if sendto(queue.fd, 0, 0, MSG_DONTWAIT, 0, 0) < 0:
            reason = errno(memory)
            if reason == EBUSY and refusals > 0:
                count_lost(counters, port, 1)
                refusals -= 1
                calls += 1
            elif reason != EAGAIN and reason != ENOBUFS:
                break
        waiting = (queue.tx_written - acquire32(memory, queue.tx_consumer)) & WORD
    _reap(ports, queue)


@element
def _reap(ports: Ports, queue: Row) -> None:
    memory = ports.memory
    before = native32(memory, queue.done_consumer)
    count = (acquire32(memory, queue.done_producer) - before) & WORD
    for i in range(count):
        address = native64(memory, queue.done_at + ((before + i) & queue.done_mask) * 8)
        pool.free_buffer(ports, address >> ports.pool[CHUNK_SHIFT])
    if count:
        release32(memory, queue.done_consumer, before + count)
        queue.sent -= count


@kernel
def count_unsent(ports: Ports, number: int, port: int, counters: Counters) -> None:
    """Count the frames that are still in a tx ring as lost."""
    queue, memory = ports.queues[number], ports.memory
    position, frames = acquire32(memory, queue.tx_consumer), 0
    for _ in range((queue.tx_written - position) & WORD):
        if native32(memory, queue.tx_at + (position & queue.tx_mask) * 16 + 12) & CONTINUED == 0:
            frames += 1
        position += 1
    count_lost(counters, port, frames)
