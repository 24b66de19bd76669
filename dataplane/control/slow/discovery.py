"""IPv6 neighbour discovery (RFC 4861): parse messages; build solicitations and advertisements.

```
router solicit.| 133 | 0 | checksum | reserved (4)       | option 1: source's MAC |
solicitation   | 135 | 0 | checksum | reserved (4)       | target (16) | option 1: source's MAC |
advertisement  | 136 | 0 | checksum | R S O reserved (4) | target (16) | option 2: target's MAC |
```
"""

from typing import Final, NamedTuple

from heddle.dataplane.control.slow.frames import ethernet, icmpv6, ipv6
from heddle.dataplane.control.slow.view import Ip
from heddle.dataplane.packet.checksum import checksum
from heddle.dataplane.packet.ethernet import IPV6
from heddle.dataplane.packet.transport import ICMPV6

ROUTER_SOLICITATION, SOLICITATION, ADVERTISEMENT = 133, 135, 136
_SOURCE_MAC, _TARGET_MAC = 1, 2
ROUTER, SOLICITED, OVERRIDE = 0x80, 0x40, 0x20
UNSPECIFIED: Final = bytes(16)
ALL_NODES: Final = bytes.fromhex("ff020000000000000000000000000001")
_SOLICITED_NODE: Final = bytes.fromhex("ff0200000000000000000001ff")
_HOPS = 255
"""Proves to the receiver that no router has forwarded the message (RFC 4861, 7.1)."""


class Neighbour(NamedTuple):
    """A solicitation or advertisement: `mac` is its link-layer address option or None, `flags` R, S and O."""

    kind: int
    source: bytes
    target: bytes
    mac: bytes | None
    flags: int


def read_neighbour(ip: Ip) -> Neighbour | None:
    """Parse a solicitation or advertisement; None for a packet that RFC 4861 (7.1.1, 7.1.2) has discarded."""
    body = ip.payload
    if ip.protocol != ICMPV6 or ip.ttl != _HOPS or len(ip.source) != 16 or ip.is_fragment or len(body) < 24:
        return None
    kind = body[0]
    if kind not in (SOLICITATION, ADVERTISEMENT) or body[1] or body[8] == 0xFF:
        return None
    if checksum(ip.source + ip.target + len(body).to_bytes(4, "big") + ICMPV6.to_bytes(4, "big") + body):
        return None
    options = _options(body[24:])
    if options is None:
        return None
    mac = options.get(_SOURCE_MAC if kind == SOLICITATION else _TARGET_MAC)
    if kind == SOLICITATION and ip.source == UNSPECIFIED:
        if mac is not None or ip.target != solicited_node(body[8:24]):
            return None
    elif kind == ADVERTISEMENT and ip.target[0] == 0xFF and body[4] & SOLICITED:
        return None
    return Neighbour(kind, ip.source, body[8:24], mac, body[4])


def is_router_solicitation(ip: Ip) -> bool:
    """Return whether a packet is a router solicitation, as hosts send when an interface comes up (RFC 4861, 6.3.7)."""
    whole = ip.protocol == ICMPV6 and ip.ttl == _HOPS and ip.complete
    return whole and ip.payload[:2] == bytes((ROUTER_SOLICITATION, 0))


def _options(data: bytes) -> dict[int, bytes] | None:
    """Return link-layer addresses by option type; None if an option's length is 0 or too large."""
    found: dict[int, bytes] = {}
    while data:
        size = data[1] * 8 if len(data) > 1 else 0
        if not size or size > len(data):
            return None
        if size == 8:
            found.setdefault(data[0], data[2:8])
        data = data[size:]
    return found


def reply(request: Neighbour, sender_mac: bytes, mac: bytes, router: bool, vlan: int = 0) -> bytes:
    """Return the advertisement of `mac` for a solicitation; it goes to all nodes if the sender has no address yet."""
    known = request.source != UNSPECIFIED
    flags = (ROUTER if router else 0) | (SOLICITED if known else 0) | OVERRIDE
    to = request.source if known else ALL_NODES
    return _advertisement(sender_mac if known else multicast_mac(to), mac, request.target, to, flags, vlan)


def announcement(mac: bytes, own: bytes, router: bool, vlan: int = 0) -> bytes:
    """Return the unsolicited advertisement that updates the caches of all nodes (RFC 4861, 7.2.6)."""
    return _advertisement(multicast_mac(ALL_NODES), mac, own, ALL_NODES, (ROUTER if router else 0) | OVERRIDE, vlan)


def _advertisement(to_mac: bytes, mac: bytes, own: bytes, to: bytes, flags: int, vlan: int) -> bytes:
    rest = bytes((flags, 0, 0, 0)) + own + bytes((_TARGET_MAC, 1)) + mac
    return ethernet(to_mac, mac, IPV6, _packet(ADVERTISEMENT, own, to, rest), vlan)


def request(mac: bytes, own: bytes, wanted: bytes, vlan: int = 0, to: bytes | None = None) -> bytes:
    """Return the solicitation of an address, to its solicited-node group or, to poll, to the MAC `to`."""
    target = wanted if to else solicited_node(wanted)
    rest = bytes(4) + wanted + bytes((_SOURCE_MAC, 1)) + mac
    return ethernet(to or multicast_mac(target), mac, IPV6, _packet(SOLICITATION, own, target, rest), vlan)


def _packet(kind: int, source: bytes, target: bytes, rest: bytes) -> bytes:
    return ipv6(source, target, ICMPV6, icmpv6(kind, 0, rest, source, target), hops=_HOPS)


def solicited_node(address: bytes) -> bytes:
    """Return the solicited-node multicast group of an address (RFC 4291, 2.7.1)."""
    return _SOLICITED_NODE + address[13:]


def multicast_mac(group: bytes) -> bytes:
    """Return the Ethernet address of an IPv6 multicast group (RFC 2464, 7)."""
    return b"\x33\x33" + group[12:]


def link_local(mac: bytes) -> bytes:
    """Return the link-local address of a MAC, by modified EUI-64 (RFC 4291, appendix A)."""
    return b"\xfe\x80" + bytes(6) + bytes((mac[0] ^ 2,)) + mac[1:3] + b"\xff\xfe" + mac[3:]
