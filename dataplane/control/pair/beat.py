"""The heartbeat, as a value and as bytes.

```
| "HDLB" | version 1 | flags | holds | offers | wants | knows | 2 reserved | boot id (8) | sequence (8) |
| sender's id: length (1), text | receiver's id: length (1), text | seal (16): HMAC-SHA256 of all before, cut |
```

`holds` and the other three have a bit for each share, in the order of the members' ids. Without a key the seal is
zeros, and whoever can send to the port can stop a gateway: use a key, or a network of its own.
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


class Beat(NamedTuple):
    """What a member says of itself at every interval."""

    sender: str
    receiver: str
    boot: int
    """Of this life of the sender; a later life has a higher number."""
    sequence: int
    hears: bool
    """It hears the receiver."""
    well: bool
    """Its data process runs."""
    holds: frozenset[str]
    """The shares that it serves, each called by the member whose it is at first."""
    offers: frozenset[str]
    """Those of them that it wants the receiver to take."""
    wants: frozenset[str]
    """Those that it would have back."""
    knows: frozenset[str]
    """Those whose connections it knows: it serves them, or has a copy of all."""


def seal(key: bytes, content: bytes) -> bytes:
    """Return what shows that the content is of someone with the key; zeros without a key."""
    return hmac.digest(key, content, hashlib.sha256)[:SEAL_BYTES] if key else bytes(SEAL_BYTES)


def encode(beat: Beat, key: bytes = b"") -> bytes:
    """Return a heartbeat as bytes."""
    members = sorted((beat.sender, beat.receiver))
    flags = beat.hears * _HEARS | beat.well * _WELL
    bits = (_bits(shares, members) for shares in (beat.holds, beat.offers, beat.wants, beat.knows))
    content = _HEAD.pack(_MAGIC, _VERSION, flags, *bits, beat.boot, beat.sequence)
    for name in (beat.sender.encode(), beat.receiver.encode()):
        content += bytes((len(name),)) + name
    return content + seal(key, content)


def decode(data: bytes, key: bytes = b"") -> Beat | None:
    """Return a heartbeat; None for anything that is none, or is not sealed with the key."""
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
    return Beat(
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


def _bits(shares: frozenset[str], members: list[str]) -> int:
    return sum(1 << number for number, member in enumerate(members) if member in shares)
