"""Build the RST that a closed TCP port of the gateway itself replies with (RFC 9293, 3.10.7.1)."""

import struct

from dataplane.control.slow.frames import TCP, checksum, ip
from dataplane.control.slow.view import Ip, is_single_host

_TCP_BYTES = 20
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16


def reset_by(packet: Ip) -> tuple[int, bytes] | None:
    """Return EtherType and packet of the RST about a valid TCP segment; None for another RST or any other packet."""
    segment = packet.payload
    if packet.protocol != TCP or packet.is_fragment or not packet.complete or len(segment) < _TCP_BYTES:
        return None
    source, target, sequence, acknowledged, offset, flags = struct.unpack_from("!HHIIBB", segment)
    data = len(segment) - (offset >> 4) * 4
    pseudo = packet.source + packet.target + struct.pack("!II", len(segment), TCP)
    if flags & _RST or data < 0 or not is_single_host(packet.source) or checksum(pseudo + segment):
        return None
    if flags & _ACK:
        words = (target, source, acknowledged, 0, 5 << 12 | _RST)
    else:
        length = data + bool(flags & _SYN) + bool(flags & _FIN)
        words = (target, source, 0, (sequence + length) & 0xFFFF_FFFF, 5 << 12 | _RST | _ACK)
    pseudo = packet.target + packet.source + struct.pack("!II", _TCP_BYTES, TCP)
    total = checksum(pseudo + struct.pack("!HHIIHHHH", *words, 0, 0, 0))
    return ip(packet.target, packet.source, TCP, struct.pack("!HHIIHHHH", *words, 0, total, 0))
