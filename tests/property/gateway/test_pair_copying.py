"""Connection replication over a network that cuts and delays, with a slow partner, and with crashes at any moment."""

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from heddle.dataplane.control.pair.copying import (
    KEEPALIVE_NS,
    MAX_IN_FLIGHT,
    TIMEOUT_NS,
    TO_RECEIVER,
    Collected,
    Keep,
    Receiver,
    SendAll,
    Sender,
    Write,
)
from heddle.dataplane.control.pair.stream import Hello, Message, MessageKind, MessageReader, RecordStreamError, encode
from tests.support.examples import examples

RECORD = 8
"""Bytes: number and value of a connection, 0 for one that ended."""
JOURNAL = 40
SECRET = b"shared"


class Source:
    """The records of a data process: a bounded journal of changes, a full resend after a loss, and a table."""

    def __init__(self) -> None:
        self.table: dict[int, int] = {}
        self.journal: deque[tuple[int, int]] = deque()
        self.again: list[int] = []
        self.lost = 0

    def change(self, number: int, value: int) -> None:
        self.table.pop(number, None)
        if value:
            self.table[number] = value
        if len(self.journal) >= JOURNAL:
            self.lost += 1
            self.again = list(self.table)
        else:
            self.journal.append((number, value))

    def request_all(self) -> None:
        self.journal.clear()
        self.again = list(self.table)

    def collect(self, at_most_bytes: int) -> Collected:
        found = []
        while len(found) < at_most_bytes // RECORD and (self.journal or self.again):
            if self.journal:
                found.append(self.journal.popleft())
            elif (number := self.again.pop()) in self.table:
                found.append((number, self.table[number]))
        records = b"".join(n.to_bytes(4, "big") + v.to_bytes(4, "big") for n, v in found)
        return Collected(records, not self.journal and not self.again)


class CopyingMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.source, self.copy = Source(), dict[int, int]()
        self.changed_ns = dict[int, int]()
        self.fragile = False
        self.connects()

    @rule()
    def connects(self) -> None:
        """Also in place of an existing connection, whose data in flight is lost."""
        nonce = (self.now % 251).to_bytes(16, "big")
        self.sender = Sender(Hello("one", nonce, RECORD), "two", SECRET, self.now)
        self.receiver = Receiver(Hello("two", nonce[::-1], RECORD), "one", SECRET, self.now)
        self.last_acknowledged = self.now
        self.out, self.back, self.to_keep = bytearray(), bytearray(), deque[Keep]()
        self.acknowledged: dict[int, int] = {}
        self.lost = self.source.lost
        self.sent: list[list[tuple[int, int]]] = []
        self.act(self.sender.begin())

    def act(self, effects: list) -> None:
        for effect in effects:
            match effect:
                case Write(data):
                    self.out += data
                case SendAll():
                    self.source.request_all()

    @rule(number=st.integers(1, 30), value=st.integers(0, 5))
    def a_connection_changes(self, number: int, value: int) -> None:
        self.source.change(number, value)
        self.changed_ns[number] = self.now
        if self.source.lost != self.lost:
            self.lost = self.source.lost
            self.sender.copy_restarted()

    @rule(room=st.integers(1, 6))
    def the_sender_works(self, room: int) -> None:
        try:
            self.act(self.sender.pull(self.source.collect, self.now, room * RECORD))
        except RecordStreamError:
            assert self.now - self.last_acknowledged > TIMEOUT_NS
            self.connects()
        assert self.sender._sequence - self.sender._taken <= MAX_IN_FLIGHT + 1

    @rule(count=st.integers(1, 400))
    def bytes_arrive(self, count: int) -> None:
        for effect in self.receiver.received(bytes(self.out[:count]), self.now):
            if isinstance(effect, Write):
                self.back += effect.data
            else:
                self.to_keep.append(effect)
        del self.out[:count]

    @precondition(lambda self: self.to_keep)
    @rule()
    def records_are_kept(self) -> None:
        keep = self.to_keep.popleft()
        for at in range(0, len(keep.records), RECORD):
            number, value = (int.from_bytes(keep.records[at + i : at + i + 4], "big") for i in (0, 4))
            self.copy.pop(number, None)
            if value:
                self.copy[number] = value
        self.back += written(self.receiver.kept(keep.sequence))

    @rule(count=st.integers(1, 200))
    def acknowledgements_arrive(self, count: int) -> None:
        before = self.sender._taken
        self.act(self.sender.received(bytes(self.back[:count]), self.now))
        del self.back[:count]
        if self.sender._taken != before:
            self.last_acknowledged = self.now

    @rule(ms=st.sampled_from([1, 100, 600]))
    def time_passes(self, ms: int) -> None:
        self.now += min(ms * 1_000_000, TIMEOUT_NS // 20)

    @rule()
    def all_data_in_flight_arrives(self) -> None:
        """Afterwards the partner has every record."""
        for _ in range(60):
            self.now += 1
            self.the_sender_works(4)
            self.bytes_arrive(1 << 20)
            while self.to_keep:
                self.records_are_kept()
            self.acknowledgements_arrive(1 << 20)
        assert self.sender.complete
        assert self.sender.complete_ns is not None
        assert self.sender.complete_ns >= self.now - 2
        assert self.receiver.complete
        # An end may be among what was lost: such a copy ends by its own time-out.
        live = {number: value for number, value in self.copy.items() if number in self.source.table}
        assert live == self.source.table

    @invariant()
    def a_complete_copy_lacks_only_unsent_records(self) -> None:
        if self.sender.complete:
            waiting = {number for number, _ in self.source.journal} | set(self.source.again)
            waiting |= self.in_flight()
            for number, value in self.source.table.items():
                assert number in waiting or self.copy.get(number) == value

    @invariant()
    def the_partner_has_all_that_changed_before_the_time_of_its_copy(self) -> None:
        if self.sender.complete_ns is not None:
            for number, value in self.source.table.items():
                assert self.changed_ns[number] >= self.sender.complete_ns or self.copy.get(number) == value

    def in_flight(self) -> set[int]:
        """Return the connections whose records are in flight or not stored yet, by an independent parser."""
        data = b"".join(keep.records for keep in self.to_keep)
        reader = MessageReader(self.sender._key, TO_RECEIVER)
        reader.feed(bytes(self.receiver._reader._bytes) + bytes(self.out))
        while (message := reader.next()) is not None:
            data += message.content
        return {int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), RECORD)}


TestCopying = CopyingMachine.TestCase
TestCopying.settings = settings(
    max_examples=examples(60), stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def written(effects: Sequence[object]) -> bytes:
    return b"".join(effect.data for effect in effects if isinstance(effect, Write))


def connected(
    secret: bytes = SECRET, name: str = "two", record: int = RECORD, knows: tuple[int, int] = (0, 0)
) -> tuple[Sender, Receiver]:
    sender = Sender(Hello("one", bytes(16), RECORD, knows[0]), "two", SECRET, 0)
    receiver = Receiver(Hello(name, bytes(15) + b"x", record, knows[1]), "one", secret, 0)
    reply = written(receiver.received(written(sender.begin()), 0))
    assert sender.received(reply, 0) == [SendAll()]
    return sender, receiver


def endless(count: int) -> Collected:
    return Collected(bytes(count // RECORD * RECORD), False)


def test_a_silent_partner_gets_at_most_one_window_and_is_disconnected() -> None:
    sender, _ = connected()
    assert len(sender.pull(endless, 0, 80)) == MAX_IN_FLIGHT
    assert sender.pull(endless, TIMEOUT_NS, 80) == []
    assert sender.stalls == 2
    with pytest.raises(RecordStreamError, match="does not acknowledge"):
        sender.pull(endless, TIMEOUT_NS + 1, 80)


def test_records_are_acknowledged_only_after_they_are_stored() -> None:
    sender, receiver = connected()
    effects = receiver.received(written(sender.pull(endless, 0, 80)), 0)
    assert [type(effect) for effect in effects] == [Keep] * MAX_IN_FLIGHT
    sender.received(written(receiver.kept(1)), 0)
    assert len(sender.pull(endless, 0, 80)) == 1


def test_an_idle_connection_sends_keepalives() -> None:
    sender, receiver = connected()
    receiver.received(written(sender.pull(lambda _: Collected(b"", True), 0)), 0)
    sender.received(written(receiver.kept(1)), 0)
    assert sender.complete
    assert sender.pull(lambda _: Collected(b"", True), KEEPALIVE_NS - 1) == []
    assert len(sender.pull(lambda _: Collected(b"", True), KEEPALIVE_NS)) == 1
    receiver.check(TIMEOUT_NS)
    with pytest.raises(RecordStreamError, match="sends nothing"):
        receiver.check(TIMEOUT_NS + 1)


def test_another_secret_another_name_or_other_records_are_refused() -> None:
    with pytest.raises(RecordStreamError, match="not 'two'"):
        connected(name="three")
    with pytest.raises(RecordStreamError, match="another version"):
        connected(record=RECORD + 8)
    sender, receiver = connected(secret=b"wrong")
    with pytest.raises(RecordStreamError, match="not sealed"):
        receiver.received(written(sender.pull(endless, 0, 80)[:1]), 0)


@pytest.mark.parametrize(
    ("knows", "common"), [((16, 16), 16), ((16, 0), 8), ((0, 16), 8), ((16, 24), 16), ((24, 16), 16)]
)
def test_versions_exchange_the_fields_that_both_know(knows: tuple[int, int], common: int) -> None:
    sender, receiver = connected(knows=knows)
    sizes = [max(RECORD, size) for size in knows]
    records = [bytes([number]) * sizes[0] for number in (1, 2, 3)]
    (message,) = sender.pull(lambda _: Collected(b"".join(records), True), 0)[:1]
    (keep,) = receiver.received(written([message]), 0)
    assert isinstance(keep, Keep)
    assert keep.records == b"".join(record[:common].ljust(sizes[1], b"\0") for record in records)
    assert (sender.sent_records, receiver.received_records) == (3, 3)


def test_a_hello_of_the_first_version_is_unchanged() -> None:
    content = Hello("one", b"n" * 16, 120, 136).content()
    assert content == b"HDLR\x01" + (120).to_bytes(2, "big") + b"n" * 16 + b"one"


def test_a_hello_that_was_changed_on_its_way_to_hide_fields_is_noticed() -> None:
    sender = Sender(Hello("one", bytes(16), RECORD, 16), "two", SECRET, 0)
    receiver = Receiver(Hello("two", b"x" * 16, RECORD, 16), "one", SECRET, 0)
    hello = encode(Hello("one", bytes(16), RECORD).message(), b"", TO_RECEIVER)
    assert sender.begin() != [Write(hello)]
    sender.received(written(receiver.received(hello, 0)), 0)
    with pytest.raises(RecordStreamError, match="not sealed"):
        receiver.received(written(sender.pull(endless, 0, 80)[:1]), 0)


def test_records_of_another_connection_are_refused() -> None:
    sender, _ = connected()
    message = written(sender.pull(endless, 0, 80)[:1])
    late = Receiver(Hello("two", b"y" * 16, RECORD), "one", SECRET, 0)
    late.received(written(sender.begin()), 0)
    with pytest.raises(RecordStreamError, match="not sealed"):
        late.received(message, 0)


@pytest.mark.parametrize(
    "message",
    [
        Message(MessageKind.RECORDS, 2),
        Message(MessageKind.RECORDS, 0),
        Message(MessageKind.TAKEN, 1),
        Message(MessageKind.HELLO, 1),
        Message(MessageKind.RECORDS, 1, bytes(RECORD + 1)),
    ],
)
def test_records_out_of_sequence_are_refused(message: Message) -> None:
    sender, receiver = connected()
    with pytest.raises(RecordStreamError):
        receiver.received(encode(message, sender._key, TO_RECEIVER), 0)


@given(data=st.binary(max_size=300))
@settings(deadline=None)
def test_arbitrary_bytes_are_never_accepted(data: bytes) -> None:
    sender, receiver = connected()
    for end in (sender, receiver):
        try:
            effects = end.received(data, 0)
        except RecordStreamError:
            continue
        assert effects == []
    with pytest.raises(RecordStreamError):
        receiver.received(data + b"\xff" * 400 + bytes(1 << 19), 0)
