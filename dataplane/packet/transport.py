"""The fields of TCP, UDP and ICMP that a gateway reads: lengths, ports, and the identifier of a query.

UDP   source port 16 | target port 16 | length 16 | checksum 16
TCP   source port 16 | target port 16 | sequence 32 | acknowledgement 32 | offset 4 | flags 12 | window 16
      | checksum 16 | urgent 16 | options
ICMP  type 8 | code 8 | checksum 16 | identifier 16 | sequence number 16       (queries; also ICMPv6 echo)
"""

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.faults import BAD_FRAGMENT, BAD_TRANSPORT, SHORT
from heddle.dataplane.packet.memory import load8, load16, load32

ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
UDP_BYTES, TCP_BYTES, ICMP_BYTES = 8, 20, 8
ECHO_REPLY, UNREACHABLE, REDIRECT, ECHO_REQUEST, TIME_EXCEEDED, PARAMETER_PROBLEM = 0, 3, 5, 8, 11, 12
TIMESTAMP, MASK_REPLY = 13, 18
"""The first and the last of ICMP's other query and reply types (RFC 792, 950)."""
V6_ECHO_REQUEST, V6_ECHO_REPLY, V6_FIRST_INFORMATIONAL = 128, 129, 128
ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT, V6_REDIRECT = range(
    133, 138
)
"""Neighbour discovery's types (RFC 4861, 4)."""
TCP_CHECKSUM, UDP_CHECKSUM, ICMP_CHECKSUM = 16, 6, 2
"""Offsets of the checksum in the header."""
FLAGS_AT = 13
FIN, SYN, RST, ACK = 1, 2, 4, 16
"""TCP's flags, and their offset in the header (RFC 9293, 3.1)."""


@inline
def ports_of(memory: Bytes, at: int, count: int, end: int, protocol: int, is_whole: bool) -> int:
    """Return source port << 16 | target port; for an ICMP query see `query_ports`; 0 for other protocols.

    Args:
        memory: where the packet lies.
        at: first byte of the transport header.
        count: bytes of header and payload, by the IP header.
        end: first byte behind the packet's first buffer.
        protocol: IANA number.
        is_whole: false for the first of several fragments.

    Returns:
        The word, or a negative fault: SHORT, BAD_TRANSPORT, BAD_FRAGMENT.
    """
    if protocol == UDP:
        if count < UDP_BYTES or at + UDP_BYTES > end:
            return SHORT
        length = load16(memory, at + 4)
        if length < UDP_BYTES or (is_whole and length > count):
            return BAD_TRANSPORT
        return load32(memory, at)
    if protocol == TCP:
        if count < TCP_BYTES or at + TCP_BYTES > end:
            return SHORT if is_whole else BAD_FRAGMENT
        header = load8(memory, at + 12) >> 2 & 0x3C
        if header < TCP_BYTES or (is_whole and header > count):
            return BAD_TRANSPORT
        return load32(memory, at)
    if protocol in (ICMP, ICMPV6):
        if count < ICMP_BYTES or at + ICMP_BYTES > end:
            return SHORT
        return query_ports(memory, at, protocol)
    return 0


@inline
def query_ports(memory: Bytes, at: int, protocol: int) -> int:
    """Return the identifier of an ICMP query as a port: a request's as source, a reply's as target; otherwise 0.

    A reply thus has the ports of its request exchanged, but a request in the other direction has not: a remote host
    that pings with the identifier of our own ping opens a connection of its own.
    """
    kind = load8(memory, at)
    if not is_query(kind, protocol):
        return 0
    identifier = load16(memory, at + 4)
    return identifier << 16 if is_request(kind) else identifier


@inline
def is_request(kind: int) -> bool:
    """Whether an ICMP query's type is a request."""
    return kind in (ECHO_REQUEST, V6_ECHO_REQUEST) or (TIMESTAMP <= kind <= MASK_REPLY and kind & 1 == 1)


@inline
def is_query(kind: int, protocol: int) -> bool:
    """Whether an ICMP type is a request or reply with an identifier; of ICMPv6 only echo."""
    if protocol == ICMP:
        return kind in (ECHO_REQUEST, ECHO_REPLY) or TIMESTAMP <= kind <= MASK_REPLY
    return kind in (V6_ECHO_REQUEST, V6_ECHO_REPLY)


@inline
def is_icmp_error(memory: Bytes, at: int, protocol: int) -> bool:
    """Whether the header at `at`, known to be present, is an ICMP error or redirect, which gets no ICMP error."""
    if protocol == ICMP:
        kind = load8(memory, at)
        return kind == UNREACHABLE or (REDIRECT - 1 <= kind <= REDIRECT) or TIME_EXCEEDED <= kind <= PARAMETER_PROBLEM
    return protocol == ICMPV6 and (load8(memory, at) < V6_FIRST_INFORMATIONAL or load8(memory, at) == V6_REDIRECT)


@inline
def checksum_at(protocol: int) -> int:
    """Return the offset of a protocol's checksum in its header, or -1."""
    if protocol == TCP:
        return TCP_CHECKSUM
    if protocol == UDP:
        return UDP_CHECKSUM
    return ICMP_CHECKSUM if protocol in (ICMP, ICMPV6) else -1
