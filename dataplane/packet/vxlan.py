"""VXLAN over IPv4 (RFC 7348, 5): read, check and remove outer headers, and write them from a template.

     0          14                     34        42                    50
    +----------+----------------------+---------+---------------------+-------------
    | Ethernet | IPv4, DF             | UDP     | 08 00 00 00  VNI 00 | inner frame
    +----------+----------------------+---------+---------------------+-------------

Only the I flag is checked; the others are ignored on receipt. A non-zero UDP checksum is accepted without
verification, as section 5 allows; the gateway sends 0. The source port is a hash of the inner flow, so that switches
spread flows over paths.

A template is these 50 bytes for one VNI and VTEP: MACs, addresses, TTL, DF, target port and VNI are set; type of
service, lengths and source port are 0, and the header checksum matches.
"""

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.checksum import grown
from heddle.dataplane.packet.faults import BAD_HEADER, SHORT
from heddle.dataplane.packet.memory import copy, load16, load32, store8, store16

VXLAN_PORT = 4789
OUTER_BYTES, VXLAN_BYTES, UDP_BYTES = 50, 8, 8
FIRST_PORT, PORT_BITS = 49152, 14
"""Source ports are dynamic ports (RFC 6335, 6)."""
HAS_VNI = 0x0800_0000


@inline
def inner_of(memory: Bytes, at: int, there: int, count: int) -> int:
    """Return the offset from the UDP header at `at` to the inner frame, or a fault; the port has been checked.

    Args:
        memory: where the packet lies.
        at: first byte of the UDP header.
        there: bytes from there on in the packet's first buffer.
        count: bytes of UDP header and payload by the IP header.

    Returns:
        16; SHORT; BAD_HEADER for a missing I flag or an invalid UDP length.
    """
    if count < UDP_BYTES + VXLAN_BYTES or there < UDP_BYTES + VXLAN_BYTES:
        return SHORT
    length = load16(memory, at + 4)
    if length < UDP_BYTES + VXLAN_BYTES or length > count or not has_vni(memory, at):
        return BAD_HEADER
    return UDP_BYTES + VXLAN_BYTES


@inline
def has_vni(memory: Bytes, at: int) -> bool:
    """Whether the VXLAN header behind the UDP header at `at` has the I flag."""
    return load32(memory, at + UDP_BYTES) & HAS_VNI != 0


@inline
def vni_of(memory: Bytes, at: int) -> int:
    """Return the VNI behind the UDP header at `at`."""
    return load32(memory, at + UDP_BYTES + 4) >> 8


@inline
def encapsulate(
    memory: Bytes, at: int, length: int, templates: Bytes, template: int, service: int, entropy: int
) -> None:
    """Write the 50 bytes of outer headers in front of an inner frame; the space must exist.

    Args:
        memory: where the frame lies.
        at: first byte of the inner frame.
        length: of the whole inner frame, at most 65,499.
        templates: the bytes of all templates.
        template: first byte of the template.
        service: DSCP and ECN of the inner IP header, copied to the outer one (RFC 6040, 4.1).
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
