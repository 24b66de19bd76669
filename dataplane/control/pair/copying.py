"""Replicate connection records to the partner: first all, then changes, with a bounded number of messages in flight.

The sender collects records from its source only while fewer than MAX_IN_FLIGHT messages are unacknowledged, so a slow
partner does not slow down forwarding: records stay in the source's journal, and if that overflows the source sends all
of them again. The receiver acknowledges records only once they are kept: they survive the sender.
"""

from collections.abc import Callable
from typing import NamedTuple

from heddle.dataplane.control.pair.stream import (
    Hello,
    Message,
    MessageKind,
    MessageReader,
    RecordStreamError,
    agreed_bytes,
    encode,
    session_key,
)

MAX_IN_FLIGHT = 8
TIMEOUT_NS = 3_000_000_000
"""A connection ends after messages were unacknowledged, or nothing arrived, for this long."""
KEEPALIVE_NS = 500_000_000
TO_RECEIVER, TO_SENDER = b"records>", b"records<"


class Collected(NamedTuple):
    """Concatenated records from a source, and whether it has no more for now."""

    records: bytes
    exhausted: bool


class Write(NamedTuple):
    """Send bytes to the partner."""

    data: bytes


class SendAll(NamedTuple):
    """Have the source send all connections, then all changes."""


class Keep(NamedTuple):
    """Store records; call `Receiver.kept(sequence)` once that is done."""

    sequence: int
    records: bytes


SenderEffect = Write | SendAll
ReceiverEffect = Write | Keep


class Sender:
    """Sending end of one connection to the partner."""

    def __init__(self, own: Hello, partner: str, secret: bytes, now_ns: int) -> None:
        self.complete = False
        """Whether the partner keeps a complete copy."""
        self.complete_ns: int | None = None
        """The latest time of which it is known that the partner keeps all connections of then."""
        self.sent_records = 0
        self.stalls = 0
        """Times that sending stopped because MAX_IN_FLIGHT messages were unacknowledged."""
        self._own, self._partner, self._secret = own, partner, secret
        self._bytes = self._wire_bytes = agreed_bytes(own, own)
        self._reader = MessageReader(b"", TO_SENDER)
        self._key = b""
        self._welcomed = False
        self._sequence = 0
        self._taken = 0
        self._complete_at: int | None = None
        self._emptied: tuple[int, int] | None = None
        """A message, and a time of which all records are in it or before; the oldest that is unacknowledged."""
        self._heard_ns = self._sent_ns = now_ns

    def begin(self) -> list[SenderEffect]:
        """Return the HELLO that opens the connection."""
        return [Write(encode(self._own.message(), b"", TO_RECEIVER))]

    def received(self, data: bytes, now_ns: int) -> list[SenderEffect]:
        """Process bytes from the partner: HELLO, then acknowledgements. Raises RecordStreamError."""
        self._reader.feed(data)
        effects: list[SenderEffect] = []
        while (message := self._reader.next()) is not None:
            self._heard_ns = now_ns
            if not self._welcomed:
                effects += self._welcome(message)
            elif message.kind is MessageKind.TAKEN and self._taken <= message.sequence <= self._sequence:
                self._taken = message.sequence
                self.complete = self.complete or (self._complete_at is not None and self._taken >= self._complete_at)
                self._note_copy()
            else:
                raise RecordStreamError(f"{message.kind.name} of {message.sequence} where {self._sequence} were sent")
        return effects

    def _welcome(self, message: Message) -> list[SenderEffect]:
        if message.kind is not MessageKind.HELLO:
            raise RecordStreamError(f"{message.kind.name} before HELLO")
        hello = Hello.read(message)
        _check(hello, self._own, self._partner)
        self._wire_bytes = agreed_bytes(self._own, hello)
        self._key = self._reader.key = session_key(self._secret, self._own, hello)
        self._welcomed = True
        return [SendAll()]

    def pull(
        self, collect: Callable[[int], Collected], now_ns: int, at_most_bytes: int = 1 << 16
    ) -> list[SenderEffect]:
        """Return the messages to send now: as many records as the limit in flight allows; raises RecordStreamError.

        Args:
            collect: returns records of at most the number of bytes it is called with.
            now_ns: monotonic clock.
            at_most_bytes: limit of one message.
        """
        if now_ns - self._heard_ns > TIMEOUT_NS and (self._sequence > self._taken or not self._welcomed):
            raise RecordStreamError("the partner does not acknowledge")
        effects: list[SenderEffect] = []
        if not self._welcomed:
            return effects
        exhausted = False
        while not exhausted and self._sequence - self._taken < MAX_IN_FLIGHT:
            records, exhausted = collect(at_most_bytes)
            if not records:
                break
            self.sent_records += len(records) // self._bytes
            effects.append(self._message(MessageKind.RECORDS, resized(records, self._bytes, self._wire_bytes), now_ns))
        self.stalls += self._sequence - self._taken >= MAX_IN_FLIGHT and not exhausted
        if exhausted and self._complete_at is None:
            effects.append(self._message(MessageKind.COMPLETE, b"", now_ns))
            self._complete_at = self._sequence
        if exhausted and self._emptied is None:
            self._emptied = (self._sequence, now_ns)
            self._note_copy()
        if not effects and now_ns - self._sent_ns >= KEEPALIVE_NS and self._sequence == self._taken:
            effects.append(self._message(MessageKind.RECORDS, b"", now_ns))
        return effects

    def copy_restarted(self) -> None:
        """Record that the source lost records and sends all of them again: until then the copy is incomplete."""
        self.complete, self._complete_at = False, None
        self.complete_ns, self._emptied = None, None

    def _note_copy(self) -> None:
        """Record until when the copy is complete, once the partner has acknowledged that."""
        if self.complete and self._emptied is not None and self._taken >= self._emptied[0]:
            self.complete_ns = self._emptied[1]
            self._emptied = None

    def _message(self, kind: MessageKind, content: bytes, now_ns: int) -> Write:
        self._sequence += 1
        self._sent_ns = now_ns
        if self._sequence == self._taken + 1:
            self._heard_ns = now_ns  # the time limit starts with the first message that is unacknowledged
        return Write(encode(Message(kind, self._sequence, content), self._key, TO_RECEIVER))


class Receiver:
    """Receiving end of one connection from the partner."""

    def __init__(self, own: Hello, partner: str, secret: bytes, now_ns: int) -> None:
        self.complete = False
        """Whether all connections of the partner are kept here."""
        self.received_records = 0
        self._own, self._partner, self._secret = own, partner, secret
        self._bytes = self._wire_bytes = agreed_bytes(own, own)
        self._reader = MessageReader(b"", TO_RECEIVER)
        self._key = b""
        self._welcomed = False
        self._sequence = 0
        self._kept = 0
        self._complete_at: int | None = None
        self._heard_ns = now_ns

    def received(self, data: bytes, now_ns: int) -> list[ReceiverEffect]:
        """Process bytes from the partner: HELLO, then records. Raises RecordStreamError."""
        self._reader.feed(data)
        effects: list[ReceiverEffect] = []
        while (message := self._reader.next()) is not None:
            self._heard_ns = now_ns
            effects += self._records(message) if self._welcomed else self._welcome(message)
        return effects

    def _welcome(self, message: Message) -> list[ReceiverEffect]:
        if message.kind is not MessageKind.HELLO:
            raise RecordStreamError(f"{message.kind.name} before HELLO")
        hello = Hello.read(message)
        _check(hello, self._own, self._partner)
        self._wire_bytes = agreed_bytes(self._own, hello)
        self._key = self._reader.key = session_key(self._secret, hello, self._own)
        self._welcomed = True
        return [Write(encode(self._own.message(), b"", TO_SENDER))]

    def _records(self, message: Message) -> list[ReceiverEffect]:
        if message.sequence != self._sequence + 1 or message.kind not in (MessageKind.RECORDS, MessageKind.COMPLETE):
            raise RecordStreamError(f"{message.kind.name} of {message.sequence} after {self._sequence}")
        if len(message.content) % self._wire_bytes:
            raise RecordStreamError(f"{len(message.content)} bytes are not a whole number of records")
        self._sequence = message.sequence
        self.received_records += len(message.content) // self._wire_bytes
        if message.kind is MessageKind.COMPLETE:
            self._complete_at = message.sequence
        return [Keep(message.sequence, resized(message.content, self._wire_bytes, self._bytes))]

    def kept(self, sequence: int) -> list[ReceiverEffect]:
        """Acknowledge all records up to this message; messages are acknowledged in order."""
        self._kept = sequence
        self.complete = self._complete_at is not None and sequence >= self._complete_at
        return [Write(encode(Message(MessageKind.TAKEN, sequence), self._key, TO_SENDER))]

    def check(self, now_ns: int) -> None:
        """Raise RecordStreamError if nothing has arrived for TIMEOUT_NS."""
        if now_ns - self._heard_ns > TIMEOUT_NS:
            raise RecordStreamError("the partner sends nothing any more")


def resized(records: bytes, size: int, wanted: int) -> bytes:
    """Return records of another size: without their last fields, or with zeros for them."""
    if size == wanted:
        return records
    each = (records[at : at + min(size, wanted)] for at in range(0, len(records), size))
    return b"".join(record.ljust(wanted, b"\0") for record in each)


def _check(hello: Hello, own: Hello, partner: str) -> None:
    if hello.name != partner:
        raise RecordStreamError(f"{hello.name!r} is not {partner!r}, the partner that is configured")
    if hello.record_bytes != own.record_bytes:
        raise RecordStreamError(
            f"its records have {hello.record_bytes} bytes, ours {own.record_bytes}: another version"
        )
