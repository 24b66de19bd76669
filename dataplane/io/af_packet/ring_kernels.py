"""AF_PACKET rings from compiled code: receive by TPACKET_V2, send by sendmmsg.

See Documentation/networking/packet_mmap.rst of Linux. A slot of the ring:

    status 32 | length 32 | captured 32 | mac 16 | net 16 | seconds 32 | ns 32 | vlan tci 16 | vlan tpid 16 | ...
    | sockaddr_ll | head room | struct virtio_net_hdr 10 | frame |
    ^ floor                                              ^ mac

A frame is sent from its slot, with the headers in front of it; then the slot returns to the kernel.
"""

from heddle.dataplane.engine.burst import DROPPED, TRANSMIT
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.io.accounting import count_end, count_lost
from heddle.dataplane.io.frames import pool
from heddle.dataplane.io.frames.layout import CHAINED, IN_RING, MIN_FRAME_BYTES, NUMBER, Ports
from heddle.dataplane.io.frames.pool import prefetch_headers
from heddle.dataplane.io.system_calls import MSG_DONTWAIT, sendmmsg
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline
from heddle.dataplane.packet.checksum import folded, sum_of
from heddle.dataplane.packet.intrinsics import address_of, prefetch_to_write
from heddle.dataplane.packet.memory import acquire32, copy, native32, native64, release32, set_native64, store16

USER, CHECKSUM_NOT_READY, VLAN_VALID, VLAN_TPID_VALID = 1, 1 << 3, 1 << 4, 1 << 6
HEADER_BYTES = 32
AHEAD = 8
"""Prefetch distance in slots."""
MESSAGES = 64
"""Frames per system call."""
MESSAGE_BYTES, VECTOR_BYTES = 64, 16
VIRTIO_BYTES = 10
DOT1Q = 0x8100
BAD_STATE, TRUNCATED = int(Drop.BAD_STATE), int(Drop.TRUNCATED)


@element
def receive(ports: Ports, port: int, packets: Rows, at_most: int, counters: Counters) -> int:
    """See `ports.receive`. A frame that the kernel could not capture whole is dropped and counted here."""
    tap, memory, count = ports.taps[port], ports.memory, 0
    polled = 0
    while count < at_most and polled < tap.slots:
        at = tap.ring_at + tap.slot * tap.slot_bytes
        status = acquire32(memory, at)
        if status & USER == 0:
            break
        polled += 1
        tap.slot = tap.slot + 1 if tap.slot + 1 < tap.slots else 0
        length, captured = native32(memory, at + 4), native32(memory, at + 8)
        if captured < length:
            _drop_truncated(port, length, counters)
            release32(memory, at, 0)
            continue
        _describe(ports, packets[count], at, status)
        _prefetch(memory, tap, packets[count].at - at)
        count += 1
    return count


@inline
def _prefetch(memory: Bytes, tap: Row, start: int) -> None:
    """Prefetch the status and the headers of a later slot; its frame begins at the same offset as this one's."""
    slot = tap.slot + AHEAD
    at = tap.ring_at + (slot if slot < tap.slots else slot - tap.slots) * tap.slot_bytes
    prefetch_to_write(memory, at, 0)
    prefetch_headers(memory, at + start)


@inline
def _drop_truncated(port: int, length: int, counters: Counters) -> None:
    counted = counters.ports[port]
    counted.rx_packets += 1
    counted.rx_bytes += length
    counted.dropped += 1
    counters.drops[TRUNCATED] += 1


@inline
def _describe(ports: Ports, packet: Row, at: int, status: int) -> None:
    """Fill in a packet's row, and restore the frame as on the wire: checksum and VLAN tag."""
    memory = ports.memory
    packet.floor = at + HEADER_BYTES
    packet.at = at + (native32(memory, at + 12) & 0xFFFF)
    packet.length = native32(memory, at + 4)
    packet.frame = IN_RING | at
    if status & CHECKSUM_NOT_READY:
        _complete_checksum(ports, packet)
    if status & VLAN_VALID:
        tag = native32(memory, at + 24)
        kind = tag >> 16 if status & VLAN_TPID_VALID else DOT1Q
        copy(memory, packet.at - 4, memory, packet.at, 12)
        packet.at -= 4
        packet.length += 4
        store16(memory, packet.at + 12, kind)
        store16(memory, packet.at + 14, tag & 0xFFFF)
    packet.first_length = packet.length


@element
def _complete_checksum(ports: Ports, packet: Row) -> None:
    """Compute a checksum that the sender's kernel left to its card.

    Its position is in the header in front of the frame (<linux/virtio_net.h>): flags 8 | gso type 8 | header length 16
    | gso size 16 | checksum from 16 | checksum at, from there 16.
    """
    memory, header = ports.memory, packet.at - VIRTIO_BYTES
    words = native32(memory, header + 6)
    start, field = words & 0xFFFF, words >> 16
    if start + field + 2 > packet.length:
        return
    total = folded(sum_of(memory, packet.at + start, packet.length - start)) ^ 0xFFFF
    store16(memory, packet.at + start + field, total if total else 0xFFFF)


@element
def settle(ports: Ports, packets: Rows, count: int, counters: Counters) -> None:
    """See `ports.settle`. Slots return to the kernel after all frames are sent."""
    for i in range(count):
        packet = packets[i]
        if packet.node == TRANSMIT:
            if _enqueue(ports, packet, counters):
                continue
            packet.node = DROPPED
            packet.reason = BAD_STATE
        count_end(packet, counters)
    for port in range(ports.ports.size):
        if ports.ports[port].pending:
            send(ports, port, counters)
    for i in range(count):
        release_buffer(ports, packets[i].frame)


@inline
def _enqueue(ports: Ports, packet: Row, counters: Counters) -> bool:
    """Write the row of a message; return False if the packet's row is inconsistent."""
    if not 0 <= packet.out_port < ports.ports.size or not _fits(ports, packet):
        return False
    port, tap, memory = ports.ports[packet.out_port], ports.taps[packet.out_port], ports.memory
    if port.pending == MESSAGES:
        send(ports, packet.out_port, counters)
    vector = tap.vectors_at + port.pending * VECTOR_BYTES
    set_native64(memory, vector, address_of(memory, packet.at))
    set_native64(memory, vector + 8, packet.length)
    port.pending += 1
    return True


@inline
def _fits(ports: Ports, packet: Row) -> bool:
    if packet.length < MIN_FRAME_BYTES or packet.length > packet.first_length or packet.frame & CHAINED:
        return False
    if packet.frame & IN_RING:
        slot_bytes = ports.taps[packet.in_port].slot_bytes
        start = packet.frame & NUMBER
        return packet.at >= start + HEADER_BYTES and packet.at + packet.length <= start + slot_bytes
    return pool.fits(ports, packet.frame, packet.at, packet.length)


@element
def send(ports: Ports, port: int, counters: Counters) -> None:
    """Send the messages of a port. A call ends at the first refused message; that one is counted and skipped."""
    tap, memory, own, counted = ports.taps[port], ports.memory, ports.ports[port], counters.ports[port]
    count, done = own.pending, 0
    own.pending = 0
    while done < count:
        sent = sendmmsg(
            tap.tx_fd, address_of(memory, tap.messages_at + done * MESSAGE_BYTES), count - done, MSG_DONTWAIT
        )
        if sent <= 0:
            counted.tx_packets += 1
            count_lost(counters, port, 1)
            done += 1
            continue
        for message in range(done, done + sent):
            counted.tx_bytes += native64(memory, tap.vectors_at + message * VECTOR_BYTES + 8)
        counted.tx_packets += sent
        done += sent


@inline
def release_buffer(ports: Ports, handle: int) -> None:
    """Return a slot to the kernel, or a buffer to the pool."""
    if handle & IN_RING:
        release32(ports.memory, handle & NUMBER, 0)
    else:
        pool.free_chain(ports, handle)
