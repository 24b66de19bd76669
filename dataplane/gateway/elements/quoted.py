"""ICMP errors: whose connection they are about, and how they are translated, inside and out.

An error goes to who sent the packet that it quotes, so it goes the way of that connection's answers: the packet quoted,
turned round, is the key of that row. RFC 5508: an error about no connection is dropped (REQ-4, REQ-5), as is one whose
quoted IPv4 header does not agree with its checksum (REQ-3); it neither refreshes nor ends a connection (REQ-8); the
addresses and ports of the quoted packet become what its sender sent. The error's own source stays where it is a router
outside; from a VPC to the outside it becomes the public address (REQ-4 c).

    IP | ICMP type 8, code 8, checksum 16, rest 32 | IP header of the packet | 8 bytes of it at least
"""

from dataplane.engine.burst import LATER_FRAGMENT
from dataplane.gateway.memory.connections import NOWHERE, find_connection, key_of, swapped
from dataplane.gateway.memory.state import State
from dataplane.gateway.tables.schema import OUTSIDE
from dataplane.jit import Bytes, Row, element, inline
from dataplane.packet.checksum import folded, header_is_sound
from dataplane.packet.memory import load8, load16, load32, load64, store16, store32
from dataplane.packet.transport import ICMP, ICMPV6, TCP, UDP, checksum_at, is_icmp_error, is_query, query_ports

HEADER_BYTES = 8
"""Of ICMP, in front of the quoted packet; and of the quoted packet's payload, at least."""
IPV6_BYTES = 40
WORD = 0xFFFF_FFFF
IPV4_CHECKSUM, IPV4_SOURCE, IPV4_TARGET = 10, 12, 16
IDENTIFIER = 4
V4_PREFIX = 0xFFFF_0000_0000


@inline
def is_error(memory: Bytes, packet: Row) -> bool:
    """Say whether a packet is an ICMP error."""
    if (packet.protocol != ICMP and packet.protocol != ICMPV6) or packet.fragment == LATER_FRAGMENT:
        return False
    return is_icmp_error(memory, packet.l4, packet.protocol)


@inline
def _ports_at(memory: Bytes, at: int, protocol: int) -> int:
    """Return the ports of a quoted packet, as in a packet's row."""
    if protocol in (TCP, UDP):
        return load32(memory, at)
    if protocol in (ICMP, ICMPV6):
        return query_ports(memory, at, protocol)
    return 0


@element
def find_quoted(memory: Bytes, packet: Row, state: State) -> int:
    """Return the row whose way an ICMP error goes, or NOWHERE."""
    at = packet.l4 + HEADER_BYTES
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    if packet.family == 4:
        if at + 20 > end:
            return NOWHERE
        inner = at + (load8(memory, at) & 15) * 4
        if load8(memory, at) >> 4 != 4 or inner < at + 20 or inner + HEADER_BYTES > end:
            return NOWHERE
        if load16(memory, at + 6) & 0x1FFF or not header_is_sound(memory, at, inner - at):
            return NOWHERE
        source_hi, source_lo = 0, V4_PREFIX | load32(memory, at + IPV4_SOURCE)
        target_hi, target_lo = 0, V4_PREFIX | load32(memory, at + IPV4_TARGET)
        protocol = load8(memory, at + 9)
    else:
        inner = at + IPV6_BYTES
        if inner + HEADER_BYTES > end or load8(memory, at) >> 4 != 6:
            return NOWHERE
        source_hi, source_lo = load64(memory, at + 8), load64(memory, at + 16)
        target_hi, target_lo = load64(memory, at + 24), load64(memory, at + 32)
        protocol = load8(memory, at + 6)
    if packet.target_hi != source_hi or packet.target_lo != source_lo:
        return NOWHERE
    key = key_of(swapped(_ports_at(memory, inner, protocol)), protocol, packet.vni)
    return find_connection(state, target_hi, target_lo, source_hi, source_lo, key)


@inline
def _swap16(memory: Bytes, at: int, value: int) -> int:
    """Write 16 bits; return the change for a checksum over them: ~old + new."""
    change = (~load16(memory, at) & 0xFFFF) + value
    store16(memory, at, value)
    return change


@inline
def _swap32(memory: Bytes, at: int, value: int) -> int:
    change = (~load32(memory, at) & WORD) + value
    store32(memory, at, value)
    return change


@inline
def _mend(memory: Bytes, at: int, change: int) -> int:
    """Mend a checksum by a change; return how that changed it."""
    return _swap16(memory, at, ~folded((~load16(memory, at) & 0xFFFF) + change) & 0xFFFF)


@element
def translate_error(memory: Bytes, packet: Row, connection: Row) -> None:
    """Write into an ICMP error that `find_quoted` found this row for what it says on its other side. IPv4 alone."""
    source, target = connection.new_source_lo & WORD, connection.new_target_lo & WORD
    at = packet.l4 + HEADER_BYTES
    inner = at + (load8(memory, at) & 15) * 4
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    protocol = load8(memory, at + 9)
    addresses = _swap32(memory, at + IPV4_SOURCE, target) + _swap32(memory, at + IPV4_TARGET, source)
    change = addresses + _mend(memory, at + IPV4_CHECKSUM, addresses)
    change += _translate_ports(memory, inner, end, protocol, swapped(connection.new_ports), addresses)
    _mend(memory, packet.l4 + checksum_at(ICMP), change)
    addresses = _swap32(memory, packet.l3 + IPV4_TARGET, target)
    if packet.source_lo == connection.source_lo or connection.out_vni == OUTSIDE:
        addresses += _swap32(memory, packet.l3 + IPV4_SOURCE, source)
    _mend(memory, packet.l3 + IPV4_CHECKSUM, addresses)


@inline
def _translate_ports(memory: Bytes, at: int, end: int, protocol: int, ports: int, addresses: int) -> int:
    """Write ports or identifier of a quoted packet, mend its checksum as far as it is quoted; return all changes."""
    if protocol in (TCP, UDP):
        change = _swap32(memory, at, ports)
        place = at + checksum_at(protocol)
        if place + 2 > end or (protocol == UDP and load16(memory, place) == 0):
            return change
        return change + _mend(memory, place, addresses + change)
    if protocol == ICMP and is_query(load8(memory, at), ICMP):
        change = _swap16(memory, at + IDENTIFIER, (ports >> 16 | ports) & 0xFFFF)
        return change + _mend(memory, at + checksum_at(ICMP), change)
    return 0
