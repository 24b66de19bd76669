"""Ethernet II and 802.1Q.

 0             6             12     14
+-------------+-------------+------+---------
| target MAC  | source MAC  | type | payload        802.1Q, 9.6: between source and type, 0x8100 and
+-------------+-------------+------+---------       priority 3 | drop eligible 1 | VLAN 12
"""

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.memory import WORD, load8, load16, load32, load64, store16, store32, store64

ETHERNET_BYTES, TAGGED_BYTES = 14, 18
IPV4, ARP, VLAN, IPV6, SERVICE_VLAN = 0x0800, 0x0806, 0x8100, 0x86DD, 0x88A8
VLAN_MASK = 0xFFF
_MAC = 0xFFFF_FFFF_FFFF


@inline
def target_mac(memory: Bytes, at: int) -> int:
    """Return the destination address, 48 bits; reads 8 bytes."""
    return load64(memory, at) >> 16 & _MAC


@inline
def source_mac(memory: Bytes, at: int) -> int:
    """Return the source address, 48 bits."""
    return load16(memory, at + 6) << 32 | load32(memory, at + 8)


@inline
def is_group(memory: Bytes, at: int) -> bool:
    """Whether the destination is a group address (IEEE 802, 8.2.2: the first bit on the wire)."""
    return load8(memory, at) & 1 != 0


@inline
def write_header(memory: Bytes, at: int, target: int, source: int, kind: int) -> None:
    """Write an Ethernet header, 14 bytes."""
    store64(memory, at, target << 16 | source >> 32)
    store32(memory, at + 8, source & WORD)
    store16(memory, at + 12, kind)


@inline
def write_tagged_header(memory: Bytes, at: int, target: int, source: int, vlan: int, kind: int) -> None:
    """Write an Ethernet header with an 802.1Q tag of priority 0, 18 bytes."""
    store64(memory, at, target << 16 | source >> 32)
    store32(memory, at + 8, source & WORD)
    store32(memory, at + 12, VLAN << 16 | vlan)
    store16(memory, at + 16, kind)
