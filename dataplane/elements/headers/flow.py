"""The parts of header parsing that IPv4 and IPv6 share: the end of the packet, fragments, ports and the flow hash."""

from typing import Any

from heddle.dataplane.elements.headers.arrival import fail
from heddle.dataplane.engine.burst import FIRST_FRAGMENT, LATER_FRAGMENT, NOT_A_FRAGMENT, drop
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.hashing import mixed5
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.checksum import folded, sum_of
from heddle.dataplane.packet.memory import WORD, load8
from heddle.dataplane.packet.transport import FLAGS_AT, ICMP, ICMPV6, SYN, TCP, is_icmp_error, ports_of


@inline
def ends_at(packet: Row, end: int) -> bool:
    """End the frame where its IP packet ends; return False if it lies in several buffers and continues beyond that."""
    if packet.first_length == packet.length:
        packet.first_length = end - packet.at
        packet.length = end - packet.at
        return True
    return packet.length == end - packet.at


@inline
def fragment_kind(offset: int, has_more: int) -> int:
    """Return NOT_A_FRAGMENT, FIRST_FRAGMENT or LATER_FRAGMENT."""
    if offset != 0:
        return LATER_FRAGMENT
    return FIRST_FRAGMENT if has_more != 0 else NOT_A_FRAGMENT


@inline
def finish(memory: Bytes, packet: Row, l4: int, l4_bytes: int, protocol: int, fragment: int, seed: int) -> None:
    """Fill in the ports and the hash of a packet, or drop it for a faulty transport header.

    A later fragment has no ports; they are filled in when its first fragment is found. The checksum of TCP segments
    that open a connection is verified: it is wrong where the sender's interface leaves checksums to hardware that it
    does not have. `l4` to `fragment` are the fields of the row; `seed` is the seed of the hash.
    """
    if fragment != LATER_FRAGMENT:
        end = packet.at + packet.first_length
        ports = ports_of(memory, l4, l4_bytes, end, protocol, fragment == NOT_A_FRAGMENT)
        if ports < 0:
            fail(packet, ports)
            return
        packet.ports = ports
        opens = protocol == TCP and fragment == NOT_A_FRAGMENT and load8(memory, l4 + FLAGS_AT) & SYN != 0
        if opens and not _segment_is_sound(memory, packet, l4, l4_bytes):
            drop(packet, Drop.BAD_CHECKSUM)
            return
    packet.hash = hash_of(packet, seed)


@element
def _segment_is_sound(memory: Bytes, packet: Row, l4: int, l4_bytes: int) -> bool:
    """Whether a TCP segment has a correct checksum (RFC 9293, 3.1); true if it lies in several buffers.

    IPv4 addresses are summed in their mapped form, whose prefix ::ffff adds 0 to a ones' complement sum.
    """
    if l4 + l4_bytes > packet.at + packet.first_length:
        return True
    total = sum_of(memory, l4, l4_bytes) + l4_bytes + TCP
    total += _halves(packet.source_hi) + _halves(packet.source_lo)
    total += _halves(packet.target_hi) + _halves(packet.target_lo)
    return folded(total) == 0xFFFF


@inline
def _halves(word: int) -> int:
    """Return the sum of both halves of a word of 64 bits."""
    return (word >> 32 & WORD) + (word & WORD)


@inline
def hash_of(packet: Row, seed: int) -> Any:
    """Return the flow hash of a packet, which selects the bucket of its connection."""
    key = key_of(packet.ports, packet.protocol, packet.vni)
    return mixed5(packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key, seed)


@inline
def is_error(memory: Bytes, packet: Row) -> bool:
    """Return whether a packet is an ICMP error."""
    if (packet.protocol != ICMP and packet.protocol != ICMPV6) or packet.fragment == LATER_FRAGMENT:
        return False
    return is_icmp_error(memory, packet.l4, packet.protocol)
