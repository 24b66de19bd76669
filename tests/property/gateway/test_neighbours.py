"""Neighbour resolution under any order of requests, replies, forged replies and time."""

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from heddle.dataplane.control.slow.neighbours import (
    FIRST_RETRY_NS,
    LAST_RETRY_NS,
    MAX_POLLS,
    REACHABLE_NS,
    REPLY_TIMEOUT_NS,
    UNNEEDED_ATTEMPTS,
    Neighbours,
    Place,
)
from tests.support.examples import examples

SECOND = 1_000_000_000
PLACES = [Place(port, vlan, bytes([10, 0, 0, last])) for port in (0, 1) for vlan in (0, 7) for last in (1, 2)]
MACS = [bytes([2, 0, 0, 0, 0, last]) for last in range(1, 4)]
MAX = 6


class NeighbourMachine(RuleBasedStateMachine):
    """A model of the rules alone: a neighbour is the first reply to a request that is not too old."""

    @initialize()
    def start(self) -> None:
        self.neighbours = Neighbours(MAX)
        self.now = 0
        self.open: dict[Place, int] = {}
        self.known: dict[Place, bytes] = {}
        self.sent_requests: list[tuple[int, Place]] = []
        self.version = 0

    @rule(places=st.sets(st.sampled_from(PLACES)))
    def needs(self, places: set[Place]) -> None:
        self.neighbours.need(sorted(places), self.now)

    @rule(place=st.sampled_from(PLACES))
    def seeks(self, place: Place) -> None:
        self.neighbours.seek(place, self.now)

    @rule(place=st.sampled_from(PLACES), mac=st.sampled_from(MACS))
    def hears(self, place: Place, mac: bytes) -> None:
        requested = self.open.get(place)
        believed = self.neighbours.heard(place, mac, self.now)
        if believed:
            assert requested is not None
            assert self.now - requested <= REPLY_TIMEOUT_NS
            del self.open[place]
            self.known[place] = mac

    @rule(place=st.sampled_from(PLACES))
    def hears_a_group(self, place: Place) -> None:
        assert not self.neighbours.heard(place, b"\xff" * 6, self.now)

    @rule(place=st.sampled_from(PLACES), mac=st.sampled_from(MACS))
    def hears_an_unsolicited_reply(self, place: Place, mac: bytes) -> None:
        self.neighbours.hinted(place, mac, self.now)

    @rule(later=st.sampled_from([0, FIRST_RETRY_NS, SECOND, 4 * SECOND, REACHABLE_NS, 600 * SECOND]))
    def time_passes(self, later: int) -> None:
        self.now += later
        for sent in self.neighbours.tick(self.now):
            self.open[sent.place] = self.now
            self.sent_requests.append((self.now, sent.place))
            assert sent.mac in (None, self.known.get(sent.place))
        assert self.neighbours.tick(self.now) == []

    @invariant()
    def only_solicited_replies_are_known(self) -> None:
        resolved = self.neighbours.resolved()
        assert all(self.known.get(place) == mac for place, mac in resolved.items())
        assert len(self.neighbours) <= MAX
        if resolved != getattr(self, "before", {}):
            assert self.neighbours.version > self.version
        self.before, self.version = resolved, self.neighbours.version


TestNeighbours = NeighbourMachine.TestCase
TestNeighbours.settings = settings(max_examples=examples(120), stateful_step_count=40, deadline=None)


def run(neighbours: Neighbours, start: int, end: int, reply_mac: bytes | None = None) -> list[int]:
    """Advance time to `end`; return the times of requests. Each request gets its reply at once, if there is one."""
    requested, now = [], start
    while neighbours._due and max(now, neighbours._due[0][0]) <= end:
        now = max(now, neighbours._due[0][0])
        for sent in neighbours.tick(now):
            requested.append(now)
            if reply_mac:
                assert neighbours.heard(sent.place, reply_mac, now)
    return requested


def test_a_needed_silent_neighbour_is_requested_forever_with_backoff() -> None:
    neighbours = Neighbours()
    neighbours.need(PLACES[:1], 0)
    requested = run(neighbours, 0, 200 * SECOND)
    gaps = [later - earlier for earlier, later in pairwise(requested)]
    assert requested[0] == 0
    assert gaps[0] == FIRST_RETRY_NS
    assert gaps == sorted(gaps)
    assert gaps[-1] == LAST_RETRY_NS


def test_requests_for_a_sought_silent_neighbour_end() -> None:
    neighbours = Neighbours()
    neighbours.seek(PLACES[0], 0)
    assert len(run(neighbours, 0, 200 * SECOND)) == UNNEEDED_ATTEMPTS
    assert len(neighbours) == 0


def test_a_neighbour_that_replies_is_kept_and_polled_by_unicast() -> None:
    neighbours = Neighbours()
    neighbours.need(PLACES[:1], 0)
    assert len(run(neighbours, 0, 10 * REACHABLE_NS, MACS[0])) == 11
    assert neighbours.version == 1


def test_a_dead_neighbour_is_removed_after_its_polls() -> None:
    neighbours = Neighbours()
    neighbours.need(PLACES[:1], 0)
    neighbours.tick(0)
    neighbours.heard(PLACES[0], MACS[0], 0)
    late = 3600 * SECOND  # a process that was stopped for an hour
    polls = 0
    while neighbours.mac_of(PLACES[0]):
        polls += len(neighbours.tick(late))
        late += SECOND
    assert polls == MAX_POLLS + 1  # the last one is a request for the removed neighbour


def test_an_announced_new_mac_is_verified_and_used() -> None:
    neighbours = Neighbours()
    neighbours.need(PLACES[:1], 0)
    run(neighbours, 0, 0, MACS[0])
    neighbours.hinted(PLACES[0], MACS[1], SECOND // 2)
    assert neighbours.mac_of(PLACES[0]) == MACS[0]
    assert run(neighbours, SECOND // 2, 2 * SECOND, MACS[1]) == [SECOND]
    assert neighbours.mac_of(PLACES[0]) == MACS[1]


def test_neighbours_without_room_are_counted() -> None:
    neighbours = Neighbours(2)
    neighbours.need(PLACES, 0)
    assert (len(neighbours), neighbours.refused) == (2, len(PLACES) - 2)


def test_a_claim_while_a_request_is_due_already_does_not_delay_or_repeat_it() -> None:
    neighbours = Neighbours()
    neighbours.need(PLACES[:1], 0)
    run(neighbours, 0, 0, MACS[0])
    for now in range(10):
        neighbours.hinted(PLACES[0], MACS[1], now)
    assert run(neighbours, 0, 2 * SECOND, MACS[1]) == [SECOND]


def test_neighbours_that_change_their_mac_every_second_are_each_requested_once_a_second() -> None:
    neighbours, seconds = Neighbours(), range(1, 2 * REACHABLE_NS // SECOND)
    neighbours.need(PLACES, 0)
    for second in (0, *seconds):
        mac, now = MACS[second % 2], second * SECOND
        for place in PLACES:
            neighbours.hinted(place, mac, now)
        requested = [sent.place for sent in neighbours.tick(now)]
        assert sorted(requested) == sorted(PLACES)
        assert all(neighbours.heard(place, mac, now) for place in requested)
    assert neighbours.tick(now + REACHABLE_NS - 1) == []
    assert sorted(sent.place for sent in neighbours.tick(now + REACHABLE_NS)) == sorted(PLACES)
