"""Build frames: Ethernet, 802.1Q, IPv4, IPv6, UDP and VXLAN headers, and the Internet checksum.

Used for packets that the gateway originates; compiled kernels write the packets that it forwards. Addresses are bytes
in network order, 4 or 16 for IP and 6 for MAC. Arguments are not validated.
"""

import struct
import zlib
from typing import Final

from heddle.dataplane.packet.checksum import checksum
from heddle.dataplane.packet.ethernet import IPV4, IPV6, VLAN
from heddle.dataplane.packet.transport import ICMPV6, UDP
from heddle.dataplane.packet.vxlan import VXLAN_PORT

BROADCAST: Final = b"\xff" * 6
HOP_LIMIT = 64
CONTROL_DSCP = 0xC0
"""Internetwork control (RFC 1812, 4.3.2.5): the traffic class of ICMP errors."""
_DONT_FRAGMENT = 0x4000
_SOURCE_PORTS = 49_152


def ethernet(target: bytes, source: bytes, kind: int, payload: bytes, vlan: int = 0) -> bytes:
    """Return a frame, with an 802.1Q tag of priority 0 if `vlan` is not 0; the port pads it."""
    tag = struct.pack("!HH", VLAN, vlan) if vlan else b""
    return target + source + tag + kind.to_bytes(2, "big") + payload


def ipv4(source: bytes, target: bytes, protocol: int, payload: bytes, traffic_class: int = 0) -> bytes:
    """Return an atomic IPv4 packet (RFC 6864, 4): DF set, identification 0."""
    head = struct.pack("!BBHHHBBH", 0x45, traffic_class, 20 + len(payload), 0, _DONT_FRAGMENT, HOP_LIMIT, protocol, 0)
    head += source + target
    return head[:10] + checksum(head).to_bytes(2, "big") + head[12:] + payload


def ipv6(
    source: bytes, target: bytes, protocol: int, payload: bytes, traffic_class: int = 0, hops: int = HOP_LIMIT
) -> bytes:
    """Return an IPv6 packet without extension headers."""
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20, len(payload), protocol, hops) + source + target + payload


def ip(source: bytes, target: bytes, protocol: int, payload: bytes, traffic_class: int = 0) -> tuple[int, bytes]:
    """Return EtherType and packet, of the addresses' family."""
    if len(source) == 4:
        return IPV4, ipv4(source, target, protocol, payload, traffic_class)
    return IPV6, ipv6(source, target, protocol, payload, traffic_class)


def icmp(kind: int, code: int, rest: bytes) -> bytes:
    """Return an ICMPv4 message; `rest` is what follows the checksum (RFC 792)."""
    return struct.pack("!BBH", kind, code, checksum(struct.pack("!BBH", kind, code, 0) + rest)) + rest


def icmpv6(kind: int, code: int, rest: bytes, source: bytes, target: bytes) -> bytes:
    """Return an ICMPv6 message; its checksum covers the pseudo-header (RFC 4443, 2.3)."""
    pseudo = source + target + struct.pack("!II", 4 + len(rest), ICMPV6)
    return struct.pack("!BBH", kind, code, checksum(pseudo + struct.pack("!BBH", kind, code, 0) + rest)) + rest


def vxlan(vni: int, source: bytes, target: bytes, frame: bytes, traffic_class: int = 0) -> bytes:
    """Return the VXLAN packet (RFC 7348, 5) that carries a frame.

    The UDP checksum is 0. The source port is a hash of the frame's addresses, so that all fragments of a packet take
    one path.
    """
    port = _SOURCE_PORTS | zlib.crc32(frame[:14] + frame[26:34]) & 0x3FFF
    head = struct.pack("!HHHHII", port, VXLAN_PORT, 16 + len(frame), 0, 0x08000000, vni << 8)
    return ipv4(source, target, UDP, head + frame, traffic_class)
