"""IPv4 (RFC 791): validity of header, addresses and fragments; TTL and ECN.

 0        8        16                31
+----+----+--------+-----------------+
|4   |IHL | TOS    | total length    |
+----+----+--------+--+--------------+
| identification   |0DM| offset / 8  |
+---------+--------+-----------------+
| TTL     |protocol| header checksum |
+---------+--------+-----------------+
| source, target, options            |
"""

from heddle.dataplane.jit import Bytes, element, inline
from heddle.dataplane.packet.checksum import changed, header_is_sound
from heddle.dataplane.packet.faults import BAD_FRAGMENT, BAD_HEADER, SHORT, SOUND
from heddle.dataplane.packet.memory import load8, load16, load32, store8, store16

IPV4_BYTES = 20
TTL = 64
"""Of packets that a program itself makes."""
PLAIN = 0x45
"""First byte of an IPv4 header without options."""
DONT_FRAGMENT, MORE_FRAGMENTS, OFFSET = 0x4000, 0x2000, 0x1FFF
LARGEST = 65535
_END, _NOTHING, _LOOSE_ROUTE, _STRICT_ROUTE = 0, 1, 131, 137
LINK_LOCAL = 169 << 8 | 254
"""The first 16 bits of link-local addresses."""


@inline
def header_of(memory: Bytes, at: int, there: int, whole: int) -> int:
    """Return the header's length in bytes, or SHORT or BAD_HEADER.

    Args:
        memory: where the packet lies.
        at: first byte of the header.
        there: bytes from there on in the packet's first buffer; no other is read.
        whole: bytes from there on in all buffers of the frame.
    """
    if there < IPV4_BYTES:
        return SHORT
    first = load32(memory, at)
    if first >> 24 != PLAIN:
        return _long_header_of(memory, at, there, whole)
    total = first & 0xFFFF
    if total < IPV4_BYTES or total > whole or not header_is_sound(memory, at, IPV4_BYTES):
        return BAD_HEADER
    return IPV4_BYTES


@element
def _long_header_of(memory: Bytes, at: int, there: int, whole: int) -> int:
    """Do the same for a header with options, or an invalid one."""
    first = load32(memory, at)
    header = first >> 22 & 0x3C
    total = first & 0xFFFF
    if first >> 28 != 4 or header < IPV4_BYTES or total < header or total > whole:
        return BAD_HEADER
    if header > there:
        return SHORT
    if not _has_sound_options(memory, at + IPV4_BYTES, at + header):
        return BAD_HEADER
    return header if header_is_sound(memory, at, header) else BAD_HEADER


@inline
def _has_sound_options(memory: Bytes, at: int, end: int) -> bool:
    """Whether the options are valid, without a source route, which would bypass the rules (RFC 7126, 4.3, 4.4)."""
    for _ in range(40):
        if at >= end:
            return True
        kind = load8(memory, at)
        if kind == _END:
            return True
        if kind == _NOTHING:
            at += 1
            continue
        if kind in (_LOOSE_ROUTE, _STRICT_ROUTE) or at + 2 > end:
            return False
        length = load8(memory, at + 1)
        if length < 2 or at + length > end:
            return False
        at += length
    return True


@inline
def fragment_fault(fragment: int, payload: int, least: int) -> int:
    """Return BAD_FRAGMENT for an invalid fragment, otherwise SOUND.

    Invalid: empty; not a multiple of 8 although more fragments follow; beyond the largest packet; overlapping the
    transport header of the first fragment (RFC 1858, 3 and 4; RFC 3128).

    Args:
        fragment: the word of flags and offset.
        payload: bytes behind the IP header.
        least: bytes of the transport header that only the first fragment may carry.
    """
    start = (fragment & OFFSET) * 8
    if payload == 0 or start + payload > LARGEST:
        return BAD_FRAGMENT
    if fragment & MORE_FRAGMENTS and payload & 7:
        return BAD_FRAGMENT
    return BAD_FRAGMENT if 0 < start < least else SOUND


@inline
def is_invalid_source(address: int) -> bool:
    """Whether a router drops a source: 0/8, 127/8, 224/3 (RFC 1122, 3.2.1.3), 169.254/16 (RFC 3927, 2.7)."""
    first = address >> 24
    return first == 0 or first == 127 or first >= 224 or address >> 16 == LINK_LOCAL


@inline
def is_invalid_target(address: int) -> bool:
    """Whether a router drops a target: 0/8, 127/8, 169.254/16, 240/4 except the broadcast address."""
    first = address >> 24
    return first == 0 or first == 127 or (first >= 240 and address != 0xFFFF_FFFF) or address >> 16 == LINK_LOCAL


@inline
def is_host(address: int) -> bool:
    """Whether an address is a valid unicast source and target."""
    first = address >> 24
    return 0 < first < 224 and first != 127 and address >> 16 != LINK_LOCAL


@inline
def is_group_address(address: int) -> bool:
    """Whether an address is multicast or the limited broadcast."""
    return address >> 28 == 14 or address == 0xFFFF_FFFF


@inline
def count_down(memory: Bytes, at: int) -> None:
    """Decrement a TTL of at least one and update the checksum."""
    store8(memory, at + 8, load8(memory, at + 8) - 1)
    total = load16(memory, at + 10) + 0x100  # RFC 1141; a sum of 0xffff is 0 (RFC 1624, 3)
    store16(memory, at + 10, total + 1 if total >= 0xFFFF else total)


@inline
def mark(memory: Bytes, at: int, ecn: int) -> None:
    """Write the ECN field and update the checksum."""
    old = load16(memory, at)
    new = old & ~3 | ecn
    store16(memory, at, new)
    store16(memory, at + 10, changed(load16(memory, at + 10), old, new))
