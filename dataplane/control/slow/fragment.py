"""Fragment IPv4 packets without DF that exceed the MTU (RFC 791, 3.2)."""

import struct

from heddle.dataplane.control.slow.view import Ip
from heddle.dataplane.packet.checksum import checksum

_MORE = 0x2000
_COPIED = 0x80
_END, _NOP = 0, 1
MAX_FRAGMENTS = 64


def fragments(packet: Ip, mtu_bytes: int) -> list[bytes]:
    """Return the fragments of a packet, each at most `mtu_bytes` long; empty if it may or need not be fragmented.

    A fragment is fragmented further and keeps its offset. A packet that would become more than 64 fragments is dropped:
    that would be an attack on the receiver's reassembly.
    """
    if len(packet.source) != 4 or packet.dont_fragment or not packet.complete or len(packet.packet) <= mtu_bytes:
        return []
    head, body = packet.packet[: packet.header_bytes], packet.payload
    later = _later_header(head)
    step = (mtu_bytes - len(head)) // 8 * 8
    if step <= 0 or len(body) > step * MAX_FRAGMENTS:
        return []
    parts = []
    for at in range(0, len(body), step):
        more = packet.more_fragments or at + step < len(body)
        parts.append(part(later if at else head, body[at : at + step], packet.fragment_offset + at, more))
    return parts


def part(head: bytes, body: bytes, offset: int, more: bool) -> bytes:
    """Return a fragment with the header `head`, `offset` bytes into the payload; without DF."""
    words = bytearray(head)
    struct.pack_into("!H", words, 2, len(head) + len(body))
    struct.pack_into("!H", words, 6, (_MORE if more else 0) | offset // 8)
    struct.pack_into("!H", words, 10, 0)
    struct.pack_into("!H", words, 10, checksum(bytes(words)))
    return bytes(words) + body


def _later_header(head: bytes) -> bytes:
    """Return the header of all fragments but the first: it keeps only options with the copied flag."""
    kept, at = b"", 20
    while at < len(head) and head[at] != _END:
        size = 1 if head[at] == _NOP else head[at + 1] if at + 1 < len(head) else 0
        if size < 1 + (head[at] != _NOP) or at + size > len(head):
            break  # malformed option: the rest is not copied
        if head[at] & _COPIED:
            kept += head[at : at + size]
        at += size
    kept += bytes(-len(kept) % 4)
    return bytes(((4 << 4) | (20 + len(kept)) // 4,)) + head[1:20] + kept
