"""Write a connection's translated addresses and ports into a packet, and update its checksums incrementally.

RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Sums are kept in 64 bits and folded at the end; a 32-bit word counts as
two 16-bit words (RFC 1071, 2). A UDP checksum of 0 (none) stays 0; a result of 0 is sent as 0xffff (RFC 768). TCP and
UDP checksums cover addresses and ports, ICMP's only the identifier. Later fragments have no ports. Only IPv4 is
translated.
"""

from heddle.dataplane.elements.headers.flow import is_error
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, drop
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.tracking.quoted import translate_error
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import folded
from heddle.dataplane.packet.memory import WORD, load8, load16, load32, store16, store32
from heddle.dataplane.packet.transport import ICMP, ICMP_CHECKSUM, TCP, TCP_CHECKSUM, UDP, UDP_CHECKSUM, is_query
from heddle.dataplane.tables.lookup import place

CHECKSUM_AT, SOURCE_AT, TARGET_AT = 10, 12, 16
"""Offsets in an IPv4 header (RFC 791)."""
ICMP_IDENTIFIER_AT = 4


@element
def rewrite(node: int, work: Work) -> None:
    """Translate the packets that have a translation."""
    packets, memory, state = work.packets, work.memory, work.state
    following = work.graph.next[node, NEXT]
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        if packet.translation >= 0:
            if packet.family != 4:
                drop(packet, Drop.BAD_STATE)
                continue
            if is_error(memory, packet):
                translate_error(memory, packet, state.connections[place(packet.translation)])
            else:
                translated(memory, packet, state.connections[place(packet.translation)])
        packet.node = following


@inline
def updated_checksum(memory: Bytes, at: int, change: int) -> int:
    """Return the checksum at an offset after a change, which is the sum of ~old + new."""
    return ~folded((~load16(memory, at) & 0xFFFF) + change) & 0xFFFF


@inline
def translated(memory: Bytes, packet: Row, connection: Row) -> None:
    """Write the addresses and ports of a connection into one packet."""
    l3, l4 = packet.l3, packet.l4
    source, target, ports = connection.new_source_lo & WORD, connection.new_target_lo & WORD, connection.new_ports
    change = (~load32(memory, l3 + SOURCE_AT) & WORD) + source + (~load32(memory, l3 + TARGET_AT) & WORD) + target
    store16(memory, l3 + CHECKSUM_AT, updated_checksum(memory, l3 + CHECKSUM_AT, change))
    store32(memory, l3 + SOURCE_AT, source)
    store32(memory, l3 + TARGET_AT, target)
    if packet.fragment == LATER_FRAGMENT:
        return
    if packet.protocol == TCP:
        change += (~load32(memory, l4) & WORD) + ports
        store16(memory, l4 + TCP_CHECKSUM, updated_checksum(memory, l4 + TCP_CHECKSUM, change))
        store32(memory, l4, ports)
    elif packet.protocol == UDP:
        if load16(memory, l4 + UDP_CHECKSUM) != 0:
            change += (~load32(memory, l4) & WORD) + ports
            checksum = updated_checksum(memory, l4 + UDP_CHECKSUM, change)
            store16(memory, l4 + UDP_CHECKSUM, checksum if checksum else 0xFFFF)
        store32(memory, l4, ports)
    elif packet.protocol == ICMP and is_query(load8(memory, l4), ICMP):
        identifier = (ports >> 16 | ports) & 0xFFFF  # one of the two is 0
        change = (~load16(memory, l4 + ICMP_IDENTIFIER_AT) & 0xFFFF) + identifier
        store16(memory, l4 + ICMP_CHECKSUM, updated_checksum(memory, l4 + ICMP_CHECKSUM, change))
        store16(memory, l4 + ICMP_IDENTIFIER_AT, identifier)
