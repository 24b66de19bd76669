"""Read the IPv6 header of an accepted packet, and the chain of extension headers behind it."""

from heddle.dataplane.elements.headers.arrival import fail
from heddle.dataplane.elements.headers.flow import ends_at, finish, fragment_kind
from heddle.dataplane.engine.burst import GROUP, LATER_FRAGMENT, NOT_A_FRAGMENT, ROUTED, drop, punt
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import ipv6
from heddle.dataplane.packet.ecn import LOST, decapsulated
from heddle.dataplane.packet.faults import BAD_HEADER, SHORT, SOUND
from heddle.dataplane.packet.memory import load8, load16, load64
from heddle.dataplane.packet.transport import (
    ICMPV6,
    NEIGHBOUR_ADVERTISEMENT,
    NEIGHBOUR_SOLICITATION,
    ROUTER_SOLICITATION,
    TCP,
    TCP_BYTES,
    V6_ECHO_REQUEST,
    V6_REDIRECT,
)


@element
def read_ipv6(memory: Bytes, packet: Row, seed: int) -> None:
    """Fill in a row whose `l3` is an IPv6 header by the frame's type, or drop or punt the packet."""
    at = packet.l3
    fault = ipv6.header_fault(memory, at, packet.at + packet.first_length - at, packet.at + packet.length - at)
    if fault != SOUND:
        fail(packet, fault)
        return
    packet.family = 6
    packet.source_hi = load64(memory, at + 8)
    packet.source_lo = load64(memory, at + 16)
    packet.target_hi = load64(memory, at + 24)
    packet.target_lo = load64(memory, at + 32)
    end = at + ipv6.IPV6_BYTES + load16(memory, at + 4)
    if not ends_at(packet, end):
        drop(packet, Drop.BAD_IP_HEADER)
        return
    fault = _walk(memory, packet)
    if fault != SOUND:
        fail(packet, fault)
        return
    packet.l4_bytes = end - packet.l4
    finish(memory, packet, packet.l4, packet.l4_bytes, packet.protocol, packet.fragment, seed)
    if packet.node >= 0 and not _is_for_slow_path(memory, packet) and _has_valid_addresses(packet):
        _take_mark(memory, packet)


@inline
def _walk(memory: Bytes, packet: Row) -> int:
    """Find the protocol, the fragment header and the end of the chain, in at most `MAX_HEADERS` steps."""
    protocol = load8(memory, packet.l3 + 6)
    at = packet.l3 + ipv6.IPV6_BYTES
    end = packet.at + packet.first_length
    for step in range(ipv6.MAX_HEADERS + 1):
        if protocol != ipv6.FRAGMENT and not ipv6.is_extension(protocol):
            packet.protocol = protocol
            packet.l4 = at
            return SOUND
        if at + ipv6.FRAGMENT_BYTES > end:
            return SHORT
        following = load8(memory, at)
        if protocol == ipv6.FRAGMENT:
            fault = _read_fragment(memory, packet, at, following)
            at += ipv6.FRAGMENT_BYTES
            if fault != SOUND or packet.fragment == LATER_FRAGMENT:
                packet.protocol = following
                packet.l4 = at
                return fault
        else:
            at = ipv6.behind(memory, at, end, protocol, step == 0)
            if at < 0:
                return at
        protocol = following
    return BAD_HEADER


@inline
def _read_fragment(memory: Bytes, packet: Row, at: int, following: int) -> int:
    """Read a fragment header; an atomic fragment (RFC 6946) counts as no fragment."""
    if packet.fragment != NOT_A_FRAGMENT:
        return BAD_HEADER
    word = load16(memory, at + 2)
    packet.fragment = fragment_kind(word & ipv6.OFFSET, word & ipv6.MORE)
    if packet.fragment == NOT_A_FRAGMENT:
        return SOUND
    packet.fragment_id = ipv6.identification(memory, at) | following << 32
    payload = packet.at + packet.length - at - ipv6.FRAGMENT_BYTES
    return ipv6.fragment_fault(word, payload, TCP_BYTES if following == TCP else 0)


@inline
def _is_for_slow_path(memory: Bytes, packet: Row) -> bool:
    """Punt or drop neighbour discovery and pings of the gateway's link-local address; return whether it was either."""
    if packet.protocol != ICMPV6:
        return False
    if packet.fragment == LATER_FRAGMENT:
        if packet.routed == ROUTED and ipv6.is_link_local(packet.target_hi):
            punt(packet, Punt.FOR_GATEWAY)
            return True
        return False
    kind = load8(memory, packet.l4)
    if ROUTER_SOLICITATION <= kind <= V6_REDIRECT:
        is_sound = load8(memory, packet.l3 + 7) == 255 and packet.fragment == NOT_A_FRAGMENT  # RFC 4861, 7.1; RFC 6980
        if not is_sound:
            drop(packet, Drop.BAD_IP_HEADER)
        elif kind in (ROUTER_SOLICITATION, NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT):
            punt(packet, Punt.NEIGHBOUR)
        else:
            drop(packet, Drop.NOT_FOR_US)
        return True
    if kind == V6_ECHO_REQUEST and packet.routed == ROUTED and ipv6.is_link_local(packet.target_hi):
        punt(packet, Punt.FOR_GATEWAY)
        return True
    return False


@inline
def _has_valid_addresses(packet: Row) -> bool:
    """Whether the addresses are valid for unicast between two hosts; drop the packet otherwise."""
    if ipv6.is_group_address(packet.target_hi) or packet.routed == GROUP:
        drop(packet, Drop.BROADCAST)
        return False
    is_odd = ipv6.is_reserved(packet.source_hi, packet.source_lo) or ipv6.is_reserved(
        packet.target_hi, packet.target_lo
    )
    is_local = ipv6.is_link_local(packet.source_hi) or ipv6.is_link_local(packet.target_hi)
    is_same = packet.source_hi == packet.target_hi and packet.source_lo == packet.target_lo
    if is_odd or is_local or is_same or ipv6.is_group_address(packet.source_hi):
        drop(packet, Drop.MARTIAN)
        return False
    return True


@inline
def _take_mark(memory: Bytes, packet: Row) -> None:
    """Apply the ECN mark of the outer header; drop the packet if it cannot carry the mark."""
    if packet.outer_ecn <= 0:
        return
    inner = ipv6.traffic_class(memory, packet.l3) & 3
    merged = decapsulated(inner, packet.outer_ecn)
    if merged == LOST:
        drop(packet, Drop.ECN_MISMATCH)
    elif merged != inner:
        ipv6.mark(memory, packet.l3, merged)
