"""ARP for IPv4 over Ethernet (RFC 826): parse messages; build requests, replies and announcements.

```
|  hardware type 1  |  protocol 0x0800  | 6 | 4 | operation |
|  sender's MAC (6) | sender's IP (4) | target's MAC (6) | target's IP (4) |
```
"""

from typing import Final, NamedTuple

from heddle.dataplane.control.slow.frames import BROADCAST, ethernet
from heddle.dataplane.packet.ethernet import ARP

REQUEST, REPLY = 1, 2
_FIXED: Final = bytes.fromhex("000108000604")
_SIZE = 28
_PADDING = bytes(18)
"""Fills the payload to Ethernet's minimum of 46 bytes; drivers pad, but tunnels do not."""
UNSPECIFIED: Final = bytes(4)


class Arp(NamedTuple):
    """An ARP message; MACs and addresses are bytes in network order."""

    operation: int
    sender_mac: bytes
    sender: bytes
    target_mac: bytes
    target: bytes


def read_arp(payload: bytes) -> Arp | None:
    """Parse the payload of an ARP frame; None for other hardware or protocols, and for a truncated message."""
    if len(payload) < _SIZE or payload[:6] != _FIXED or payload[6] or payload[7] not in (REQUEST, REPLY):
        return None
    return Arp(payload[7], payload[8:14], payload[14:18], payload[18:24], payload[24:28])


def write_arp(message: Arp) -> bytes:
    """Return the payload of an ARP frame."""
    head = _FIXED + message.operation.to_bytes(2, "big")
    return head + message.sender_mac + message.sender + message.target_mac + message.target + _PADDING


def reply(request: Arp, mac: bytes, vlan: int = 0) -> bytes:
    """Return the frame that replies to a request with `mac`."""
    message = Arp(REPLY, mac, request.target, request.sender_mac, request.sender)
    return ethernet(request.sender_mac, mac, ARP, write_arp(message), vlan)


def request(mac: bytes, own: bytes, wanted: bytes, vlan: int = 0, to: bytes = BROADCAST) -> bytes:
    """Return the frame that requests the MAC of an address.

    With `own` UNSPECIFIED it is a probe (RFC 5227, 2.1.1), from which no cache learns; with `to` a MAC it is a unicast
    poll (RFC 1122, 2.3.2.1).
    """
    return ethernet(to, mac, ARP, write_arp(Arp(REQUEST, mac, own, bytes(6), wanted)), vlan)


def announcement(mac: bytes, own: bytes, vlan: int = 0) -> bytes:
    """Return the announcement (gratuitous ARP) that updates the caches of all stations (RFC 5227, 2.3)."""
    return ethernet(BROADCAST, mac, ARP, write_arp(Arp(REQUEST, mac, own, bytes(6), own)), vlan)
