"""Build the RST that replies to a TCP segment, in the name of its target (RFC 9293, 3.10.7.1)."""

import struct

from heddle.dataplane.control.slow.frames import ip
from heddle.dataplane.control.slow.view import Ip, is_single_host
from heddle.dataplane.packet.checksum import checksum
from heddle.dataplane.packet.transport import ACK, FIN, RST, SYN, TCP, TCP_BYTES


def reset_by(packet: Ip) -> tuple[int, bytes] | None:
    """Return EtherType and packet of the RST of a closed port; None if the packet does not get one.

    Every whole segment gets one, except another RST.
    """
    return None if packet.is_fragment or not packet.complete else _reset(packet, RST, 0)


def reset_of(packet: Ip) -> tuple[int, bytes] | None:
    """Return EtherType and packet of the RST of a lost connection; None if the packet does not get one.

    Only segments with ACK and without SYN get one: its sequence number is the one that they acknowledge, which their
    sender accepts.
    """
    return _reset(packet, SYN | RST | ACK, ACK)


def _reset(packet: Ip, examined: int, wanted: int) -> tuple[int, bytes] | None:
    """Return EtherType and packet of the RST about a segment whose `examined` flags are the `wanted` ones.

    None for any other packet, and for a wrong checksum; that of a cut or fragmented packet cannot be verified.
    """
    segment = packet.payload
    if packet.protocol != TCP or packet.fragment_offset or len(segment) < TCP_BYTES:
        return None
    source, target, sequence, acknowledged, offset, flags = struct.unpack_from("!HHIIBB", segment)
    data = len(segment) - (offset >> 4) * 4
    if flags & examined != wanted or data < 0 or not is_single_host(packet.source):
        return None
    is_whole = packet.complete and not packet.more_fragments
    if is_whole and checksum(_pseudo(packet.source, packet.target, len(segment)) + segment):
        return None
    if flags & ACK:
        words = (target, source, acknowledged, 0, 5 << 12 | RST)
    else:
        after = sequence + data + bool(flags & SYN) + bool(flags & FIN)
        words = (target, source, 0, after & 0xFFFF_FFFF, 5 << 12 | RST | ACK)
    head = _pseudo(packet.target, packet.source, TCP_BYTES)
    total = checksum(head + struct.pack("!HHIIHHHH", *words, 0, 0, 0))
    return ip(packet.target, packet.source, TCP, struct.pack("!HHIIHHHH", *words, 0, total, 0))


def _pseudo(source: bytes, target: bytes, length: int) -> bytes:
    """Return the pseudo-header that the checksum covers; for IPv4 with the same sum (RFC 9293, 3.1; RFC 8200, 8.1)."""
    return source + target + struct.pack("!II", length, TCP)
