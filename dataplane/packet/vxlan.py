"""VXLAN over IPv4 (RFC 7348, 5): outer headers read and checked, taken off, put on from a template.

     0          14                     34        42                    50
    +----------+----------------------+---------+---------------------+-------------
    | Ethernet | IPv4, DF             | UDP     | 08 00 00 00  VNI 00 | inner frame
    +----------+----------------------+---------+---------------------+-------------

Of the flags only I is looked at: the others are ignored on receipt. A UDP checksum that is not zero is accepted
unread, as section 5 allows; ours is zero. The source port is the inner flow's, so that switches spread flows.

A template is those 50 bytes with the MACs, addresses, TTL, DF, target port and VNI of one way to one VTEP, type of
service, lengths and source port 0, and the header checksum that is right for that.
"""

from dataplane.jit import Bytes, inline
from dataplane.packet.checksum import grown
from dataplane.packet.faults import BAD_HEADER, SHORT
from dataplane.packet.memory import copy, load16, load32, store8, store16

VXLAN_PORT = 4789
OUTER_BYTES, VXLAN_BYTES, UDP_BYTES = 50, 8, 8
FIRST_PORT, PORT_BITS = 49152, 14
"""Source ports are the dynamic ones (RFC 6335, 6)."""
HAS_VNI = 0x0800_0000


@inline
def inner_of(memory: Bytes, at: int, there: int, count: int) -> int:
    """Return the offset from the UDP header at `at` to the inner frame, or a fault; the port is known to be VXLAN's.

    Args:
        memory: where the packet lies.
        at: first byte of the UDP header.
        there: bytes from there on in the packet's first buffer.
        count: bytes of UDP header and payload by the IP header.

    Returns:
        16, SHORT, or BAD_HEADER where the I flag is missing or the UDP length is none.
    """
    if count < UDP_BYTES + VXLAN_BYTES or there < UDP_BYTES + VXLAN_BYTES:
        return SHORT
    length = load16(memory, at + 4)
    if length < UDP_BYTES + VXLAN_BYTES or length > count or not has_vni(memory, at):
        return BAD_HEADER
    return UDP_BYTES + VXLAN_BYTES


@inline
def has_vni(memory: Bytes, at: int) -> bool:
    """Whether the UDP packet at `at` says that it has one."""
    return load32(memory, at + UDP_BYTES) & HAS_VNI != 0


@inline
def vni_of(memory: Bytes, at: int) -> int:
    """Return the VNI of the UDP packet at `at`."""
    return load32(memory, at + UDP_BYTES + 4) >> 8


@inline
def encapsulate(
    memory: Bytes, at: int, length: int, templates: Bytes, template: int, service: int, entropy: int
) -> None:
    """Write the outer headers in front of an inner frame: 50 bytes, which must be there.

    Args:
        memory: where the frame lies.
        at: first byte of the inner frame.
        length: of the whole inner frame, at most 65,499.
        templates: the bytes of all templates.
        template: first byte of this one.
        service: DSCP and ECN of the inner IP header; the outer one gets them as they are (RFC 6040, 4.1).
        entropy: a hash of the inner flow.
    """
    outer = at - OUTER_BYTES
    copy(memory, outer, templates, template, OUTER_BYTES)
    total = length + OUTER_BYTES - 14
    store8(memory, outer + 15, service)
    store16(memory, outer + 16, total)
    store16(memory, outer + 24, grown(load16(templates, template + 24), total + service))
    store16(memory, outer + 34, FIRST_PORT | entropy & ((1 << PORT_BITS) - 1))
    store16(memory, outer + 38, total - 20)
