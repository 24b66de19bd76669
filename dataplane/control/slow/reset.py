"""Build the RST that replies to a TCP segment of an unknown connection (RFC 9293, 3.10.7.1)."""

import struct

from dataplane.control.slow.frames import TCP, checksum, ip
from dataplane.control.slow.view import Ip

_TCP_BYTES = 20
_SYN, _RST, _ACK = 2, 4, 16


def reset_of(packet: Ip) -> tuple[int, bytes] | None:
    """Return EtherType and packet of a RST in the name of the packet's target; None if the packet does not get one.

    Only segments with ACK and without SYN get one: its sequence number is the one that they acknowledge, which their
    sender accepts. Never in reply to a RST or a wrong checksum.
    """
    segment = packet.payload
    if packet.protocol != TCP or packet.fragment_offset or len(segment) < _TCP_BYTES:
        return None
    source, target, acknowledged, flags = struct.unpack_from("!HH4xIxB", segment)
    if flags & (_SYN | _RST | _ACK) != _ACK:
        return None
    is_whole = packet.complete and not packet.more_fragments
    if is_whole and checksum(_pseudo(packet.source, packet.target, len(segment)) + segment):
        return None
    words = (target, source, acknowledged, 0, 5 << 12 | _RST, 0)
    head = _pseudo(packet.target, packet.source, _TCP_BYTES) + struct.pack("!HHIIHHHH", *words, 0, 0)
    return ip(packet.target, packet.source, TCP, struct.pack("!HHIIHHHH", *words, checksum(head), 0))


def _pseudo(source: bytes, target: bytes, length: int) -> bytes:
    """Return the pseudo-header that the checksum covers; for IPv4 with the same sum (RFC 9293, 3.1; RFC 8200, 8.1)."""
    return source + target + struct.pack("!II", length, TCP)
