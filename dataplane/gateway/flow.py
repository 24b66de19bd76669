"""What reading a packet has in common for both families: where it ends, its mark, its ports and its hash."""

from dataplane.engine.burst import FIRST_FRAGMENT, LATER_FRAGMENT, NOT_A_FRAGMENT
from dataplane.engine.hashing import mixed5
from dataplane.gateway.arrival import fail
from dataplane.jit import Bytes, Row, inline
from dataplane.packet.transport import ports_of


@inline
def ends_at(packet: Row, end: int) -> bool:
    """Let the frame end where its IP packet does; false where it lies in several buffers and goes on behind that."""
    if packet.first_length == packet.length:
        packet.first_length = end - packet.at
        packet.length = end - packet.at
        return True
    return packet.length == end - packet.at


@inline
def fragment_kind(offset: int, has_more: int) -> int:
    """Return which part of a packet it is."""
    if offset != 0:
        return LATER_FRAGMENT
    return FIRST_FRAGMENT if has_more != 0 else NOT_A_FRAGMENT


@inline
def finish(memory: Bytes, packet: Row) -> None:
    """Fill in ports and hash of a packet whose IP header was read, or drop it for its transport header.

    A later fragment has no ports; whoever finds its first one fills them in.
    """
    if packet.fragment != LATER_FRAGMENT:
        end = packet.at + packet.first_length
        is_whole = packet.fragment == NOT_A_FRAGMENT
        ports = ports_of(memory, packet.l4, packet.l4_bytes, end, packet.protocol, is_whole)
        if ports < 0:
            fail(packet, ports)
            return
        packet.ports = ports
    packet.hash = mixed5(
        packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, packet.ports << 8 | packet.protocol
    )
