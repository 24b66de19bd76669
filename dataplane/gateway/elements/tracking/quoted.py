"""ICMP errors: find the connection of the quoted packet, and translate the error and its quote.

An error is sent to the sender of the packet that it quotes, so it takes the reverse path of that connection: the
quoted packet with source and target exchanged is the key of the reply row. RFC 5508: an error about no connection is
dropped (REQ-4, REQ-5), and so is one whose quoted IPv4 header has a wrong checksum (REQ-3); an error neither refreshes
nor ends a connection (REQ-6); the addresses and ports of the quoted packet are translated back to those of its sender.
The error's own source is kept if it is a router outside; from a VPC to the outside it becomes the public address
(REQ-5 c).
"""

from heddle.dataplane.elements.headers.quoted import NO_QUOTE, quoted_target, quoted_transport
from heddle.dataplane.engine.flow_key import key_of, swapped
from heddle.dataplane.gateway.memory.connections import NO_ROW, find_connection
from heddle.dataplane.gateway.memory.state import State
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import replace16, replace32, update_checksum
from heddle.dataplane.packet.memory import WORD, load8, load16, load32
from heddle.dataplane.packet.transport import ICMP, ICMP_BYTES, ICMPV6, TCP, UDP, checksum_at, is_query, query_ports
from heddle.dataplane.tables.schema import OUTSIDE

IPV4_CHECKSUM, IPV4_SOURCE, IPV4_TARGET = 10, 12, 16
IDENTIFIER = 4


@inline
def _ports_at(memory: Bytes, at: int, protocol: int) -> int:
    """Return the ports of a quoted packet, in the form of a packet's row."""
    if protocol in (TCP, UDP):
        return load32(memory, at)
    if protocol in (ICMP, ICMPV6):
        return query_ports(memory, at, protocol)
    return 0


@element
def find_quoted(memory: Bytes, packet: Row, state: State) -> int:
    """Return the connection row that routes an ICMP error, or NO_ROW."""
    inner, protocol = quoted_transport(memory, packet)
    if inner == NO_QUOTE:
        return NO_ROW
    target_hi, target_lo = quoted_target(memory, packet)
    key = key_of(swapped(_ports_at(memory, inner, protocol)), protocol, packet.vni)
    return find_connection(state, target_hi, target_lo, packet.target_hi, packet.target_lo, key)


@element
def translate_error(memory: Bytes, packet: Row, connection: Row) -> None:
    """Translate an IPv4 ICMP error by the connection row that `find_quoted` returned."""
    source, target = connection.new_source_lo & WORD, connection.new_target_lo & WORD
    at = packet.l4 + ICMP_BYTES
    inner = at + (load8(memory, at) & 15) * 4
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    protocol = load8(memory, at + 9)
    addresses = replace32(memory, at + IPV4_SOURCE, target) + replace32(memory, at + IPV4_TARGET, source)
    change = addresses + update_checksum(memory, at + IPV4_CHECKSUM, addresses)
    change += _translate_ports(memory, inner, end, protocol, swapped(connection.new_ports), addresses)
    update_checksum(memory, packet.l4 + checksum_at(ICMP), change)
    addresses = replace32(memory, packet.l3 + IPV4_TARGET, target)
    if packet.source_lo == connection.source_lo or connection.out_vni == OUTSIDE:
        addresses += replace32(memory, packet.l3 + IPV4_SOURCE, source)
    update_checksum(memory, packet.l3 + IPV4_CHECKSUM, addresses)


@inline
def _translate_ports(memory: Bytes, at: int, end: int, protocol: int, ports: int, addresses: int) -> int:
    """Write a quoted packet's ports or identifier and update its checksum, if quoted; return the sum of all changes."""
    if protocol in (TCP, UDP):
        change = replace32(memory, at, ports)
        place = at + checksum_at(protocol)
        if place + 2 > end or (protocol == UDP and load16(memory, place) == 0):
            return change
        return change + update_checksum(memory, place, addresses + change)
    if protocol == ICMP and is_query(load8(memory, at), ICMP):
        change = replace16(memory, at + IDENTIFIER, (ports >> 16 | ports) & 0xFFFF)
        return change + update_checksum(memory, at + checksum_at(ICMP), change)
    return 0
