"""Copies of connections to a partner: first all, then what is new, a bounded number under way at any time.

The sender asks its source for records only while fewer than WINDOW messages are unanswered, so a slow partner slows
nobody: what it does not take stays in the source's journal, and where that overflows the source tells all anew. The
receiver answers when the records are kept, never before: what was answered for survives the sender.
"""

from collections.abc import Callable
from typing import NamedTuple

from dataplane.control.pair.stream import Hello, Kind, Message, Reader, RecordStreamError, encode, session_key

WINDOW = 8
PATIENCE_NS = 3_000_000_000
"""For so long messages may be unanswered, or nothing at all come, until the connection is given up."""
KEEPALIVE_NS = 500_000_000
TO_RECEIVER, TO_SENDER = b"records>", b"records<"


class Collected(NamedTuple):
    """What a source gives: records one after the other, and whether that was all for the time being."""

    records: bytes
    exhausted: bool


Collect = Callable[[int], Collected]


class Write(NamedTuple):
    """Send bytes to the partner."""

    data: bytes


class TellAll(NamedTuple):
    """Have the source tell all connections from now on."""


class Keep(NamedTuple):
    """Take records in; `Receiver.kept(sequence)` says when that is done."""

    sequence: int
    records: bytes


SenderEffect = Write | TellAll
ReceiverEffect = Write | Keep


class Sender:
    """One connection to the partner, from the side that has records."""

    def __init__(self, own: Hello, partner: str, secret: bytes, now_ns: int) -> None:
        self.complete = False
        """Whether the partner keeps a copy of all."""
        self.sent_records = 0
        self.stalls = 0
        """How often there might have been more to send, had the partner answered faster."""
        self._own, self._partner, self._secret = own, partner, secret
        self._reader = Reader(b"", TO_SENDER)
        self._key = b""
        self._welcomed = False
        self._sequence = 0
        self._taken = 0
        self._complete_at: int | None = None
        self._heard_ns = self._sent_ns = now_ns

    def begin(self) -> list[SenderEffect]:
        """Return what opens the conversation."""
        return [Write(encode(Message(Kind.HELLO, 0, self._own.content()), b"", TO_RECEIVER))]

    def received(self, data: bytes, now_ns: int) -> list[SenderEffect]:
        """Take what the partner answers; raises RecordStreamError."""
        self._reader.feed(data)
        effects: list[SenderEffect] = []
        while (message := self._reader.next()) is not None:
            self._heard_ns = now_ns
            if not self._welcomed:
                effects += self._welcome(message)
            elif message.kind is Kind.TAKEN and self._taken <= message.sequence <= self._sequence:
                self._taken = message.sequence
                self.complete = self.complete or (self._complete_at is not None and self._taken >= self._complete_at)
            else:
                raise RecordStreamError(f"{message.kind.name} of {message.sequence} where {self._sequence} were sent")
        return effects

    def _welcome(self, message: Message) -> list[SenderEffect]:
        if message.kind is not Kind.HELLO:
            raise RecordStreamError(f"{message.kind.name} before HELLO")
        hello = Hello.read(message.content)
        _check(hello, self._own, self._partner)
        self._key = self._reader.key = session_key(self._secret, self._own, hello)
        self._welcomed = True
        return [TellAll()]

    def pull(
        self, collect: Callable[[int], Collected], now_ns: int, at_most_bytes: int = 1 << 16
    ) -> list[SenderEffect]:
        """Return what there is to send, taken from the source as far as there is room on the way; raises RecordStreamError.

        `collect` is given a number of bytes, and gives no more.
        """
        if now_ns - self._heard_ns > PATIENCE_NS and (self._sequence > self._taken or not self._welcomed):
            raise RecordStreamError("the partner does not answer")
        effects: list[SenderEffect] = []
        if not self._welcomed:
            return effects
        exhausted = False
        while not exhausted and self._sequence - self._taken < WINDOW:
            records, exhausted = collect(at_most_bytes)
            if not records:
                break
            self.sent_records += len(records) // self._own.record_bytes
            effects.append(self._message(Kind.RECORDS, records, now_ns))
        self.stalls += self._sequence - self._taken >= WINDOW and not exhausted
        if exhausted and self._complete_at is None:
            effects.append(self._message(Kind.COMPLETE, b"", now_ns))
            self._complete_at = self._sequence
        if not effects and now_ns - self._sent_ns >= KEEPALIVE_NS and self._sequence == self._taken:
            effects.append(self._message(Kind.RECORDS, b"", now_ns))
        return effects

    def told_all_anew(self) -> None:
        """Say that the source lost records and tells all of them anew: until then the copy has holes."""
        self.complete, self._complete_at = False, None

    def _message(self, kind: Kind, content: bytes, now_ns: int) -> Write:
        self._sequence += 1
        self._sent_ns = now_ns
        if self._sequence == self._taken + 1:
            self._heard_ns = now_ns  # patience begins with what it waits for
        return Write(encode(Message(kind, self._sequence, content), self._key, TO_RECEIVER))


class Receiver:
    """One connection from the partner, from the side that keeps copies."""

    def __init__(self, own: Hello, partner: str, secret: bytes, now_ns: int) -> None:
        self.complete = False
        """Whether all that the partner had is kept here."""
        self.received_records = 0
        self._own, self._partner, self._secret = own, partner, secret
        self._reader = Reader(b"", TO_RECEIVER)
        self._key = b""
        self._welcomed = False
        self._sequence = 0
        self._kept = 0
        self._complete_at: int | None = None
        self._heard_ns = now_ns

    def received(self, data: bytes, now_ns: int) -> list[ReceiverEffect]:
        """Take what the partner tells; raises RecordStreamError."""
        self._reader.feed(data)
        effects: list[ReceiverEffect] = []
        while (message := self._reader.next()) is not None:
            self._heard_ns = now_ns
            effects += self._records(message) if self._welcomed else self._welcome(message)
        return effects

    def _welcome(self, message: Message) -> list[ReceiverEffect]:
        if message.kind is not Kind.HELLO:
            raise RecordStreamError(f"{message.kind.name} before HELLO")
        hello = Hello.read(message.content)
        _check(hello, self._own, self._partner)
        self._key = self._reader.key = session_key(self._secret, hello, self._own)
        self._welcomed = True
        return [Write(encode(Message(Kind.HELLO, 0, self._own.content()), b"", TO_SENDER))]

    def _records(self, message: Message) -> list[ReceiverEffect]:
        if message.sequence != self._sequence + 1 or message.kind not in (Kind.RECORDS, Kind.COMPLETE):
            raise RecordStreamError(f"{message.kind.name} of {message.sequence} after {self._sequence}")
        if len(message.content) % self._own.record_bytes:
            raise RecordStreamError(f"{len(message.content)} bytes are no whole records")
        self._sequence = message.sequence
        self.received_records += len(message.content) // self._own.record_bytes
        if message.kind is Kind.COMPLETE:
            self._complete_at = message.sequence
        return [Keep(message.sequence, message.content)]

    def kept(self, sequence: int) -> list[ReceiverEffect]:
        """Say that all records up to this message are kept; they come in order."""
        self._kept = sequence
        self.complete = self._complete_at is not None and sequence >= self._complete_at
        return [Write(encode(Message(Kind.TAKEN, sequence), self._key, TO_SENDER))]

    def check(self, now_ns: int) -> None:
        """Raise RecordStreamError where nothing has come for too long."""
        if now_ns - self._heard_ns > PATIENCE_NS:
            raise RecordStreamError("the partner has gone silent")


def _check(hello: Hello, own: Hello, partner: str) -> None:
    if hello.name != partner:
        raise RecordStreamError(f"{hello.name!r} is not {partner!r}, the partner that is configured")
    if hello.record_bytes != own.record_bytes:
        raise RecordStreamError(
            f"its records have {hello.record_bytes} bytes, ours {own.record_bytes}: another version"
        )
