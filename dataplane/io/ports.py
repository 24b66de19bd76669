"""The interface of all kinds of port: receive a burst, settle each packet's fate, and count every frame once.

A run loop calls `receive` for a port, lets elements set the fates, and passes the same rows to `settle`:

    count = receive(ports, port, packets, BURST, counters)      fills at, length, first_length, floor, frame, in_port
    ...                                                         each row's `node` becomes a fate (engine.burst)
    settle(ports, packets, count, counters)                     sends, frees buffers, counts

- An element that adds or removes a header changes `at`, `length` and `first_length` alike, and stays between `floor`
  and the end of the first piece. One that cuts a frame short reduces `length` only. `frame` belongs to the port.
- Rows may be settled in any order and number, but every received row exactly once, before the next `receive`.
- The caller copies the PUNTED rows before `settle` (`copy_out`: a frame may lie in several pieces); it changes a row
  without room in its ring to a drop first.
- A frame of the slow path is sent by `inject`, or enters the graph in a burst of its own by `copy_in`.
- `receive` counts rx_packets, rx_bytes, bursts and empty_polls; `settle` and `inject` count everything else.
"""

from typing import Any

import numpy as np

from heddle.dataplane.engine.burst import DROPPED, TRANSMIT
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.accounting import count_end
from heddle.dataplane.io.af_packet import ring_kernels as tap_kernels
from heddle.dataplane.io.af_xdp import xsk_kernels
from heddle.dataplane.io.frames import in_memory, pool
from heddle.dataplane.io.frames.layout import CHAINED, END, KIND, NEXT, PIECE_AT, PIECE_BYTES, TAP, XSK, Ports
from heddle.dataplane.jit import Bytes, Row, Rows, inline, kernel
from heddle.dataplane.packet import memory as fields

BAD_STATE = int(Drop.BAD_STATE)
TRANSMIT_FULL = int(Drop.TRANSMIT_FULL)
FIRST: Any = np.int64(0)
"""Arguments instead of literals: Numba compiles a function again for each literal argument."""
ONE: Any = np.int64(1)
"""No literals: what is called with a literal is compiled for that literal as well."""


@kernel
def receive(ports: Ports, port: int, packets: Rows, at_most: int, counters: Counters) -> int:
    """Take up to `at_most` frames that have arrived at a port; return how many rows were filled."""
    if ports.pool[KIND] == XSK:
        count = xsk_kernels.receive(ports, port, packets, at_most, counters)
    elif ports.pool[KIND] == TAP:
        count = tap_kernels.receive(ports, port, packets, at_most, counters)
    else:
        count = in_memory.receive(ports, port, packets, at_most)
    counted, length = counters.ports[port], 0
    if count == 0:
        counted.empty_polls += 1
        return 0
    for i in range(count):
        packets[i].in_port = port
        length += packets[i].length
    counted.bursts += 1
    counted.rx_packets += count
    counted.rx_bytes += length
    return count


@kernel
def settle(ports: Ports, packets: Rows, count: int, counters: Counters) -> None:
    """Send every row whose fate is TRANSMIT, free the buffers of all others, and count all rows."""
    if ports.pool[KIND] == TAP:
        tap_kernels.settle(ports, packets, count, counters)
        return
    for i in range(count):
        _settle_one(ports, packets[i], counters)
    if ports.pool[KIND] == XSK:
        xsk_kernels.flush(ports, counters)


@inline
def _settle_one(ports: Ports, packet: Row, counters: Counters) -> None:
    """Settle one row."""
    if packet.node == TRANSMIT:
        reason = _hand_over(ports, packet)
        if reason < 0:
            out = counters.ports[packet.out_port]
            out.tx_packets += 1
            out.tx_bytes += packet.length
            return
        packet.node = DROPPED
        packet.reason = reason
        if 0 <= packet.out_port < ports.ports.size:
            counters.ports[packet.out_port].tx_failed += 1
    pool.free_chain(ports, packet.frame)
    count_end(packet, counters)


@inline
def _hand_over(ports: Ports, packet: Row) -> int:
    """Pass a frame to its output port; return -1, or the drop reason."""
    if not 0 <= packet.out_port < ports.ports.size:
        return BAD_STATE
    pieces = pool.close_chain(ports, packet)
    if pieces == 0:
        return BAD_STATE
    if ports.pool[KIND] == XSK:
        return xsk_kernels.enqueue(ports, packet, pieces)
    return in_memory.enqueue(ports, packet, packet.out_port)


@kernel
def inject(ports: Ports, port: int, source: Bytes, at: int, length: int, counters: Counters) -> bool:
    """Send a frame from another buffer; return False if it could not be sent, which counts as a drop.

    A `port` that does not exist, or a `length` of 0, is refused without a count.
    """
    if not copy_in(ports, port, source, at, length, ports.spare, FIRST, counters):
        return False
    packet = ports.spare[0]
    packet.node = TRANSMIT
    packet.out_port = port
    settle(ports, ports.spare, ONE, counters)
    return packet.node == TRANSMIT


@kernel
def copy_in(
    ports: Ports, port: int, source: Bytes, at: int, length: int, packets: Rows, row: int, counters: Counters
) -> bool:
    """Copy a frame into a buffer and fill in `packets[row]` as `receive` would; the frame counts as injected.

    Return False without a free buffer, which counts as a drop, or without a count if there is no such port.
    """
    if not 0 <= port < ports.ports.size or length <= 0:
        return False
    counters.ports[port].rx_injected += 1
    packet = packets[row]
    packet.in_port = port
    handle = pool.write_frame(ports, source, at, length)
    if handle == END:
        counters.ports[port].tx_failed += 1
        packet.node = DROPPED
        packet.reason = TRANSMIT_FULL
        count_end(packet, counters)
        return False
    pool.describe(ports, packet, handle)
    return True


@inline
def copy_range(ports: Ports, packet: Row, start: int, to: int, count: int) -> None:
    """Copy `count` bytes of a frame from offset `start` in it to byte `to` of the memory; it has that many bytes."""
    number, at, there = packet.frame, packet.at, packet.first_length
    while count > 0:
        if start < there:
            done = min(there - start, count)
            fields.copy(ports.memory, to, ports.memory, at + start, done)
            to, count, start = to + done, count - done, there
        start -= there
        number = pool.following(ports, number)
        if number == END:
            break
        at, there = ports.pieces[number, PIECE_AT], ports.pieces[number, PIECE_BYTES]
        number |= CHAINED


@kernel
def copy_out(ports: Ports, packet: Row, start: int, target: Bytes, to: int, limit: int) -> int:
    """Copy a frame from offset `start` of its first piece on; return how many bytes, up to `limit`.

    `start` is `packet.at` or before it: bytes of headers that an element removed are still there.
    """
    done = min(packet.at + packet.first_length - start, limit)
    fields.copy(target, to, ports.memory, start, done)
    number = pool.following(ports, packet.frame)
    while number != END and done < limit:
        count = min(ports.pieces[number, PIECE_BYTES], limit - done)
        fields.copy(target, to + done, ports.memory, ports.pieces[number, PIECE_AT], count)
        done += count
        number = ports.pieces[number, NEXT]
    return done
