"""IPv6 (RFC 8200): validity of header and addresses, the chain of extension headers, hop limit and ECN.

     0    4          12    16          24         31
    +----+----------+-----+-----------+----------+
    |6   | class    | flow label                 |
    +----+----------+-----+-----------+----------+
    | payload length      |next header|hop limit |
    +---------------------+-----------+----------+
    | source 128, target 128                     |
    +--------------------------------------------+

Extension headers: next header 8 | bytes / 8 - 1 (of AH: bytes / 4 - 2) | ...; the fragment header is
next header 8 | reserved 8 | offset / 8 13 | reserved 2 | more 1 | identification 32.
"""

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.faults import BAD_FRAGMENT, BAD_HEADER, SHORT, SOUND
from heddle.dataplane.packet.memory import WORD, load8, load16, load32, store8, store16

IPV6_BYTES, FRAGMENT_BYTES = 40, 8
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, NO_NEXT, OPTIONS, MOBILITY = 0, 43, 44, 51, 59, 60, 135
MAX_HEADERS = 8
"""Extension headers in a chain. RFC 8200, 4.1 defines seven; a longer chain is an attack (RFC 8504, 5.3)."""
OFFSET, MORE = 0xFFF8, 1
_MAPPED = 0xFFFF


@inline
def header_fault(memory: Bytes, at: int, there: int, whole: int) -> int:
    """Return SOUND, SHORT or BAD_HEADER for the 40 bytes at `at`; arguments as in `ipv4.header_of`."""
    if there < IPV6_BYTES:
        return SHORT
    if load8(memory, at) >> 4 != 6 or IPV6_BYTES + load16(memory, at + 4) > whole:
        return BAD_HEADER
    return SOUND


@inline
def is_extension(protocol: int) -> bool:
    """Whether a next-header number is an extension header that continues the chain, other than the fragment header."""
    return protocol in (HOP_BY_HOP, ROUTING, OPTIONS, AUTHENTICATION, MOBILITY)


@inline
def behind(memory: Bytes, at: int, end: int, protocol: int, is_first: bool) -> int:
    """Return the first byte behind an extension header, or a fault.

    A routing header of type 0 with segments left is refused (RFC 5095), and so is a hop-by-hop header that is not
    first.
    """
    if at + 8 > end:
        return SHORT
    if protocol == HOP_BY_HOP and not is_first:
        return BAD_HEADER
    if protocol == ROUTING and load8(memory, at + 2) == 0 and load8(memory, at + 3) != 0:
        return BAD_HEADER
    count = load8(memory, at + 1)
    following = at + ((count + 2) * 4 if protocol == AUTHENTICATION else (count + 1) * 8)
    return following if following <= end else SHORT


@inline
def fragment_fault(fragment: int, payload: int, least: int) -> int:
    """Return BAD_FRAGMENT for an invalid fragment (see `ipv4.fragment_fault`), otherwise SOUND.

    Args:
        fragment: the word of offset and flags.
        payload: bytes behind the fragment header.
        least: bytes of the transport header that only the first fragment may carry (RFC 7112).
    """
    start = fragment & OFFSET
    if payload == 0 or start + payload > 65535:
        return BAD_FRAGMENT
    if fragment & MORE and payload & 7:
        return BAD_FRAGMENT
    return BAD_FRAGMENT if 0 < start < least else SOUND


@inline
def is_reserved(high: int, low: int) -> bool:
    """Whether no packet may have an address: ::/96, which includes :: and ::1, and the IPv4-mapped ::ffff:0:0/96.

    IPv4-mapped addresses (RFC 6890, 2.2.3) must be refused because they would equal IPv4 addresses in table keys.
    """
    upper = low >> 32 & WORD
    return high == 0 and (upper == 0 or upper == _MAPPED)


@inline
def is_group_address(high: int) -> bool:
    """Whether an address is multicast."""
    return high >> 56 & 0xFF == 0xFF


@inline
def is_link_local(high: int) -> bool:
    """Whether an address is within fe80::/10, which routers do not forward (RFC 4291, 2.5.6)."""
    return high >> 54 & 0x3FF == 0x3FA


@inline
def count_down(memory: Bytes, at: int) -> None:
    """Decrement a hop limit of at least one."""
    store8(memory, at + 7, load8(memory, at + 7) - 1)


@inline
def mark(memory: Bytes, at: int, ecn: int) -> None:
    """Write the ECN field."""
    store16(memory, at, load16(memory, at) & ~0x30 | ecn << 4)


@inline
def traffic_class(memory: Bytes, at: int) -> int:
    """Return DSCP << 2 | ECN."""
    return load16(memory, at) >> 4 & 0xFF


@inline
def identification(memory: Bytes, at: int) -> int:
    """Return the identification of a fragment header."""
    return load32(memory, at + 4)
