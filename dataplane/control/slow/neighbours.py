"""The MACs of the routers, VTEPs and customers that packets are sent to, learned by asking.

Only an answer to a question is believed, and only one for each question; what anyone else says of an address has us
ask anew. A neighbour that is needed is asked for at once, then less and less often, for as long as it is needed. One
that has answered is asked again while it lives; it is forgotten after so many polls without an answer, not because of
time that went by: a gateway that did not get to run forgets nothing.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from dataplane.control.slow.view import is_one_station

_MS = 1_000_000
FIRST_RETRY_NS, LAST_RETRY_NS = 100 * _MS, 10_000 * _MS
REACHABLE_NS = 30_000 * _MS
"""RFC 4861, 10: how long an answer holds before it is asked for again."""
POLL_NS = 1_000 * _MS
UNICAST_POLLS, MAX_POLLS = 3, 10
"""Polls go to the MAC that is known, then to all; after so many without an answer the MAC is forgotten."""
BELIEVED_NS = 3_000 * _MS
"""After this an answer comes too late."""
UNNEEDED_ATTEMPTS = 6
"""What no configuration names is given up after so many questions."""


class Place(NamedTuple):
    """Where a neighbour is: `vlan` is 0 where frames have no tag; the address has 4 or 16 bytes."""

    port: int
    vlan: int
    address: bytes


class Question(NamedTuple):
    """Ask for a neighbour: all, or `mac`."""

    place: Place
    mac: bytes | None


@dataclass(slots=True)
class _Entry:
    needed: bool
    due_ns: int
    mac: bytes | None = None
    unanswered: int = 0
    asked_ns: int | None = None
    """When the last question went out that has no answer yet."""
    heard_ns: int = 0


class Neighbours:
    """What is known of each place. `version` grows when what `resolved` tells has changed."""

    def __init__(self, most: int = 1 << 14) -> None:
        self.version = 0
        self.refused = 0
        """Places that found no room."""
        self.unasked = 0
        """Answers that nobody had asked for, or a second one."""
        self._most = most
        self._entries: dict[Place, _Entry] = {}
        self._due: list[tuple[int, Place]] = []

    def need(self, places: Iterable[Place], now_ns: int) -> None:
        """Keep these resolved from now on, and let go of those that were needed and are not among them."""
        needed = dict.fromkeys(places)
        for place in [place for place, entry in self._entries.items() if entry.needed and place not in needed]:
            self._forget(place)
        for place in needed:
            entry = self._entries.get(place)
            if entry is not None:
                entry.needed = True
            else:
                self._add(place, True, now_ns)

    def seek(self, place: Place, now_ns: int) -> None:
        """Ask for a place that a packet wants to go to, unless that is under way."""
        if place not in self._entries:
            self._add(place, False, now_ns)

    def heard(self, place: Place, mac: bytes, now_ns: int) -> bool:
        """Take an answer; tell whether it was believed."""
        entry = self._entries.get(place)
        if entry is None or entry.asked_ns is None or now_ns - entry.asked_ns > BELIEVED_NS or not is_one_station(mac):
            self.unasked += 1
            return False
        entry.asked_ns, entry.heard_ns, entry.unanswered = None, now_ns, 0
        self._schedule(place, entry, now_ns + REACHABLE_NS)
        if mac != entry.mac:
            entry.mac = mac
            self.version += 1
        return True

    def hinted(self, place: Place, mac: bytes, now_ns: int) -> None:
        """Ask all again where somebody says of its own accord that a neighbour is elsewhere.

        Not before a second after its last answer, so that nobody can have us ask all the time.
        """
        entry = self._entries.get(place)
        if entry is not None and entry.mac not in (None, mac) and entry.asked_ns is None:
            entry.unanswered = UNICAST_POLLS  # the old MAC may be gone: ask all
            self._schedule(place, entry, min(entry.due_ns, max(now_ns, entry.heard_ns + POLL_NS)))

    def tick(self, now_ns: int) -> list[Question]:
        """Return the questions that are due."""
        questions = []
        while self._due and self._due[0][0] <= now_ns:
            due_ns, place = heapq.heappop(self._due)
            entry = self._entries.get(place)
            if entry is None or entry.due_ns != due_ns:
                continue  # scheduled anew since
            question = self._ask(place, entry, now_ns)
            if question is not None:
                questions.append(question)
        return questions

    def next_due_ns(self) -> int | None:
        """Return when `tick` has something to do, or a little before."""
        return self._due[0][0] if self._due else None

    def mac_of(self, place: Place) -> bytes | None:
        """Return the MAC of a place."""
        entry = self._entries.get(place)
        return entry.mac if entry else None

    def resolved(self) -> dict[Place, bytes]:
        """Return all that is known."""
        return {place: entry.mac for place, entry in self._entries.items() if entry.mac is not None}

    def __len__(self) -> int:
        return len(self._entries)

    def _ask(self, place: Place, entry: _Entry, now_ns: int) -> Question | None:
        if entry.mac is not None and entry.unanswered >= MAX_POLLS:
            entry.mac, entry.unanswered = None, 0
            self.version += 1
        if entry.mac is None and not entry.needed and entry.unanswered >= UNNEEDED_ATTEMPTS:
            self._forget(place)
            return None
        to = entry.mac if entry.unanswered < UNICAST_POLLS else None
        retry_ns = POLL_NS if entry.mac else min(FIRST_RETRY_NS << min(entry.unanswered, 10), LAST_RETRY_NS)
        entry.asked_ns = now_ns
        entry.unanswered += 1
        self._schedule(place, entry, now_ns + retry_ns)
        return Question(place, to)

    def _add(self, place: Place, needed: bool, now_ns: int) -> None:
        if len(self._entries) >= self._most:
            self.refused += 1
            return
        self._entries[place] = _Entry(needed, now_ns)
        heapq.heappush(self._due, (now_ns, place))

    def _schedule(self, place: Place, entry: _Entry, due_ns: int) -> None:
        if entry.due_ns != due_ns:
            entry.due_ns = due_ns
            heapq.heappush(self._due, (due_ns, place))
        if len(self._due) > 4 * len(self._entries) + 64:  # what was scheduled anew leaves its old time behind
            self._due = [(known.due_ns, at) for at, known in self._entries.items()]
            heapq.heapify(self._due)

    def _forget(self, place: Place) -> None:
        if self._entries.pop(place).mac is not None:
            self.version += 1
