"""Heartbeats over UDP and replication over TCP between two members of a pair, on the loopback."""

import asyncio
import itertools
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from ipaddress import IPv4Address
from types import SimpleNamespace

import pytest

from heddle.dataplane.config.check_pair import pair_problems
from heddle.dataplane.config.pair import Mode, PairConfig, Path
from heddle.dataplane.control.heartbeats import Heartbeats, address_of
from heddle.dataplane.control.pair.duties import roles_of, work_of
from heddle.dataplane.control.pair.heartbeat import MAX_BYTES, Heartbeat, decode, encode
from heddle.dataplane.control.pair.ownership import Announce, Serve
from heddle.dataplane.control.record_links import RecordLinks
from tests.fakes.gateway.pair_ports import pair_of
from tests.fakes.gateway.slow_network import EXTERNAL, OTHER_VTEP, UNDERLAY, VTEP, local_config

PATIENCE_S = 30.0
BOOTS = itertools.count(1)
EVERYTHING = frozenset({"a", "b"})


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def member(me: str, pair: PairConfig) -> Iterator[tuple[Heartbeats, list[Serve | Announce]]]:
    decisions: list[Serve | Announce] = []
    beats = Heartbeats(me, pair, next(BOOTS), decisions.append)
    beats.start()
    try:
        yield beats, decisions
    finally:
        beats.stop(hand_over=False)


def test_the_lower_id_serves_and_its_failure_is_detected() -> None:
    pair = pair_of()
    with member("b", pair["b"]) as (b, decisions):
        with member("a", pair["a"]) as (a, _):
            wait_until(lambda: a.status.holds == {"a"} and b.status.partner_holds == {"a"})
            assert b.status.holds == frozenset()
        wait_until(lambda: b.status.holds == {"a"})
        assert not b.status.hears_partner
        assert decisions[:2] == [Serve(frozenset({"a"})), Announce()]


class Interrupted:
    """A selector as a process finds it that was suspended: the call has ended and reports no socket."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> "Interrupted":
        return self

    def __exit__(self, *unused: object) -> None:
        pass

    def register(self, *unused: object) -> None:
        pass

    def select(self, timeout_s: float) -> list[object]:
        self.calls += 1
        if self.calls > 1:
            raise KeyboardInterrupt
        return []


def test_a_member_that_was_suspended_reads_heartbeats_before_it_sends_one(monkeypatch) -> None:
    pair, role, none = pair_of(), frozenset({"a"}), frozenset[str]()
    a, b = (Heartbeats(me, pair[me], 7, lambda decision: None) for me in "ab")
    try:
        for _ in range(pair["a"].missed + 1):
            a._core.tick()
        assert a._core.holds == role
        for number in range(4):  # the partner has taken over meanwhile
            beat = Heartbeat("b", "a", 5, number, False, True, role, none, none, none)
            b._sockets[0].send(encode(beat, b"key"))
        monkeypatch.setattr("selectors.DefaultSelector", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            a._run()
        first = decode(b._sockets[0].recv(MAX_BYTES), b"key")
        assert first is not None
        assert first.holds == none
    finally:
        a._close()
        b._close()


def test_a_refused_port_is_detected_before_the_timeout() -> None:
    # A hundred missed heartbeats would take a minute, longer than this test waits.
    pair = {me: replace(one, missed=100, interval_ms=600) for me, one in pair_of(paths=2).items()}
    with member("b", pair["b"]) as (b, _):
        with member("a", pair["a"]) as (a, _):
            wait_until(lambda: a.status.hears_partner and b.status.hears_partner)
        wait_until(lambda: b.status.holds == {"a"})
        assert not b.status.hears_partner


def test_a_gateway_that_is_stopped_hands_over_first() -> None:
    pair = pair_of(Mode.ACTIVE_ACTIVE)
    with member("a", pair["a"]) as (a, decisions), member("b", pair["b"]) as (b, _):
        wait_until(lambda: a.status.holds == {"a"} and b.status.holds == {"b"})
        a.stop()
        assert decisions[-1] == Serve(frozenset())
        wait_until(lambda: b.status.holds == EVERYTHING)


def test_one_of_two_networks_is_enough() -> None:
    pair = pair_of(paths=2)
    broken = replace(pair["a"], paths=(replace(pair["a"].paths[0], partner="127.0.0.1:9"), pair["a"].paths[1]))
    with member("a", broken) as (a, _), member("b", pair["b"]) as (b, _):
        wait_until(lambda: a.status.hears_partner and b.status.hears_partner and a.status.holds == {"a"})
        assert b.status.holds == frozenset()


def test_heartbeats_with_another_key_are_refused_and_counted() -> None:
    pair = pair_of()
    with member("a", pair["a"]) as (a, _), member("b", replace(pair["b"], key=b"other")) as (b, _):
        wait_until(lambda: a.status.refused > 2 and b.status.refused > 2)
        assert not a.status.hears_partner


def test_noise_on_the_port_is_refused_and_counted() -> None:
    pair = pair_of()
    with member("a", pair["a"]) as (a, _), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        noise.bind(address_of(pair["b"].paths[0].listen))
        noise.connect(address_of(pair["a"].paths[0].listen))
        for size in (0, 1, 40, 700, 9000):
            noise.send(bytes(size))
        wait_until(lambda: a.status.refused == 5)
        wait_until(lambda: a.status.holds == {"a"})
        assert not a.status.hears_partner


def test_an_address_in_use_is_reported_at_once() -> None:
    pair = pair_of()
    with member("a", pair["a"]), pytest.raises(OSError, match="in use"):
        Heartbeats("a", pair["a"], 1, lambda effect: None)


class Book:
    """In-memory source and destination of records: connections are numbers."""

    record_bytes = first_record_bytes = 8

    def __init__(self, *, room: int = 1 << 30) -> None:
        self.known: set[int] = set()
        self.copies: list[int] = []
        self.room = room
        self.lost = 0
        self._new: deque[int] = deque()

    def learn(self, *numbers: int) -> None:
        self.known.update(numbers)
        self._new.extend(numbers)

    def request_all(self) -> None:
        self._new = deque(sorted(self.known))

    def collect(self, at_most_bytes: int) -> tuple[bytes, bool]:
        found = [self._new.popleft() for _ in range(min(at_most_bytes // 8, len(self._new)))]
        return b"".join(number.to_bytes(8, "big") for number in found), not self._new

    def overflows(self) -> int:
        return self.lost

    def keep(self, records: bytes) -> int:
        count = min(self.room, len(records) // 8)
        self.copies += [int.from_bytes(records[8 * n : 8 * n + 8], "big") for n in range(count)]
        self.known.update(self.copies[-count:] if count else [])
        return 8 * count

    def kept(self) -> bool:
        return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


class Side:
    def __init__(self, me: str, pair: PairConfig, book: Book) -> None:
        self.copied: list[bool] = []
        self.links = RecordLinks(me, pair, book, self.copied.append)
        self.task = asyncio.ensure_future(self.links.run())

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def test_both_members_get_all_connections_and_all_changes() -> None:
    pair, one, two = pair_of(), Book(), Book()
    one.learn(*range(5000))
    two.learn(*range(10_000, 10_010))
    a, b = Side("a", pair["a"], one), Side("b", pair["b"], two)
    await until(lambda: a.links.partner_has_copy and b.links.partner_has_copy)
    assert (a.copied, b.copied) == ([True], [True])
    assert set(two.copies) >= set(range(5000))
    one.learn(7777)
    await until(lambda: 7777 in two.copies)
    assert a.links.counters.sent_records == b.links.counters.received_records
    await a.end()
    await until(lambda: b.copied == [True, False])
    await b.end()


async def test_a_partner_that_returns_gets_a_complete_copy() -> None:
    pair, one = pair_of(), Book()
    one.learn(*range(100))
    a = Side("a", pair["a"], one)
    for _ in range(2):
        again = Book()
        b = Side("b", pair["b"], again)
        await until(lambda: a.links.partner_has_copy)
        assert again.copies == list(range(100))
        await b.end()
        await until(lambda: not a.links.partner_has_copy)
    await a.end()


async def test_a_restarted_data_process_gets_a_complete_copy() -> None:
    pair, one, two = pair_of(), Book(), Book()
    one.learn(*range(100))
    a, b = Side("a", pair["a"], one), Side("b", pair["b"], two)
    await until(lambda: b.copied == [True])
    two.copies.clear()
    b.links.restart()
    await until(lambda: b.copied == [True, False, True])
    assert two.copies == list(range(100))
    await a.end()
    await b.end()


async def test_records_without_room_wait_and_none_is_lost() -> None:
    pair, one, two = pair_of(), Book(), Book(room=7)
    one.learn(*range(500))
    a, b = Side("a", pair["a"], one), Side("b", pair["b"], two)
    await until(lambda: b.copied == [True])
    assert two.copies == list(range(500))
    await a.end()
    await b.end()


async def test_lost_records_make_a_copy_incomplete_until_all_are_sent_again() -> None:
    pair, one, two = pair_of(), Book(), Book()
    a, b = Side("a", pair["a"], one), Side("b", pair["b"], two)
    await until(lambda: a.links.partner_has_copy)
    one.known.add(5)
    one.lost += 1
    one.request_all()
    await until(lambda: a.links.counters.overflows == 1 and a.links.partner_has_copy)
    assert 5 in two.copies
    await a.end()
    await b.end()


async def test_an_unauthenticated_peer_neither_sends_nor_receives_records() -> None:
    pair, one, two = pair_of(), Book(), Book()
    one.learn(1)
    a, b = Side("a", pair["a"], one), Side("b", pair["b"], two)
    await until(lambda: b.copied == [True])
    for noise in (b"GET / HTTP/1.1\r\n\r\n" + bytes(100), bytes(4096), b"\xff" * 4096):
        reader, writer = await asyncio.open_connection(*address_of(pair["b"].paths[0].listen))
        writer.write(noise)
        with suppress(ConnectionError):
            assert await reader.read(100) == b""
        writer.transport.abort()
    await until(lambda: b.links.counters.faults == 3)
    wrong = Book()
    wrong.learn(99)
    stranger = Side(
        "a", replace(pair["a"], paths=(replace(pair["a"].paths[0], listen="127.0.0.1:0"),), key=b"x"), wrong
    )
    await until(lambda: b.links.counters.faults >= 5)
    await stranger.end()
    one.learn(2)
    await until(lambda: 2 in two.copies)
    assert (b.copied, 99 in two.copies) == ([True], False)
    await a.end()
    await b.end()


class LingeringReader:
    """A connection without data, whose reading ends only some time after it is cancelled."""

    def __init__(self) -> None:
        self.is_ending, self.may_end = asyncio.Event(), asyncio.Event()

    async def read(self, count: int) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ending.set()
            await self.may_end.wait()
        return b""


async def test_a_cancellation_that_comes_while_a_connection_ends_is_not_lost() -> None:
    reader, writer = LingeringReader(), SimpleNamespace(write=lambda data: None)
    links = RecordLinks("a", pair_of()["a"], Book(), lambda copied: None)
    task = asyncio.ensure_future(links._send(reader, writer))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    links.restart()
    await reader.is_ending.wait()
    task.cancel()
    reader.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task


TAKES = (("port0", IPv4Address(OTHER_VTEP)), ("port1", IPv4Address("203.0.113.3")))


def test_the_work_follows_the_roles() -> None:
    lower, higher = replace(local_config(), gateway_id="a"), replace(local_config(), gateway_id="b")
    standby = replace(pair_of()["b"], takes_over=TAKES)
    nothing, all_of_it = work_of(higher, standby, frozenset()), work_of(higher, standby, frozenset({"a"}))
    assert (nothing.active, nothing.taken_vtep, nothing.duty.public, nothing.duty.taken) == (False, None, False, {})
    assert (all_of_it.active, all_of_it.taken_vtep) == (True, IPv4Address(OTHER_VTEP))
    assert all_of_it.duty.taken == {UNDERLAY: TAKES[0][1], EXTERNAL: TAKES[1][1]}
    assert nothing.duty.own  # its own addresses are no role
    relieved = work_of(lower, replace(pair_of()["a"], takes_over=TAKES), frozenset())
    assert (relieved.active, relieved.duty.own, relieved.duty.public) == (False, False, False)
    both = replace(pair_of(Mode.ACTIVE_ACTIVE)["b"], takes_over=TAKES)
    assert roles_of("b", both) == EVERYTHING
    half = work_of(higher, both, frozenset({"b"}))
    assert (half.active, half.duty.own, half.duty.public, half.taken_vtep) == (True, True, False, None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"partner_id": "gw1"},
            "partner.partner_id: 'gw1' is not the other gateway's: it has to differ",
        ),
        ({"paths": ()}, "partner.paths: there has to be one at least"),
        (
            {"paths": (Path(listen="10.0.0.1:1", partner="10.0.0.1:1"),)},
            "partner.paths[0]: 10.0.0.1:1 is both ends of it",
        ),
        ({"missed": 1}, "partner.missed: 1 is not within 2 to 100"),
        ({"interval_ms": 1}, "partner.interval_ms: 1 is not within 10 to 10,000"),
        (
            {"takes_over": ()},
            "partner.takes_over: the partner's VTEP, its address on an underlay interface",
        ),
        ({"takes_over": (*TAKES, ("eth9", IPv4Address(1)))}, "partner.takes_over[2].interface: 'eth9' is none of"),
        (
            {"takes_over": (("port0", IPv4Address(VTEP)),)},
            "partner.takes_over[0].address: 10.0.0.1 is this gateway",
        ),
        ({"takes_over": (*TAKES, TAKES[0])}, "partner.takes_over[2].interface: port0 is there twice"),
        ({"mode": Mode.ACTIVE_ACTIVE}, "nat_ports: two gateways that both serve need ranges that do not overlap"),
    ],
)
def test_an_invalid_partner_is_refused(change: dict[str, object], problem: str) -> None:
    sound = replace(pair_of()["a"], takes_over=TAKES)
    assert list(pair_problems(local_config(), sound)) == []
    (line,) = pair_problems(local_config(), replace(sound, **change))  # type: ignore[arg-type]
    assert line.startswith(problem)
