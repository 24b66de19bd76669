"""Cut an IPv4 packet into parts that fit (RFC 791, 3.2): what a router owes a packet without DF."""

import struct

from dataplane.control.slow.frames import checksum
from dataplane.control.slow.view import Ip

_MORE = 0x2000
_COPIED = 0x80
_END, _NOTHING = 0, 1
_MAX_FRAGMENTS = 64


def fragments(packet: Ip, mtu_bytes: int) -> list[bytes]:
    """Return the parts, each a packet of at most `mtu_bytes`; none where it may not or need not be cut.

    A part of a packet is cut as well, and keeps its place. Where a packet would become more than 64 parts there are
    none: that is an attack on whoever puts them together.
    """
    if len(packet.source) != 4 or packet.dont_fragment or not packet.complete or len(packet.packet) <= mtu_bytes:
        return []
    head, body = packet.packet[: packet.header_bytes], packet.payload
    later = _later_header(head)
    step = (mtu_bytes - len(head)) // 8 * 8
    if step <= 0 or len(body) > step * _MAX_FRAGMENTS:
        return []
    parts = []
    for at in range(0, len(body), step):
        more = packet.more_fragments or at + step < len(body)
        parts.append(_part(later if at else head, body[at : at + step], packet.fragment_offset + at, more))
    return parts


def _part(head: bytes, body: bytes, offset: int, more: bool) -> bytes:
    words = bytearray(head)
    struct.pack_into("!H", words, 2, len(head) + len(body))
    struct.pack_into("!H", words, 6, (_MORE if more else 0) | offset // 8)
    struct.pack_into("!H", words, 10, 0)
    struct.pack_into("!H", words, 10, checksum(bytes(words)))
    return bytes(words) + body


def _later_header(head: bytes) -> bytes:
    """Return the header of all parts but the first: of the options it has those with the copied flag."""
    kept, at = b"", 20
    while at < len(head) and head[at] != _END:
        size = 1 if head[at] == _NOTHING else head[at + 1] if at + 1 < len(head) else 0
        if size < 1 + (head[at] != _NOTHING) or at + size > len(head):
            break  # what follows is no option, and is not repeated
        if head[at] & _COPIED:
            kept += head[at : at + size]
        at += size
    kept += bytes(-len(kept) % 4)
    return bytes(((4 << 4) | (20 + len(kept)) // 4,)) + head[1:20] + kept
