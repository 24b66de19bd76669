"""Full NAT: write the addresses and ports of a connection's other direction into a packet, IPv4 or IPv6.

The row of the other direction holds the translation: its target is this packet's new source. Checksums are
updated incrementally (RFC 1624, equation 3) in sums of 32-bit words. A UDP checksum of 0 (none) stays 0 over IPv4; a
result of 0 is sent as 0xffff (RFC 768). Later fragments have no ports. In an ICMP error, the quoted packet's addresses
and ports are those of its sender, and the error's own source is kept, unless it is the flow's (RFC 5508, REQ-4).
"""

from heddle.dataplane.balancer.memory.connections import is_of
from heddle.dataplane.elements.headers.flow import is_error
from heddle.dataplane.elements.headers.quoted import quoted_transport
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, drop
from heddle.dataplane.engine.flow_key import VNI, key_of, swapped
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import replace32, update_checksum
from heddle.dataplane.packet.memory import WORD, load16, store16
from heddle.dataplane.packet.transport import ICMP_BYTES, ICMP_CHECKSUM, TCP, UDP, checksum_at

V4_CHECKSUM_AT = 10
SOURCE, TARGET = 0, 1


@element
def translate(node: int, work: Work) -> None:
    """Translate the packets of full NAT."""
    packets, memory, state = work.packets, work.memory, work.state
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
def _write_address(memory: Bytes, at: int, family: int, which: int, hi: int, lo: int) -> int:
    """Write the source or target of the IP header at `at`; return the change of a checksum over it."""
    if family == 4:
        return replace32(memory, at + 12 + 4 * which, lo & WORD)
    at += 8 + 16 * which
    change = replace32(memory, at, hi >> 32 & WORD) + replace32(memory, at + 4, hi & WORD)
    return change + replace32(memory, at + 8, lo >> 32 & WORD) + replace32(memory, at + 12, lo & WORD)


@inline
def _update_transport(memory: Bytes, at: int, protocol: int, change: int) -> int:
    """Update a TCP or UDP checksum by a change of what it covers; return the change of a checksum that covers it."""
    place = at + checksum_at(protocol)
    old = load16(memory, place)
    if protocol == UDP and old == 0:
        return 0
    found = update_checksum(memory, place, change)
    if protocol == UDP and load16(memory, place) == 0:
        store16(memory, place, WORD & 0xFFFF)  # both are 0 in ones' complement
    return found


@element
def _translate_packet(memory: Bytes, packet: Row, other: Row) -> None:
    family, l3, l4 = packet.family, packet.l3, packet.l4
    change = _write_address(memory, l3, family, SOURCE, other.target_hi, other.target_lo)
    change += _write_address(memory, l3, family, TARGET, other.source_hi, other.source_lo)
    if family == 4:
        update_checksum(memory, l3 + V4_CHECKSUM_AT, change)
    if packet.fragment == LATER_FRAGMENT:
        return
    change += replace32(memory, l4, swapped(other.key >> 32 & WORD))
    if packet.protocol in (TCP, UDP):
        _update_transport(memory, l4, packet.protocol, change)


@element
def _translate_error(memory: Bytes, packet: Row, flow: Row, other: Row) -> None:
    """Translate an error towards the sender of the quoted packet: `other` is what that sent, `flow` its replies."""
    family, at = packet.family, packet.l4 + ICMP_BYTES
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    inner, protocol = quoted_transport(memory, packet)
    addresses = _write_address(memory, at, family, SOURCE, other.source_hi, other.source_lo)
    addresses += _write_address(memory, at, family, TARGET, other.target_hi, other.target_lo)
    change = addresses
    if family == 4:
        change += update_checksum(memory, at + V4_CHECKSUM_AT, addresses)
    ports = replace32(memory, inner, other.key >> 32 & WORD)
    change += ports
    if inner + checksum_at(protocol) + 2 <= end:
        change += _update_transport(memory, inner, protocol, addresses + ports)
    outer = _write_address(memory, packet.l3, family, TARGET, other.source_hi, other.source_lo)
    if packet.source_lo == flow.source_lo and packet.source_hi == flow.source_hi:
        outer += _write_address(memory, packet.l3, family, SOURCE, other.target_hi, other.target_lo)
    if family == 4:
        update_checksum(memory, packet.l3 + V4_CHECKSUM_AT, outer)
        outer = 0
    update_checksum(memory, packet.l4 + ICMP_CHECKSUM, change + outer)  # ICMPv6 covers the addresses (RFC 4443, 2.3)
