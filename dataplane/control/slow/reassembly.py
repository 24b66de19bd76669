"""Pings of the gateway's own addresses that arrive in fragments (RFC 791, 3.2; RFC 8200, 4.5), and their replies.

A reply is cut where its request was, and has its identification: what came over a path fits the way back, and the
identification is as unique between the two addresses as the request's.

Bounds: MAX_PACKETS incomplete requests, MAX_OF_ACCOUNT of them for each account of the rate limits, none in more than
MAX_FRAGMENTS or for longer than TIMEOUT_NS. A fragment that overlaps another, or lies behind the last one, ends its
request (RFC 5722).
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from heddle.dataplane.control.slow.fragment import MAX_FRAGMENTS, part
from heddle.dataplane.control.slow.view import Ip
from heddle.dataplane.packet.ethernet import IPV4
from heddle.dataplane.packet.ipv6 import FRAGMENT, FRAGMENT_BYTES, IPV6_BYTES
from heddle.dataplane.packet.transport import ICMPV6

MAX_PACKETS, MAX_OF_ACCOUNT = 64, 4
TIMEOUT_NS = 5_000_000_000
MAX_BYTES = 65_535
Key = tuple[int, bytes, bytes, int]


@dataclass(slots=True)
class _Gathered:
    """The fragments of one request that have come."""

    since_ns: int
    first: Ip | None = None
    parts: dict[int, bytes] = field(default_factory=dict)
    """Payload by its offset in bytes."""
    whole_bytes: int | None = None
    """Known from the last fragment on."""

    def add(self, ip: Ip) -> bool:
        """Add a fragment; return False if it contradicts those that came."""
        start, body = ip.fragment_offset, ip.payload
        if self.parts.get(start) == body:
            return True
        end = start + len(body)
        if not body or end > MAX_BYTES or len(self.parts) >= MAX_FRAGMENTS:
            return False
        if any(at < end and start < at + len(had) for at, had in self.parts.items()):
            return False
        if not ip.more_fragments:
            if self.whole_bytes is not None:
                return False
            self.whole_bytes = end
        self.parts[start] = body
        if start == 0:
            self.first = ip
        return self.whole_bytes is None or max(at + len(had) for at, had in self.parts.items()) <= self.whole_bytes

    def request(self) -> Ip | None:
        """Return the whole request; None while fragments are missing."""
        if self.first is None or sum(map(len, self.parts.values())) != self.whole_bytes:
            return None
        head = self.first.packet[: self.first.header_bytes]
        body = b"".join(self.parts[at] for at in sorted(self.parts))
        return self.first._replace(packet=head + body, more_fragments=False)


class Reassembly:
    """The echo requests of which fragments are missing."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Gathered] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, account: int, ip: Ip, now_ns: int) -> tuple[Ip, list[int]] | bool:
        """Add a fragment.

        Returns:
            The request, if it is whole, and the offsets at which it was cut; True if fragments are missing; False if
            the fragment was refused, for want of room or because it contradicts others.
        """
        number = identification(ip)
        if number is None or not ip.complete:
            return False
        key = (account, ip.source, ip.target, number)
        gathered = self._waiting.get(key)
        if gathered is None or now_ns - gathered.since_ns > TIMEOUT_NS:
            self._expire(now_ns)
            if len(self._waiting) >= MAX_PACKETS or sum(each[0] == account for each in self._waiting) >= MAX_OF_ACCOUNT:
                return False
            gathered = self._waiting[key] = _Gathered(since_ns=now_ns)
        if not gathered.add(ip):
            del self._waiting[key]
            return False
        request = gathered.request()
        if request is None:
            return True
        del self._waiting[key]
        return request, sorted(gathered.parts)

    def _expire(self, now_ns: int) -> None:
        for key in [key for key, each in self._waiting.items() if now_ns - each.since_ns > TIMEOUT_NS]:
            del self._waiting[key]


def identification(ip: Ip) -> int | None:
    """Return a fragment's identification; None if other headers follow an IPv6 fragment header."""
    if len(ip.source) == 4:
        return int.from_bytes(ip.packet[4:6], "big")
    at = ip.header_bytes - FRAGMENT_BYTES
    if at < IPV6_BYTES or ip.packet[at] != ip.protocol:
        return None
    return int.from_bytes(ip.packet[at + 4 : at + 8], "big")


def cut(kind: int, packet: bytes, number: int, offsets: list[int]) -> list[bytes]:
    """Return the fragments of a packet without options or extension headers, cut at payload `offsets`, the first 0."""
    head_bytes = 20 if kind == IPV4 else IPV6_BYTES
    head, body = packet[:head_bytes], packet[head_bytes:]
    ends = [*offsets[1:], len(body)]
    make = _part_4 if kind == IPV4 else _part_6
    return [make(head, body[at:end], at, end < len(body), number) for at, end in zip(offsets, ends, strict=True)]


def _part_4(head: bytes, body: bytes, offset: int, more: bool, number: int) -> bytes:
    return part(head[:4] + number.to_bytes(2, "big") + head[6:], body, offset, more)


_FRAGMENT: Final = bytes((FRAGMENT,))


def _part_6(head: bytes, body: bytes, offset: int, more: bool, number: int) -> bytes:
    extension = struct.pack("!BBHI", ICMPV6, 0, offset | more, number)
    return head[:4] + (FRAGMENT_BYTES + len(body)).to_bytes(2, "big") + _FRAGMENT + head[7:] + extension + body
