"""ARP for IPv4 over Ethernet (RFC 826): read, ask, answer, announce.

```
|  hardware type 1  |  protocol 0x0800  | 6 | 4 | operation |
|  sender's MAC (6) | sender's IP (4) | target's MAC (6) | target's IP (4) |
```
"""

from typing import Final, NamedTuple

from dataplane.control.slow.frames import ARP, BROADCAST, ethernet

REQUEST, REPLY = 1, 2
_FIXED: Final = bytes.fromhex("000108000604")
_SIZE = 28
_PADDING = bytes(18)
"""Ethernet's payload is 46 bytes at least; drivers pad, but tunnels do not."""
NOBODY: Final = bytes(4)


class Arp(NamedTuple):
    """A message."""

    operation: int
    sender_mac: bytes
    sender: bytes
    target_mac: bytes
    target: bytes


def read_arp(payload: bytes) -> Arp | None:
    """Return the message of an ARP frame, None for other hardware or protocols and for what ends too early."""
    if len(payload) < _SIZE or payload[:6] != _FIXED or payload[6] or payload[7] not in (REQUEST, REPLY):
        return None
    return Arp(payload[7], payload[8:14], payload[14:18], payload[18:24], payload[24:28])


def write_arp(message: Arp) -> bytes:
    """Return the bytes behind the Ethernet header."""
    head = _FIXED + message.operation.to_bytes(2, "big")
    return head + message.sender_mac + message.sender + message.target_mac + message.target + _PADDING


def answer(asked: Arp, mac: bytes, vlan: int = 0) -> bytes:
    """Return the frame that tells an asker that the address it wants is at `mac`."""
    reply = Arp(REPLY, mac, asked.target, asked.sender_mac, asked.sender)
    return ethernet(asked.sender_mac, mac, ARP, write_arp(reply), vlan)


def question(mac: bytes, own: bytes, wanted: bytes, vlan: int = 0, to: bytes = BROADCAST) -> bytes:
    """Return the frame that asks for an address.

    `own` NOBODY makes it a probe (RFC 5227, 2.1.1), which no cache learns from; `to` a unicast poll (RFC 1122,
    2.3.2.1).
    """
    return ethernet(to, mac, ARP, write_arp(Arp(REQUEST, mac, own, bytes(6), wanted)), vlan)


def announcement(mac: bytes, own: bytes, vlan: int = 0) -> bytes:
    """Return the frame that has all stations forget who had the address before (RFC 5227, 2.3)."""
    return ethernet(BROADCAST, mac, ARP, write_arp(Arp(REQUEST, mac, own, bytes(6), own)), vlan)
