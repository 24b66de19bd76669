"""Neighbour resolution under any order of requests, replies, forged replies and time."""

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dataplane.control.slow.neighbours import (
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
        self.questions: list[tuple[int, Place]] = []
        self.version = 0

    @rule(places=st.sets(st.sampled_from(PLACES)))
    def needs(self, places: set[Place]) -> None:
        self.neighbours.need(sorted(places), self.now)

    @rule(place=st.sampled_from(PLACES))
    def seeks(self, place: Place) -> None:
        self.neighbours.seek(place, self.now)

    @rule(place=st.sampled_from(PLACES), mac=st.sampled_from(MACS))
    def hears(self, place: Place, mac: bytes) -> None:
        asked = self.open.get(place)
        believed = self.neighbours.heard(place, mac, self.now)
        if believed:
            assert asked is not None
            assert self.now - asked <= REPLY_TIMEOUT_NS
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
        for question in self.neighbours.tick(self.now):
            self.open[question.place] = self.now
            self.questions.append((self.now, question.place))
            assert question.mac in (None, self.known.get(question.place))
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


def run(neighbours: Neighbours, start: int, end: int, answers: bytes | None = None) -> list[int]:
    """Advance time to `end`; return the times of requests. Each request gets its reply at once, if there is one."""
    asked, now = [], start
    while (due := neighbours.next_due_ns()) is not None and max(now, due) <= end:
        now = max(now, due)
        for question in neighbours.tick(now):
            asked.append(now)
            if answers:
                assert neighbours.heard(question.place, answers, now)
    return asked


def test_a_needed_silent_neighbour_is_requested_forever_with_backoff() -> None:
    neighbours = Neighbours()
    neighbours.need(PLACES[:1], 0)
    asked = run(neighbours, 0, 200 * SECOND)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert asked[0] == 0
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
    assert polls == MAX_POLLS + 1  # the last one asks for a neighbour that is not known any more


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
