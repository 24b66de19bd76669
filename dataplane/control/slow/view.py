"""Parse frames from untrusted senders: a truncated or malformed header returns None, and nothing raises.

```
0                   1                   2                   3        IPv4, RFC 791, 3.1
|Version|  IHL  |      TOS      |          Total Length         |
|         Identification        |Flags|      Fragment Offset    |
|  Time to Live |    Protocol   |         Header Checksum       |
|                       Source, Destination                     |
```
"""

import struct
from typing import NamedTuple

from heddle.dataplane.packet.checksum import checksum
from heddle.dataplane.packet.ethernet import IPV4, IPV6, VLAN

_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _OPTIONS, _MOBILITY = 0, 43, 44, 51, 60, 135
_EXTENSIONS = frozenset((_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _OPTIONS, _MOBILITY))
_MAX_EXTENSIONS = 8


class EthernetFrame(NamedTuple):
    """An Ethernet frame: `vlan` is 0 without an 802.1Q tag, `kind` the EtherType."""

    target: bytes
    source: bytes
    vlan: int
    kind: int
    payload: bytes


class Ip(NamedTuple):
    """An IPv4 or IPv6 packet."""

    source: bytes
    target: bytes
    protocol: int
    """Upper-layer protocol: for IPv6 the last of the chain of headers."""
    ttl: int
    traffic_class: int
    fragment_offset: int
    """Bytes; 0 in an unfragmented packet."""
    more_fragments: bool
    dont_fragment: bool
    """Always True for IPv6."""
    header_bytes: int
    """Offset of the payload: includes options and extension headers."""
    packet: bytes
    """The packet without Ethernet padding, as far as it was punted."""
    complete: bool
    """Whether `packet` holds all of its bytes."""

    @property
    def payload(self) -> bytes:
        """Bytes after the headers."""
        return self.packet[self.header_bytes :]

    @property
    def is_fragment(self) -> bool:
        """Whether this is a fragment."""
        return self.more_fragments or self.fragment_offset > 0


def read_link(frame: bytes) -> EthernetFrame | None:
    """Parse an Ethernet header, with an 802.1Q tag if there is one."""
    if len(frame) < 14:
        return None
    kind = int.from_bytes(frame[12:14], "big")
    if kind != VLAN:
        return EthernetFrame(frame[:6], frame[6:12], 0, kind, frame[14:])
    if len(frame) < 18:
        return None
    tag, kind = struct.unpack_from("!HH", frame, 14)
    return EthernetFrame(frame[:6], frame[6:12], tag & 0xFFF, kind, frame[18:])


def read_ip(kind: int, packet: bytes, missing_bytes: int = 0) -> Ip | None:
    """Parse an IP packet; checks version, lengths, IPv4's header checksum and IPv6's chain of headers.

    Up to `missing_bytes` bytes may be missing at its end, but not of its headers.
    """
    if kind == IPV4:
        return _read_ipv4(packet, missing_bytes)
    return _read_ipv6(packet, missing_bytes) if kind == IPV6 else None


def _read_ipv4(packet: bytes, missing_bytes: int) -> Ip | None:
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None
    header_bytes = (packet[0] & 15) * 4
    traffic_class, length, flags = packet[1], *struct.unpack_from("!H2xH", packet, 2)
    if not 20 <= header_bytes <= min(length, len(packet)) or length > len(packet) + missing_bytes:
        return None
    if checksum(packet[:header_bytes]):
        return None
    return Ip(
        source=packet[12:16],
        target=packet[16:20],
        protocol=packet[9],
        ttl=packet[8],
        traffic_class=traffic_class,
        fragment_offset=(flags & 0x1FFF) * 8,
        more_fragments=bool(flags & 0x2000),
        dont_fragment=bool(flags & 0x4000),
        header_bytes=header_bytes,
        packet=packet[:length],
        complete=length <= len(packet),
    )


def _read_ipv6(packet: bytes, missing_bytes: int) -> Ip | None:
    if len(packet) < 40 or packet[0] >> 4 != 6:
        return None
    length = 40 + int.from_bytes(packet[4:6], "big")
    if length > len(packet) + missing_bytes:
        return None
    protocol, at, fragment = packet[6], 40, 0
    for _ in range(_MAX_EXTENSIONS):
        if protocol not in _EXTENSIONS or fragment >> 3:
            break
        if at + 8 > min(length, len(packet)):
            return None
        size = 8 + packet[at + 1] * 8
        if protocol == _FRAGMENT:
            size, fragment = 8, int.from_bytes(packet[at + 2 : at + 4], "big") & 0xFFF9
        elif protocol == _AUTHENTICATION:
            size = 8 + packet[at + 1] * 4
        protocol, at = packet[at], at + size
    if at > min(length, len(packet)) or (protocol in _EXTENSIONS and not fragment >> 3):
        return None
    return Ip(
        source=packet[8:24],
        target=packet[24:40],
        protocol=protocol,
        ttl=packet[7],
        traffic_class=int.from_bytes(packet[:2], "big") >> 4 & 0xFF,
        fragment_offset=fragment & 0xFFF8,
        more_fragments=bool(fragment & 1),
        dont_fragment=True,
        header_bytes=at,
        packet=packet[:length],
        complete=length <= len(packet),
    )


def is_single_host(address: bytes) -> bool:
    """Return whether an address may be the source of a packet, to which a reply can be sent (RFC 1122, 3.2.1.3)."""
    if len(address) == 4:
        return 0 < address[0] < 224 and address[0] != 127
    return address[0] != 0xFF and any(address[:15]) and address[:12] != _MAPPED


_MAPPED = b"\0" * 10 + b"\xff\xff"
"""IPv4-mapped addresses are never on a wire (RFC 4291, 2.5.5.2)."""


def is_one_station(mac: bytes) -> bool:
    """Return whether a MAC is unicast and not zero."""
    return not mac[0] & 1 and any(mac)
