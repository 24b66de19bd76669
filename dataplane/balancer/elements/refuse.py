"""Make a packet to a virtual IP its own reply: a reset, an ICMP error or an echo reply.

A connection that no back end can have is refused at once, as a host without a listener does: TCP by RST (RFC 9293,
3.10.7.1), other protocols by ICMP port unreachable. Pings of a virtual IP get their reply here. The reply is written
over the packet, in its buffer, so a refusal costs no more than forwarding. It leaves by the hop to its sender, whose
address `client` has checked: a spoofed packet of another endpoint causes nothing. ICMP errors, later fragments and
resets are never replied to (RFC 1122, 3.2.2).
"""

from heddle.dataplane.balancer.memory.state import Count, State
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, NOT_A_FRAGMENT, V4_PREFIX, drop
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import changed, folded, sum_of
from heddle.dataplane.packet.ipv4 import DONT_FRAGMENT, IPV4_BYTES, TTL
from heddle.dataplane.packet.ipv6 import IPV6_BYTES
from heddle.dataplane.packet.memory import WORD, load8, load16, load32, store8, store16, store32, store64
from heddle.dataplane.packet.transport import (
    ACK,
    ECHO_REPLY,
    ECHO_REQUEST,
    FIN,
    FLAGS_AT,
    ICMP,
    ICMP_BYTES,
    ICMP_CHECKSUM,
    ICMPV6,
    RST,
    TCP,
    TCP_BYTES,
    V6_ECHO_REPLY,
    V6_ECHO_REQUEST,
)

REFUSED, ECHOED = int(Count.REFUSED), int(Count.ECHOED)
MAX_V4_BYTES, MAX_V6_BYTES = 576, 1280
"""Of a whole error (RFC 1812, 4.3.2.3; RFC 4443, 2.4 c)."""


@element
def refuse(node: int, work: Work) -> None:
    """Turn every packet into the reply to it, or drop it."""
    packets, memory, state = work.packets, work.memory, work.state
    following = work.graph.next[node, NEXT]
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        packet.node = following
        packet.next_hop = packet.source_hop
        packet.translation = -1
        if packet.protocol == ICMP or packet.protocol == ICMPV6:
            _echo(memory, packet, state)
        elif packet.fragment == LATER_FRAGMENT:
            drop(packet, Drop.NO_BACK_END)
        elif packet.protocol == TCP:
            _reset(memory, packet, state)
        else:
            _unreachable(memory, packet, state)


@element
def _echo(memory: Bytes, packet: Row, state: State) -> None:
    """Make an echo request its reply; drop any other ICMP packet."""
    request, reply = (ECHO_REQUEST, ECHO_REPLY) if packet.family == 4 else (V6_ECHO_REQUEST, V6_ECHO_REPLY)
    is_whole = packet.fragment == NOT_A_FRAGMENT and (packet.protocol == ICMP) == (packet.family == 4)
    if not is_whole or load8(memory, packet.l4) != request:
        drop(packet, Drop.NO_STATE)
        return
    at = packet.l4 + ICMP_CHECKSUM
    store8(memory, packet.l4, reply)
    checksum = changed(load16(memory, at), request << 8, reply << 8)
    store16(memory, at, checksum if checksum else 0xFFFF)  # a reply of zeros alone has no other; RFC 1624, section 3
    _write_addresses(memory, packet, packet.l3)
    state.counters[ECHOED] += 1


@inline
def _write_addresses(memory: Bytes, packet: Row, at: int) -> None:
    """Write the packet's addresses into the IP header at `at`, source and target exchanged."""
    if packet.family == 4:
        store32(memory, at + 12, packet.target_lo & ~V4_PREFIX)
        store32(memory, at + 16, packet.source_lo & ~V4_PREFIX)
    else:
        store64(memory, at + 8, packet.target_hi)
        store64(memory, at + 16, packet.target_lo)
        store64(memory, at + 24, packet.source_hi)
        store64(memory, at + 32, packet.source_lo)


@inline
def _write_ip(memory: Bytes, packet: Row, l4: int, count: int, protocol: int) -> None:
    """Write an IP header for a reply in front of its `count` bytes at `l4`, and end the frame behind them."""
    header = IPV4_BYTES if packet.family == 4 else IPV6_BYTES
    at = l4 - header
    _write_addresses(memory, packet, at)
    if packet.family == 4:
        store32(memory, at, 0x4500_0000 | header + count)
        store32(memory, at + 4, DONT_FRAGMENT)
        store32(memory, at + 8, TTL << 24 | protocol << 16)
        store16(memory, at + 10, ~folded(sum_of(memory, at, header)) & 0xFFFF)
    else:
        store32(memory, at, 0x6000_0000)
        store32(memory, at + 4, count << 16 | protocol << 8 | TTL)
    packet.l3 = at
    packet.length = l4 + count - packet.at
    packet.first_length = l4 + count - packet.at


@inline
def _pseudo_sum(memory: Bytes, packet: Row, l4: int, count: int, protocol: int) -> int:
    """Return the sum of the pseudo header and of `count` bytes at `l4` (RFC 9293, 3.1; RFC 8200, 8.1)."""
    addresses = sum_of(memory, packet.l3 + 12, 8) if packet.family == 4 else sum_of(memory, packet.l3 + 8, 32)
    return addresses + protocol + count + sum_of(memory, l4, count)


@element
def _reset(memory: Bytes, packet: Row, state: State) -> None:
    """Make a segment the reset of its connection (RFC 9293, 3.10.7.1)."""
    l4 = packet.l4
    seen, ports = load8(memory, l4 + FLAGS_AT), packet.ports
    if seen & RST:
        drop(packet, Drop.NO_BACK_END)
        return
    sequence, acknowledged = load32(memory, l4 + 4), load32(memory, l4 + 8)
    payload = packet.l4_bytes - (load8(memory, l4 + 12) >> 4) * 4
    store32(memory, l4, (ports & 0xFFFF) << 16 | ports >> 16)
    if seen & ACK:
        store32(memory, l4 + 4, acknowledged)
        store32(memory, l4 + 8, 0)
        store32(memory, l4 + 12, 0x5000_0000 | RST << 16)
    else:
        following = sequence + payload + (seen >> 1 & 1) + (seen & FIN)
        store32(memory, l4 + 4, 0)
        store32(memory, l4 + 8, following & WORD)
        store32(memory, l4 + 12, 0x5000_0000 | (RST | ACK) << 16)
    store32(memory, l4 + 16, 0)
    _write_ip(memory, packet, l4, TCP_BYTES, TCP)
    store16(memory, l4 + 16, ~folded(_pseudo_sum(memory, packet, l4, TCP_BYTES, TCP)) & 0xFFFF)
    state.counters[REFUSED] += 1


@element
def _unreachable(memory: Bytes, packet: Row, state: State) -> None:
    """Put a packet behind an ICMP port unreachable that quotes as much of it as fits."""
    is_v4 = packet.family == 4
    header, most = (IPV4_BYTES, MAX_V4_BYTES) if is_v4 else (IPV6_BYTES, MAX_V6_BYTES)
    l4 = packet.l3 - ICMP_BYTES
    if l4 - header < packet.floor:
        drop(packet, Drop.NO_HEAD_ROOM)
        return
    quoted = min(packet.at + packet.first_length - packet.l3, most - header - ICMP_BYTES)
    count, protocol = quoted + ICMP_BYTES, ICMP if is_v4 else ICMPV6
    store32(memory, l4, 0x0303_0000 if is_v4 else 0x0104_0000)
    store32(memory, l4 + 4, 0)
    _write_ip(memory, packet, l4, count, protocol)
    total = sum_of(memory, l4, count) if is_v4 else _pseudo_sum(memory, packet, l4, count, protocol)
    store16(memory, l4 + ICMP_CHECKSUM, ~folded(total) & 0xFFFF)
    state.counters[REFUSED] += 1
