"""The stream of records to a partner, as messages and as bytes.

```
| length of all that follows (4) | kind (1) | sequence (8) | content | seal (16) |
```

Both sides begin with HELLO and a number used once. The seal of everything after is made with a key that both numbers
and both names went into, over direction, sequence and content: nothing of another connection, another place or another
time passes. Without a shared secret seals are zeros, as for heartbeats.
"""

import hashlib
import hmac
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from dataplane.control.pair.beat import SEAL_BYTES, seal

NONCE_BYTES = 16
MAX_CONTENT_BYTES = 1 << 18
_VERSION: Final = b"HDLR\x01"
_LENGTH: Final = struct.Struct("!I")
_HEAD: Final = struct.Struct("!BQ")
_BEYOND = _HEAD.size + SEAL_BYTES


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1
    """Version, record size, nonce and name of the sender."""
    RECORDS = 2
    """Whole records, in order; none at all says that the sender lives."""
    COMPLETE = 3
    """All that there was when this connection began has been sent before."""
    TAKEN = 4
    """All messages up to this sequence are kept, back to the sender of the records."""


class Message(NamedTuple):
    """One message."""

    kind: Kind
    sequence: int
    content: bytes = b""


class RecordStreamError(Exception):
    """The other end does not speak this protocol, or is not who it should be; the connection is of no use."""


class Hello(NamedTuple):
    """How each side begins."""

    name: str
    nonce: bytes
    record_bytes: int

    def content(self) -> bytes:
        """Return it as the content of a message."""
        return _VERSION + self.record_bytes.to_bytes(2, "big") + self.nonce + self.name.encode()

    @staticmethod
    def read(content: bytes) -> "Hello":
        """Return what a message says; raises RecordStreamError."""
        start = len(_VERSION) + 2
        if not content.startswith(_VERSION) or len(content) <= start + NONCE_BYTES:
            raise RecordStreamError("the other end speaks another protocol, or another version of it")
        try:
            name = content[start + NONCE_BYTES :].decode()
        except UnicodeDecodeError:
            raise RecordStreamError("a name that is no text") from None
        return Hello(name, content[start : start + NONCE_BYTES], int.from_bytes(content[len(_VERSION) : start], "big"))


def session_key(secret: bytes, sender: Hello, receiver: Hello) -> bytes:
    """Return the key of one connection, empty where there is no secret."""
    if not secret:
        return b""
    said = b"".join(len(part).to_bytes(4, "big") + part for part in (sender.content(), receiver.content()))
    return hmac.digest(secret, b"records" + said, hashlib.sha256)


def encode(message: Message, key: bytes, direction: bytes) -> bytes:
    """Return a message as bytes."""
    body = _HEAD.pack(message.kind, message.sequence) + message.content
    return _LENGTH.pack(len(body) + SEAL_BYTES) + body + seal(key, direction + body)


class Reader:
    """Makes messages of bytes as they come."""

    def __init__(self, key: bytes, direction: bytes) -> None:
        self.key = key
        self._direction = direction
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes; raises RecordStreamError for a message that is too long."""
        self._bytes += data
        if len(self._bytes) >= _LENGTH.size:
            self._size()

    def next(self) -> Message | None:
        """Return the next message, None while it is not all there; raises RecordStreamError for one that is not sound."""
        if len(self._bytes) < _LENGTH.size or len(self._bytes) < _LENGTH.size + self._size():
            return None
        end = _LENGTH.size + self._size()
        body, sealed = bytes(self._bytes[_LENGTH.size : end - SEAL_BYTES]), bytes(self._bytes[end - SEAL_BYTES : end])
        del self._bytes[:end]
        if not hmac.compare_digest(seal(self.key, self._direction + body), sealed):
            raise RecordStreamError("a message is not sealed with our key")
        kind, sequence = _HEAD.unpack_from(body)
        if kind not in Kind.__members__.values():
            raise RecordStreamError(f"a message of unknown kind {kind}")
        return Message(Kind(kind), sequence, body[_HEAD.size :])

    def _size(self) -> int:
        (size,) = _LENGTH.unpack_from(self._bytes)
        if not _BEYOND <= size <= _BEYOND + MAX_CONTENT_BYTES:
            raise RecordStreamError(f"a message of {size} bytes")
        return int(size)
