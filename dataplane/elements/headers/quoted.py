"""The packet that an ICMP error quotes.

    IP | ICMP type 8, code 8, checksum 16, rest 32 | IP header of the packet | 8 bytes of it at least

A quote that is not of a packet from the address that the error is sent to, that is a later fragment, or whose IPv4
header has a wrong checksum, is of no flow (RFC 5508, REQ-3). IPv4 options and IPv6 extension headers are passed over:
a Packet Too Big about a fragment quotes its fragment header (RFC 8200, 4.5).
"""

from heddle.dataplane.engine.burst import V4_PREFIX
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import ipv6
from heddle.dataplane.packet.checksum import header_is_sound
from heddle.dataplane.packet.ipv4 import IPV4_BYTES, OFFSET
from heddle.dataplane.packet.memory import load8, load16, load32, load64
from heddle.dataplane.packet.transport import ICMP_BYTES

NO_QUOTE = -1


@element
def quoted_transport(memory: Bytes, packet: Row) -> tuple[int, int]:
    """Return offset and protocol of the quoted transport header, of which eight bytes are there; or NO_QUOTE and 0."""
    at = packet.l4 + ICMP_BYTES
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    if packet.family == 4:
        if at + IPV4_BYTES > end or load8(memory, at) >> 4 != 4:
            return NO_QUOTE, 0
        header = (load8(memory, at) & 15) * 4
        if header < IPV4_BYTES or at + header + ICMP_BYTES > end or not header_is_sound(memory, at, header):
            return NO_QUOTE, 0
        if load16(memory, at + 6) & OFFSET or V4_PREFIX | load32(memory, at + 12) != packet.target_lo:
            return NO_QUOTE, 0
        return at + header, load8(memory, at + 9)
    if at + ipv6.IPV6_BYTES > end or load8(memory, at) >> 4 != 6:
        return NO_QUOTE, 0
    if load64(memory, at + 8) != packet.target_hi or load64(memory, at + 16) != packet.target_lo:
        return NO_QUOTE, 0
    return _behind_extensions(memory, at, end)


@inline
def _behind_extensions(memory: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return offset and protocol of the transport header of the IPv6 packet at `at`; or NO_QUOTE and 0."""
    protocol, at = load8(memory, at + 6), at + ipv6.IPV6_BYTES
    for _ in range(ipv6.MAX_HEADERS + 1):
        if protocol == ipv6.FRAGMENT:
            following = at + ipv6.FRAGMENT_BYTES
            if following > end or load16(memory, at + 2) & ipv6.OFFSET:
                return NO_QUOTE, 0
        elif ipv6.is_extension(protocol):
            following = ipv6.behind(memory, at, end, protocol, True)
            if following < 0:
                return NO_QUOTE, 0
        elif at + ICMP_BYTES > end:
            return NO_QUOTE, 0
        else:
            return at, protocol
        protocol, at = load8(memory, at), following
    return NO_QUOTE, 0


@inline
def quoted_target(memory: Bytes, packet: Row) -> tuple[int, int]:
    """Return both words of the address that the quoted packet was sent to."""
    at = packet.l4 + ICMP_BYTES
    if packet.family == 4:
        return 0, V4_PREFIX | load32(memory, at + 16)
    return load64(memory, at + 24), load64(memory, at + 32)
