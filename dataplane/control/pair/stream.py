"""Encode and decode the messages of the record stream between the gateways of a pair (TCP).

```
| length of all that follows (4) | kind (1) | sequence (8) | content | seal (16) |
```

Both sides start with HELLO, which carries a nonce. Each later message is sealed with a key derived from both nonces and
both names, over direction, sequence and content, so messages of another connection, position or time are rejected.
Without a shared secret seals are zeros, as in heartbeats.

Versions that differ exchange records without the fields that one of them lacks. In place of a sequence number, which
the first version ignores there, a HELLO has the size of the records that its sender knows.
"""

import hashlib
import hmac
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from heddle.dataplane.control.pair.heartbeat import SEAL_BYTES, seal

NONCE_BYTES = 16
MAX_CONTENT_BYTES = 1 << 18
_VERSION: Final = b"HDLR\x01"
_LENGTH: Final = struct.Struct("!I")
_HEAD: Final = struct.Struct("!BQ")
_BEYOND = _HEAD.size + SEAL_BYTES


class MessageKind(IntEnum):
    """Kind of message."""

    HELLO = 1
    """Version, record size, nonce and name of the sender."""
    RECORDS = 2
    """Whole records, in order; an empty message is a keepalive."""
    COMPLETE = 3
    """All connections that existed when this TCP connection began have been sent."""
    TAKEN = 4
    """Acknowledgement: all messages up to this sequence are kept."""


class Message(NamedTuple):
    """One message."""

    kind: MessageKind
    sequence: int
    content: bytes = b""


class RecordStreamError(Exception):
    """The other end violates the protocol or is not the configured partner; the connection must be closed."""


class Hello(NamedTuple):
    """First message of each side."""

    name: str
    nonce: bytes
    record_bytes: int
    """Size of a record in the first version."""
    known_bytes: int = 0
    """Size of the records that the sender knows; 0 for the first version."""

    def message(self) -> "Message":
        """Return it as a message."""
        return Message(MessageKind.HELLO, self.known_bytes, self.content())

    def content(self) -> bytes:
        """Return it as the content of a message."""
        return _VERSION + self.record_bytes.to_bytes(2, "big") + self.nonce + self.name.encode()

    @staticmethod
    def read(message: Message) -> "Hello":
        """Decode a HELLO; raises RecordStreamError."""
        content = message.content
        start = len(_VERSION) + 2
        if not content.startswith(_VERSION) or len(content) <= start + NONCE_BYTES:
            raise RecordStreamError("the other end speaks another protocol, or another version of it")
        try:
            name = content[start + NONCE_BYTES :].decode()
        except UnicodeDecodeError:
            raise RecordStreamError("the sender's name is not UTF-8") from None
        record_bytes = int.from_bytes(content[len(_VERSION) : start], "big")
        return Hello(name, content[start : start + NONCE_BYTES], record_bytes, message.sequence)


def agreed_bytes(one: Hello, other: Hello) -> int:
    """Return the size of the records that both sides of a connection know."""
    return min(max(each.record_bytes, each.known_bytes) for each in (one, other))


def session_key(secret: bytes, sender: Hello, receiver: Hello) -> bytes:
    """Return the key of one connection; empty without a shared secret."""
    if not secret:
        return b""
    hellos = b"".join(len(part).to_bytes(4, "big") + part for part in (sender.content(), receiver.content()))
    if agreed_bytes(sender, receiver) > sender.record_bytes:
        hellos += sender.known_bytes.to_bytes(8, "big") + receiver.known_bytes.to_bytes(8, "big")
    return hmac.digest(secret, b"records" + hellos, hashlib.sha256)


def encode(message: Message, key: bytes, direction: bytes) -> bytes:
    """Return a message as bytes."""
    body = _HEAD.pack(message.kind, message.sequence) + message.content
    return _LENGTH.pack(len(body) + SEAL_BYTES) + body + seal(key, direction + body)


class MessageReader:
    """Incremental decoder: bytes in, messages out."""

    def __init__(self, key: bytes, direction: bytes) -> None:
        self.key = key
        self._direction = direction
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Append received bytes; raises RecordStreamError for a message that is too long."""
        self._bytes += data
        if len(self._bytes) >= _LENGTH.size:
            self._size()

    def next(self) -> Message | None:
        """Return the next message, None if incomplete; raises RecordStreamError for a malformed or unsealed one."""
        if len(self._bytes) < _LENGTH.size or len(self._bytes) < _LENGTH.size + self._size():
            return None
        end = _LENGTH.size + self._size()
        body, sealed = bytes(self._bytes[_LENGTH.size : end - SEAL_BYTES]), bytes(self._bytes[end - SEAL_BYTES : end])
        del self._bytes[:end]
        if not hmac.compare_digest(seal(self.key, self._direction + body), sealed):
            raise RecordStreamError("a message is not sealed with our key")
        kind, sequence = _HEAD.unpack_from(body)
        if kind not in MessageKind.__members__.values():
            raise RecordStreamError(f"a message of unknown kind {kind}")
        return Message(MessageKind(kind), sequence, body[_HEAD.size :])

    def _size(self) -> int:
        (size,) = _LENGTH.unpack_from(self._bytes)
        if not _BEYOND <= size <= _BEYOND + MAX_CONTENT_BYTES:
            raise RecordStreamError(f"a message of {size} bytes")
        return int(size)
