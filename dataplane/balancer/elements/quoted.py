"""The packet that an ICMP error quotes: its flow, as the packets in the other direction have it.

An error about a packet that a virtual IP sent comes from any router of the path, and its ports are in the quote only.
It must reach the back end that sent the packet (path MTU discovery, RFC 1191), so it is routed by the connection whose
packets have source and target of the quoted one exchanged. An error whose quote is not from the address that it is sent
to, is a fragment, or has a wrong IPv4 checksum, is of no flow (RFC 5508, REQ-3).
"""

from heddle.dataplane.balancer.tables.schema import ROCE_PORT
from heddle.dataplane.engine.burst import V4_PREFIX
from heddle.dataplane.gateway.memory.connections import swapped
from heddle.dataplane.jit import Bytes, Row, element
from heddle.dataplane.packet.checksum import header_is_sound
from heddle.dataplane.packet.ipv4 import IPV4_BYTES, OFFSET
from heddle.dataplane.packet.ipv6 import IPV6_BYTES
from heddle.dataplane.packet.memory import load8, load16, load32, load64
from heddle.dataplane.packet.transport import TCP, UDP

ICMP_BYTES = 8
"""Of ICMP in front of the quote; also the least number of bytes that are quoted of the transport header."""
NO_QUOTE = -1


@element
def quoted_transport(memory: Bytes, packet: Row) -> int:
    """Return the offset of the quoted transport header, of which eight bytes are there; or NO_QUOTE."""
    at = packet.l4 + ICMP_BYTES
    end = min(packet.l4 + packet.l4_bytes, packet.at + packet.first_length)
    if packet.family == 4:
        if at + IPV4_BYTES > end or load8(memory, at) >> 4 != 4:
            return NO_QUOTE
        header = (load8(memory, at) & 15) * 4
        if header < IPV4_BYTES or at + header + ICMP_BYTES > end or not header_is_sound(memory, at, header):
            return NO_QUOTE
        if load16(memory, at + 6) & OFFSET or V4_PREFIX | load32(memory, at + 12) != packet.target_lo:
            return NO_QUOTE
        return at + header if load8(memory, at + 9) in (TCP, UDP) else NO_QUOTE
    if at + IPV6_BYTES + ICMP_BYTES > end or load8(memory, at) >> 4 != 6 or load8(memory, at + 6) not in (TCP, UDP):
        return NO_QUOTE
    if load64(memory, at + 8) != packet.target_hi or load64(memory, at + 16) != packet.target_lo:
        return NO_QUOTE
    return at + IPV6_BYTES


@element
def become_flow(memory: Bytes, packet: Row, transport: int) -> None:
    """Give an error's row source, ports and protocol of the flow that it is about; its bytes stay."""
    at = packet.l4 + ICMP_BYTES
    ports = swapped(load32(memory, transport))
    if packet.family == 4:
        packet.source_hi = 0
        packet.source_lo = V4_PREFIX | load32(memory, at + 16)
        packet.protocol = load8(memory, at + 9)
    else:
        packet.source_hi = load64(memory, at + 24)
        packet.source_lo = load64(memory, at + 32)
        packet.protocol = load8(memory, at + 6)
    # A RoCEv2 packet has the port as its target in both directions.
    is_roce = packet.protocol == UDP and (ports & 0xFFFF == ROCE_PORT or ports >> 16 == ROCE_PORT)
    packet.ports = ROCE_PORT if is_roce else ports
