"""ICMP errors: find the connection of the quoted packet, and translate the error and its quote.

An error is sent to the sender of the packet that it quotes, so it takes the reverse path of that connection: the
quoted packet with source and target exchanged is the key of the reply row. RFC 5508: an error about no connection is
dropped (REQ-4, REQ-5), and so is one whose quoted IPv4 header has a wrong checksum (REQ-3); an error neither refreshes
nor ends a connection (REQ-8); the addresses and ports of the quoted packet are translated back to those of its sender.
The error's own source is kept if it is a router outside; from a VPC to the outside it becomes the public address
(REQ-4 c).

    IP | ICMP type 8, code 8, checksum 16, rest 32 | IP header of the packet | 8 bytes of it at least
"""

from heddle.dataplane.engine.burst import LATER_FRAGMENT
from heddle.dataplane.gateway.memory.connections import NO_ROW, find_connection, key_of, swapped
from heddle.dataplane.gateway.memory.state import State
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import folded, header_is_sound
from heddle.dataplane.packet.memory import load8, load16, load32, load64, store16, store32
from heddle.dataplane.packet.transport import ICMP, ICMPV6, TCP, UDP, checksum_at, is_icmp_error, is_query, query_ports
from heddle.dataplane.tables.schema import OUTSIDE

HEADER_BYTES = 8
"""Bytes of ICMP in front of the quoted packet; also the least number of bytes of the quoted packet's payload."""
IPV6_BYTES = 40
WORD = 0xFFFF_FFFF
IPV4_CHECKSUM, IPV4_SOURCE, IPV4_TARGET = 10, 12, 16
IDENTIFIER = 4
V4_PREFIX = 0xFFFF_0000_0000


@inline
def is_error(memory: Bytes, packet: Row) -> bool:
    """Return whether a packet is an ICMP error."""
    if (packet.protocol != ICMP and packet.protocol != ICMPV6) or packet.fragment == LATER_FRAGMENT:
        return False
    return is_icmp_error(memory, packet.l4, packet.protocol)


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
    at = packet.l4 + HEADER_BYTES
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    if packet.family == 4:
        if at + 20 > end:
            return NO_ROW
        inner = at + (load8(memory, at) & 15) * 4
        if load8(memory, at) >> 4 != 4 or inner < at + 20 or inner + HEADER_BYTES > end:
            return NO_ROW
        if load16(memory, at + 6) & 0x1FFF or not header_is_sound(memory, at, inner - at):
            return NO_ROW
        source_hi, source_lo = 0, V4_PREFIX | load32(memory, at + IPV4_SOURCE)
        target_hi, target_lo = 0, V4_PREFIX | load32(memory, at + IPV4_TARGET)
        protocol = load8(memory, at + 9)
    else:
        inner = at + IPV6_BYTES
        if inner + HEADER_BYTES > end or load8(memory, at) >> 4 != 6:
            return NO_ROW
        source_hi, source_lo = load64(memory, at + 8), load64(memory, at + 16)
        target_hi, target_lo = load64(memory, at + 24), load64(memory, at + 32)
        protocol = load8(memory, at + 6)
    if packet.target_hi != source_hi or packet.target_lo != source_lo:
        return NO_ROW
    key = key_of(swapped(_ports_at(memory, inner, protocol)), protocol, packet.vni)
    return find_connection(state, target_hi, target_lo, source_hi, source_lo, key)


@inline
def _swap16(memory: Bytes, at: int, value: int) -> int:
    """Write 16 bits; return the change of a checksum over them: ~old + new."""
    change = (~load16(memory, at) & 0xFFFF) + value
    store16(memory, at, value)
    return change


@inline
def _swap32(memory: Bytes, at: int, value: int) -> int:
    """Write 32 bits; return the change of a checksum over them."""
    change = (~load32(memory, at) & WORD) + value
    store32(memory, at, value)
    return change


@inline
def _update_checksum(memory: Bytes, at: int, change: int) -> int:
    """Update a checksum by a change; return the change of a checksum that covers it."""
    return _swap16(memory, at, ~folded((~load16(memory, at) & 0xFFFF) + change) & 0xFFFF)


@element
def translate_error(memory: Bytes, packet: Row, connection: Row) -> None:
    """Translate an IPv4 ICMP error by the connection row that `find_quoted` returned."""
    source, target = connection.new_source_lo & WORD, connection.new_target_lo & WORD
    at = packet.l4 + HEADER_BYTES
    inner = at + (load8(memory, at) & 15) * 4
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    protocol = load8(memory, at + 9)
    addresses = _swap32(memory, at + IPV4_SOURCE, target) + _swap32(memory, at + IPV4_TARGET, source)
    change = addresses + _update_checksum(memory, at + IPV4_CHECKSUM, addresses)
    change += _translate_ports(memory, inner, end, protocol, swapped(connection.new_ports), addresses)
    _update_checksum(memory, packet.l4 + checksum_at(ICMP), change)
    addresses = _swap32(memory, packet.l3 + IPV4_TARGET, target)
    if packet.source_lo == connection.source_lo or connection.out_vni == OUTSIDE:
        addresses += _swap32(memory, packet.l3 + IPV4_SOURCE, source)
    _update_checksum(memory, packet.l3 + IPV4_CHECKSUM, addresses)


@inline
def _translate_ports(memory: Bytes, at: int, end: int, protocol: int, ports: int, addresses: int) -> int:
    """Write a quoted packet's ports or identifier and update its checksum, if quoted; return the sum of all changes."""
    if protocol in (TCP, UDP):
        change = _swap32(memory, at, ports)
        place = at + checksum_at(protocol)
        if place + 2 > end or (protocol == UDP and load16(memory, place) == 0):
            return change
        return change + _update_checksum(memory, place, addresses + change)
    if protocol == ICMP and is_query(load8(memory, at), ICMP):
        change = _swap16(memory, at + IDENTIFIER, (ports >> 16 | ports) & 0xFFFF)
        return change + _update_checksum(memory, at + checksum_at(ICMP), change)
    return 0
