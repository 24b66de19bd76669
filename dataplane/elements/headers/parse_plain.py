"""Fast path of the parser: unfragmented UDP and TCP over IPv4 without options, in one buffer, without outer ECN mark.

Packets of any other kind are left unchanged for `parse.read_any`, which defines what is valid. Both agree on every
packet that the fast path accepts.
"""

from heddle.dataplane.engine.burst import GROUP, NOT_A_FRAGMENT, V4_PREFIX
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.hashing import mixed5
from heddle.dataplane.jit import Bytes, Row, inline
from heddle.dataplane.packet import ethernet, ipv4
from heddle.dataplane.packet.checksum import is_all_ones
from heddle.dataplane.packet.memory import WORD, load8, load16, load32, load64
from heddle.dataplane.packet.transport import FLAGS_AT, SYN, TCP, TCP_BYTES, UDP, UDP_BYTES


@inline
def plain_total(memory: Bytes, at: int, whole: int) -> int:
    """Return the total length of a valid IPv4 header without options, of no fragment; 0 for any other header.

    Args:
        memory: where the packet lies.
        at: first byte of the header, of which all 20 are present.
        whole: bytes from there on.
    """
    first, second = load64(memory, at), load64(memory, at + 8)
    total = first >> 32 & 0xFFFF
    if first >> 56 != ipv4.PLAIN or first & (ipv4.MORE_FRAGMENTS | ipv4.OFFSET) or total > whole:
        return 0
    high, low = (first >> 32 & WORD) + (second >> 32 & WORD), (first & WORD) + (second & WORD)
    return total if is_all_ones(high + low + load32(memory, at + 16)) else 0


@inline
def read_plain(memory: Bytes, packet: Row, seed: int) -> bool:
    """Fill in a row whose `l3` is known; return False, and change nothing, if the packet is not plain."""
    at, length = packet.l3, packet.length
    whole = packet.at + length - at
    if packet.first_length != length or whole < ipv4.IPV4_BYTES + UDP_BYTES:
        return False
    if load16(memory, at - 2) != ethernet.IPV4 or packet.routed == GROUP or packet.outer_ecn > 0:
        return False
    total = plain_total(memory, at, whole)
    source, target, protocol = load32(memory, at + 12), load32(memory, at + 16), load8(memory, at + 9)
    if not ipv4.is_host(source) or not ipv4.is_host(target) or source == target:
        return False
    l4, l4_bytes = at + ipv4.IPV4_BYTES, total - ipv4.IPV4_BYTES
    if not _is_sound(memory, l4, l4_bytes, protocol):
        return False
    ports = load32(memory, l4)
    packet.family = 4
    packet.source_lo = V4_PREFIX | source
    packet.target_lo = V4_PREFIX | target
    packet.protocol = protocol
    packet.l4 = l4
    packet.l4_bytes = l4_bytes
    packet.length = at + total - packet.at
    packet.first_length = at + total - packet.at
    packet.fragment = NOT_A_FRAGMENT
    packet.ports = ports
    packet.hash = mixed5(0, V4_PREFIX | source, 0, V4_PREFIX | target, key_of(ports, protocol, packet.vni), seed)
    return True


@inline
def _is_sound(memory: Bytes, at: int, count: int, protocol: int) -> bool:
    """Whether a UDP or TCP header is valid and fits into its `count` bytes; a SYN's checksum is verified elsewhere."""
    if protocol == UDP:
        return UDP_BYTES <= load16(memory, at + 4) <= count
    if protocol != TCP or count < TCP_BYTES or load8(memory, at + FLAGS_AT) & SYN:
        return False
    return TCP_BYTES <= load8(memory, at + 12) >> 2 & 0x3C <= count
