"""Put frames together: Ethernet, 802.1Q, IPv4, IPv6, UDP and VXLAN headers, and the Internet checksum.

For the few packets that the gateway sends of its own; what it forwards is written by kernels. Addresses are bytes in
network order, 4 or 16 for IP and 6 for MAC. Nothing here is checked: callers hand over what they have read or hold.
"""

import struct
import zlib
from typing import Final

IPV4, ARP, VLAN, IPV6 = 0x0800, 0x0806, 0x8100, 0x86DD
ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
BROADCAST: Final = b"\xff" * 6
VXLAN_PORT = 4789
HOP_LIMIT = 64
CONTROL_DSCP = 0xC0
"""Internetwork control (RFC 1812, 4.3.2.5): the traffic class of ICMP errors."""
_DONT_FRAGMENT = 0x4000
_SOURCE_PORTS = 49_152


def checksum(data: bytes) -> int:
    """Return the Internet checksum of some bytes (RFC 1071), an odd one padded with zero."""
    if len(data) & 1:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ethernet(target: bytes, source: bytes, kind: int, payload: bytes, vlan: int = 0) -> bytes:
    """Return a frame, with an 802.1Q tag of priority 0 where `vlan` is not 0; padding is the port's work."""
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
    """Return the EtherType and the packet, of the family that the addresses have."""
    if len(source) == 4:
        return IPV4, ipv4(source, target, protocol, payload, traffic_class)
    return IPV6, ipv6(source, target, protocol, payload, traffic_class)


def icmp(kind: int, code: int, rest: bytes) -> bytes:
    """Return an ICMPv4 message; `rest` is what follows the checksum (RFC 792)."""
    return struct.pack("!BBH", kind, code, checksum(struct.pack("!BBH", kind, code, 0) + rest)) + rest


def icmpv6(kind: int, code: int, rest: bytes, source: bytes, target: bytes) -> bytes:
    """Return an ICMPv6 message, its checksum over the pseudo-header as well (RFC 4443, 2.3)."""
    pseudo = source + target + struct.pack("!II", 4 + len(rest), ICMPV6)
    return struct.pack("!BBH", kind, code, checksum(pseudo + struct.pack("!BBH", kind, code, 0) + rest)) + rest


def vxlan(vni: int, source: bytes, target: bytes, frame: bytes, traffic_class: int = 0) -> bytes:
    """Return an IPv4 packet that carries a frame through a tunnel (RFC 7348, 5).

    The UDP checksum is 0; the source port is of the frame's addresses, so that the parts of one packet keep to one
    path.
    """
    port = _SOURCE_PORTS | zlib.crc32(frame[:14] + frame[26:34]) & 0x3FFF
    head = struct.pack("!HHHHII", port, VXLAN_PORT, 16 + len(frame), 0, 0x08000000, vni << 8)
    return ipv4(source, target, UDP, head + frame, traffic_class)
