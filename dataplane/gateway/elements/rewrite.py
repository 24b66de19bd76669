"""Write a connection's new addresses and ports into a packet, and mend its checksums by what changed.

RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Sums are kept in 64 bits and folded at the end, words of 32 bits count
like two of 16 (RFC 1071, 2). A UDP checksum of 0, none, stays 0; one that comes out as 0 is sent as 0xffff (RFC 768).
TCP and UDP count addresses and ports, ICMP its identifier only. Fragments but the first have no ports. IPv4 alone is
ever translated.
"""

from dataplane.engine.burst import LATER_FRAGMENT, drop
from dataplane.engine.graph import GraphArrays
from dataplane.engine.reasons import Drop
from dataplane.gateway.elements.quoted import is_error, translate_error
from dataplane.gateway.kinds import ON
from dataplane.gateway.memory.state import State
from dataplane.gateway.tables.lookup import place
from dataplane.gateway.tables.schema import Tables
from dataplane.jit import Bytes, Row, Rows, element, inline
from dataplane.packet.checksum import folded
from dataplane.packet.memory import load8, load16, load32, store16, store32
from dataplane.packet.transport import ICMP, TCP, UDP, is_query

WORD = 0xFFFF_FFFF
CHECKSUM_AT, SOURCE_AT, TARGET_AT = 10, 12, 16
"""Of an IPv4 header (RFC 791)."""
TCP_CHECKSUM_AT, UDP_CHECKSUM_AT, ICMP_CHECKSUM_AT, ICMP_IDENTIFIER_AT = 16, 6, 2, 4


@element
def rewrite(
    node: int, packets: Rows, count: int, memory: Bytes, graph: GraphArrays, tables: Tables, state: State, now_ns: int
) -> None:
    """Translate packets that have a translation."""
    following = graph.next[node, ON]
    for i in range(count):
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
def mend(memory: Bytes, at: int, change: int) -> int:
    """Return the checksum at a place after a change, the sum of ~old + new."""
    return ~folded((~load16(memory, at) & 0xFFFF) + change) & 0xFFFF


@inline
def translated(memory: Bytes, packet: Row, connection: Row) -> None:
    """Write addresses and ports of a connection into one packet."""
    l3, l4 = packet.l3, packet.l4
    source, target, ports = connection.new_source_lo & WORD, connection.new_target_lo & WORD, connection.new_ports
    change = (~load32(memory, l3 + SOURCE_AT) & WORD) + source + (~load32(memory, l3 + TARGET_AT) & WORD) + target
    store16(memory, l3 + CHECKSUM_AT, mend(memory, l3 + CHECKSUM_AT, change))
    store32(memory, l3 + SOURCE_AT, source)
    store32(memory, l3 + TARGET_AT, target)
    if packet.fragment == LATER_FRAGMENT:
        return
    if packet.protocol == TCP:
        change += (~load32(memory, l4) & WORD) + ports
        store16(memory, l4 + TCP_CHECKSUM_AT, mend(memory, l4 + TCP_CHECKSUM_AT, change))
        store32(memory, l4, ports)
    elif packet.protocol == UDP:
        if load16(memory, l4 + UDP_CHECKSUM_AT) != 0:
            change += (~load32(memory, l4) & WORD) + ports
            checksum = mend(memory, l4 + UDP_CHECKSUM_AT, change)
            store16(memory, l4 + UDP_CHECKSUM_AT, checksum if checksum else 0xFFFF)
        store32(memory, l4, ports)
    elif packet.protocol == ICMP and is_query(load8(memory, l4), ICMP):
        identifier = (ports >> 16 | ports) & 0xFFFF  # one of the two is 0
        change = (~load16(memory, l4 + ICMP_IDENTIFIER_AT) & 0xFFFF) + identifier
        store16(memory, l4 + ICMP_CHECKSUM_AT, mend(memory, l4 + ICMP_CHECKSUM_AT, change))
        store16(memory, l4 + ICMP_IDENTIFIER_AT, identifier)
