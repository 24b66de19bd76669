"""Read the IPv4 header of an accepted packet."""

from heddle.dataplane.elements.headers.arrival import fail
from heddle.dataplane.elements.headers.flow import ends_at, finish, fragment_kind
from heddle.dataplane.engine.burst import GROUP, NOT_A_FRAGMENT, V4_PREFIX, drop
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import ipv4
from heddle.dataplane.packet.ecn import LOST, decapsulated
from heddle.dataplane.packet.faults import SOUND
from heddle.dataplane.packet.memory import load8, load16, load32
from heddle.dataplane.packet.transport import TCP, TCP_BYTES


@inline
def read_ipv4(memory: Bytes, packet: Row, seed: int) -> None:
    """Fill in a row whose `l3` is an IPv4 header by the frame's type, or drop the packet."""
    at = packet.l3
    header = ipv4.header_of(memory, at, packet.at + packet.first_length - at, packet.at + packet.length - at)
    if header < 0:
        fail(packet, header)
        return
    source, target = load32(memory, at + 12), load32(memory, at + 16)
    protocol, l4, l4_bytes = load8(memory, at + 9), at + header, load16(memory, at + 2) - header
    word = load16(memory, at + 6)
    fragment = fragment_kind(word & ipv4.OFFSET, word & ipv4.MORE_FRAGMENTS)
    packet.family = 4
    packet.source_lo = V4_PREFIX | source
    packet.target_lo = V4_PREFIX | target
    packet.protocol = protocol
    packet.l4 = l4
    packet.l4_bytes = l4_bytes
    packet.fragment = fragment
    is_reserved = protocol == 0  # IPv6 hop-by-hop; without ports and VNI its key would equal that of a free row
    if is_reserved or not ends_at(packet, l4 + l4_bytes):
        drop(packet, Drop.BAD_IP_HEADER)
    elif ipv4.is_group_address(target) or packet.routed == GROUP:
        drop(packet, Drop.BROADCAST)
    elif ipv4.is_invalid_source(source) or ipv4.is_invalid_target(target) or source == target:
        drop(packet, Drop.MARTIAN)
    elif (fragment == NOT_A_FRAGMENT or _is_sound_fragment(memory, packet)) and (
        packet.outer_ecn <= 0 or _take_mark(memory, packet)
    ):
        finish(memory, packet, l4, l4_bytes, protocol, fragment, seed)


@element
def _is_sound_fragment(memory: Bytes, packet: Row) -> bool:
    """Fill in the fragment's identification; return False, and drop the packet, if the fragment is invalid."""
    word = load16(memory, packet.l3 + 6)
    packet.fragment_id = load16(memory, packet.l3 + 4) | packet.protocol << 32
    fault = ipv4.fragment_fault(word, packet.l4_bytes, TCP_BYTES if packet.protocol == TCP else 0)
    if fault != SOUND:
        fail(packet, fault)
        return False
    return True


@element
def _take_mark(memory: Bytes, packet: Row) -> bool:
    """Apply the ECN mark of the outer header; return False if the packet is dropped for it."""
    inner = load8(memory, packet.l3 + 1) & 3
    merged = decapsulated(inner, packet.outer_ecn)
    if merged == LOST:
        drop(packet, Drop.ECN_MISMATCH)
        return False
    if merged != inner:
        ipv4.mark(memory, packet.l3, merged)
    return True
