"""Full NAT: write the addresses and ports of a connection's other direction into a packet, IPv4 or IPv6.

The row of the other direction holds the translation: its target is this packet's new source. Checksums are
updated incrementally (RFC 1624, equation 3) in sums of 32-bit words. A UDP checksum of 0 (none) stays 0 over IPv4; a
result of 0 is sent as 0xffff (RFC 768). Later fragments have no ports. In an ICMP error, the quoted packet's addresses
and ports are those of its sender, and the error's own source is kept, unless it is the flow's (RFC 5508, REQ-4).
"""

from typing import Any

from heddle.dataplane.balancer.memory.connections import is_of
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, drop
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.quoted import is_error
from heddle.dataplane.gateway.graph import NEXT
from heddle.dataplane.gateway.memory.connections import VNI, key_of, swapped
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import folded
from heddle.dataplane.packet.ipv6 import IPV6_BYTES
from heddle.dataplane.packet.memory import load8, load16, load32, store16, store32
from heddle.dataplane.packet.transport import TCP, UDP, checksum_at

WORD = 0xFFFF_FFFF
ICMP_BYTES, ICMP_CHECKSUM_AT, V4_CHECKSUM_AT = 8, 2, 10
SOURCE, TARGET = 0, 1


@element
def translate(node: int, work: Work) -> None:
    """Translate the packets of full NAT."""
    packets, memory = work.packets, work.memory
    state: Any = work.state
    following = work.graph.next[node, NEXT]
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        packet.node = following
        flow = state.flows[packet.translation]
        error = is_error(memory, packet)
        if flow.pair <= 0 or not _is_still_of(flow, packet, error):  # displaced by a later packet of this burst
            drop(packet, Drop.NO_STATE)
        elif error:
            _translate_error(memory, packet, flow, state.flows[flow.pair - 1])
        else:
            _translate_packet(memory, packet, state.flows[flow.pair - 1])


@inline
def _is_still_of(flow: Row, packet: Row, error: bool) -> bool:
    """Whether a row is still that of the packet; an error has the target of its flow in common with it."""
    if error:
        is_near = flow.target_hi == packet.target_hi and flow.target_lo == packet.target_lo
        return is_near and flow.key & VNI == packet.vni
    key = key_of(packet.ports, packet.protocol, packet.vni)
    return is_of(flow, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key)


@inline
def _write32(memory: Bytes, at: int, value: int) -> int:
    """Write 32 bits; return the change of a checksum over them: ~old + new."""
    change = (~load32(memory, at) & WORD) + value
    store32(memory, at, value)
    return change


@inline
def _write_address(memory: Bytes, at: int, family: int, which: int, hi: int, lo: int) -> int:
    """Write the source or target of the IP header at `at`; return the change of a checksum over it."""
    if family == 4:
        return _write32(memory, at + 12 + 4 * which, lo & WORD)
    at += 8 + 16 * which
    change = _write32(memory, at, hi >> 32 & WORD) + _write32(memory, at + 4, hi & WORD)
    return change + _write32(memory, at + 8, lo >> 32 & WORD) + _write32(memory, at + 12, lo & WORD)


@inline
def _update(memory: Bytes, at: int, change: int) -> int:
    """Update the checksum at `at` by a change; return the change of a checksum that covers it."""
    old = load16(memory, at)
    value = ~folded((~old & 0xFFFF) + change) & 0xFFFF
    store16(memory, at, value)
    return (~old & 0xFFFF) + value


@inline
def _update_transport(memory: Bytes, at: int, protocol: int, change: int) -> int:
    """Update a TCP or UDP checksum by a change of what it covers; return the change of a checksum that covers it."""
    place = at + checksum_at(protocol)
    old = load16(memory, place)
    if protocol == UDP and old == 0:
        return 0
    found = _update(memory, place, change)
    if protocol == UDP and load16(memory, place) == 0:
        store16(memory, place, WORD & 0xFFFF)  # both are 0 in ones' complement
    return found


@element
def _translate_packet(memory: Bytes, packet: Row, other: Row) -> None:
    family, l3, l4 = packet.family, packet.l3, packet.l4
    change = _write_address(memory, l3, family, SOURCE, other.target_hi, other.target_lo)
    change += _write_address(memory, l3, family, TARGET, other.source_hi, other.source_lo)
    if family == 4:
        _update(memory, l3 + V4_CHECKSUM_AT, change)
    if packet.fragment == LATER_FRAGMENT:
        return
    change += _write32(memory, l4, swapped(other.key >> 32 & WORD))
    if packet.protocol in (TCP, UDP):
        _update_transport(memory, l4, packet.protocol, change)


@element
def _translate_error(memory: Bytes, packet: Row, flow: Row, other: Row) -> None:
    """Translate an error towards the sender of the quoted packet: `other` is what that sent, `flow` its replies."""
    family, at = packet.family, packet.l4 + ICMP_BYTES
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    inner = at + ((load8(memory, at) & 15) * 4 if family == 4 else IPV6_BYTES)
    protocol = load8(memory, at + (9 if family == 4 else 6))
    addresses = _write_address(memory, at, family, SOURCE, other.source_hi, other.source_lo)
    addresses += _write_address(memory, at, family, TARGET, other.target_hi, other.target_lo)
    change = addresses
    if family == 4:
        change += _update(memory, at + V4_CHECKSUM_AT, addresses)
    ports = _write32(memory, inner, other.key >> 32 & WORD)
    change += ports
    if inner + checksum_at(protocol) + 2 <= end:
        change += _update_transport(memory, inner, protocol, addresses + ports)
    outer = _write_address(memory, packet.l3, family, TARGET, other.source_hi, other.source_lo)
    if packet.source_lo == flow.source_lo and packet.source_hi == flow.source_hi:
        outer += _write_address(memory, packet.l3, family, SOURCE, other.target_hi, other.target_lo)
    if family == 4:
        _update(memory, packet.l3 + V4_CHECKSUM_AT, outer)
        outer = 0
    _update(memory, packet.l4 + ICMP_CHECKSUM_AT, change + outer)  # ICMPv6 covers the addresses (RFC 4443, 2.3)
