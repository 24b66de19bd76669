"""The outer IPv6 header of a RoCE packet that names its path (RFC 8200; uSIDs: RFC 9800).

    Ethernet 14 | IPv6 40 | IPv4 20 | UDP 8 | BTH 12 | … | ICRC 4

The NIC writes it itself: a kernel that encapsulates IPv4 sets DSCP and ECN of the outer header to 0. Switches mark the
outer header, and its mark is moved to the inner one on arrival, as RFC 6040 has it. The ICRC covers the inner packet.
This module imports little, as `wire.roce` does.
"""

import socket
import struct
from typing import Any, NamedTuple

ETHERNET_BYTES, OUTER_BYTES = 14, 40
ETHERTYPE = 0x86DD
IPV4_IN_IPV6, ICMPV6 = 4, 58
HOP_LIMIT = 64
NEXT_HEADER_AT = ETHERNET_BYTES + 6
_HEADER = struct.Struct(">HIHBB16s16s")
_ETHERTYPE_AT, _TRAFFIC_CLASS_AT = 12, ETHERNET_BYTES + 1
_SOURCE_PORT_AT = ETHERNET_BYTES + 20
ICMP_AT = ETHERNET_BYTES + OUTER_BYTES
UNREACHABLE, TIME_EXCEEDED = 1, 3
_QUOTED_AT = ICMP_AT + 8
_QUOTED_BTH_AT = _QUOTED_AT + OUTER_BYTES + 20 + 8
_ECN_MASK, _CONGESTION_EXPERIENCED = 0x03, 0x03


class Tunnel(NamedTuple):
    """The addresses of an outer header, 16 bytes each; the destination names the path."""

    source: bytes
    destination: bytes

    @classmethod
    def of(cls, description: dict[str, Any]) -> "Tunnel | None":
        """Return the tunnel of a queue pair's description, None where its packets name no path."""
        if not description.get("sid"):
            return None
        return cls(*(socket.inet_pton(socket.AF_INET6, description[key]) for key in ("sid_source", "sid")))

    def to(self, sid: str) -> "Tunnel":
        """Return the tunnel over another path."""
        return self._replace(destination=socket.inet_pton(socket.AF_INET6, sid))


def wrapped(frame: bytearray, tunnel: Tunnel) -> bytearray:
    """Return a frame of IPv4 with an outer header of the same DSCP and ECN; the flow label is its UDP source port."""
    found = bytearray(len(frame) + OUTER_BYTES)
    found[:_ETHERTYPE_AT] = frame[:_ETHERTYPE_AT]
    label = frame[_SOURCE_PORT_AT] << 8 | frame[_SOURCE_PORT_AT + 1]
    _HEADER.pack_into(
        found, _ETHERTYPE_AT, ETHERTYPE, 6 << 28 | frame[_TRAFFIC_CLASS_AT] << 20 | label, len(frame) - ETHERNET_BYTES,
        IPV4_IN_IPV6, HOP_LIMIT, tunnel.source, tunnel.destination,
    )  # fmt: skip
    found[ETHERNET_BYTES + OUTER_BYTES :] = memoryview(frame)[ETHERNET_BYTES:]
    return found


class Quoted(NamedTuple):
    """What an error of a switch quotes of the packet that it could not forward."""

    udp_source_port: int
    destination_qp: int
    left: bytes
    """The destination address (16 bytes) as it was there: what was left of the path."""


def quoted_by_error(frame: bytearray, length: int) -> Quoted | None:
    """Return what an ICMPv6 error about a RoCE packet in IPv6 quotes (RFC 4443: types 1 and 3), None of other frames.

    Ethernet 14 | IPv6 40 | ICMPv6 8 | IPv6 40, IPv4 20, UDP 8, BTH 12 of the packet
    """
    if length < _QUOTED_BTH_AT + 8 or (frame[12] << 8 | frame[13]) != ETHERTYPE or frame[NEXT_HEADER_AT] != ICMPV6:
        return None
    if frame[ICMP_AT] not in (UNREACHABLE, TIME_EXCEEDED) or frame[_QUOTED_AT + 6] != IPV4_IN_IPV6:
        return None
    port = int.from_bytes(frame[_QUOTED_BTH_AT - 8 : _QUOTED_BTH_AT - 6], "big")
    left = bytes(frame[_QUOTED_AT + 24 : _QUOTED_AT + OUTER_BYTES])
    return Quoted(port, int.from_bytes(frame[_QUOTED_BTH_AT + 5 : _QUOTED_BTH_AT + 8], "big"), left)


def unwrapped(frame: bytearray, length: int) -> tuple[bytearray | memoryview, int]:
    """Return the frame inside an outer header and its length; a frame without one is returned as it is.

    The frame returned is a part of the buffer, of which the last bytes of the outer header are overwritten.
    """
    if length < ETHERNET_BYTES + OUTER_BYTES + 2 or (frame[12] << 8 | frame[13]) != ETHERTYPE:
        return frame, length
    if frame[NEXT_HEADER_AT] != IPV4_IN_IPV6:
        return frame, length
    marks = frame[ETHERNET_BYTES + 1] >> 4 & _ECN_MASK
    inside = memoryview(frame)[OUTER_BYTES:]
    inside[_ETHERTYPE_AT], inside[_ETHERTYPE_AT + 1] = 0x08, 0x00
    if marks == _CONGESTION_EXPERIENCED:
        inside[_TRAFFIC_CLASS_AT] |= _CONGESTION_EXPERIENCED
    return inside, length - OUTER_BYTES
