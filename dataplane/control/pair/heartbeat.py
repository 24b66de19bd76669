"""Encode and decode the heartbeat between the two gateways of a pair.

```
| "HDLB" | version 1 | flags | holds | offers | wants | knows | 2 reserved | boot id (8) | sequence (8) |
| sender's id: length (1), text | receiver's id: length (1), text | seal (16): HMAC-SHA256 of all before, cut |
```

`holds`, `offers`, `wants` and `knows` have a bit for each role, in the order of the members' ids. Without a key the
seal is zeros, and any host that reaches the port can stop a gateway: configure a key, or use a dedicated network.
"""

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct("!4sBBBBBB2xQQ")
_MAGIC, _VERSION = b"HDLB", 1
_HEARS, _WELL = 1, 2
SEAL_BYTES = 16
MAX_BYTES = _HEAD.size + 2 * 256 + SEAL_BYTES


class Heartbeat(NamedTuple):
    """The state that a member sends at every interval."""

    sender: str
    receiver: str
    boot: int
    """Start time of the sender's process: a later process has a higher number."""
    sequence: int
    hears: bool
    """The sender receives the receiver's heartbeats."""
    well: bool
    """The sender's data process forwards."""
    holds: frozenset[str]
    """Roles that the sender serves. A role is named after the member that owns it at first."""
    offers: frozenset[str]
    """Roles held that the receiver should take."""
    wants: frozenset[str]
    """Roles that the sender wants back."""
    knows: frozenset[str]
    """Roles whose connections the sender has: it serves them, or keeps a complete copy."""


def seal(key: bytes, content: bytes) -> bytes:
    """Return the message authentication code of the content, cut to SEAL_BYTES; zeros without a key."""
    return hmac.digest(key, content, hashlib.sha256)[:SEAL_BYTES] if key else bytes(SEAL_BYTES)


def encode(heartbeat: Heartbeat, key: bytes = b"") -> bytes:
    """Return a heartbeat as bytes."""
    members = sorted((heartbeat.sender, heartbeat.receiver))
    flags = heartbeat.hears * _HEARS | heartbeat.well * _WELL
    sets = (heartbeat.holds, heartbeat.offers, heartbeat.wants, heartbeat.knows)
    bits = (_bits(roles, members) for roles in sets)
    content = _HEAD.pack(_MAGIC, _VERSION, flags, *bits, heartbeat.boot, heartbeat.sequence)
    for name in (heartbeat.sender.encode(), heartbeat.receiver.encode()):
        content += bytes((len(name),)) + name
    return content + seal(key, content)


def decode(data: bytes, key: bytes = b"") -> Heartbeat | None:
    """Return a heartbeat; None for a malformed datagram or one that is not sealed with the key."""
    if not _HEAD.size + 2 + SEAL_BYTES <= len(data) <= MAX_BYTES:
        return None
    content, sealed = data[:-SEAL_BYTES], data[-SEAL_BYTES:]
    magic, version, flags, *bits, boot, sequence = _HEAD.unpack_from(content)
    if (magic, version) != (_MAGIC, _VERSION) or not hmac.compare_digest(seal(key, content), sealed):
        return None
    names, at = [], _HEAD.size
    for _ in range(2):
        end = at + 1 + content[at] if at < len(content) else len(content) + 1
        if end > len(content):
            return None
        try:
            names.append(content[at + 1 : end].decode())
        except UnicodeDecodeError:
            return None
        at = end
    sender, receiver = names
    if at != len(content) or sender == receiver or not sender or not receiver or any(each > 3 for each in bits):
        return None
    members = sorted(names)
    holds, offers, wants, knows = (frozenset(m for i, m in enumerate(members) if each >> i & 1) for each in bits)
    return Heartbeat(
        sender=sender,
        receiver=receiver,
        boot=boot,
        sequence=sequence,
        hears=bool(flags & _HEARS),
        well=bool(flags & _WELL),
        holds=holds,
        offers=offers,
        wants=wants,
        knows=knows,
    )


def _bits(roles: frozenset[str], members: list[str]) -> int:
    return sum(1 << number for number, member in enumerate(members) if member in roles)
