"""Neighbour cache: resolve and track the MACs of routers, VTEPs and customers.

Only a reply to a request is accepted, one per request; an unsolicited claim about an address triggers a new request. A
neighbour that is needed is requested at once, then with exponential back-off for as long as it is needed. A resolved
neighbour is polled; it expires after MAX_POLLS polls without a reply, not by elapsed time, so a gateway that was
suspended loses no entries.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from heddle.dataplane.control.slow.view import is_one_station

_MS = 1_000_000
FIRST_RETRY_NS, LAST_RETRY_NS = 100 * _MS, 10_000 * _MS
REACHABLE_NS = 30_000 * _MS
"""RFC 4861, 10: time until a resolved neighbour is polled."""
POLL_NS = 1_000 * _MS
UNICAST_POLLS, MAX_POLLS = 3, 10
"""Polls are unicast first, then broadcast or multicast; after MAX_POLLS without a reply the MAC expires."""
REPLY_TIMEOUT_NS = 3_000 * _MS
"""A later reply is treated as unsolicited."""
UNNEEDED_ATTEMPTS = 6
"""Requests for a neighbour that no configuration names."""


class Place(NamedTuple):
    """Key of a neighbour: `vlan` is 0 for untagged frames; the address has 4 or 16 bytes."""

    port: int
    vlan: int
    address: bytes


class Request(NamedTuple):
    """A request to send: unicast to `mac`, or to all stations if it is None."""

    place: Place
    mac: bytes | None


@dataclass(slots=True)
class _Entry:
    needed: bool
    due_ns: int
    mac: bytes | None = None
    unanswered: int = 0
    requested_ns: int | None = None
    """When the newest request without a reply was sent."""
    heard_ns: int = 0


class Neighbours:
    """The neighbour cache. `version` grows whenever the result of `resolved` changes."""

    def __init__(self, max_entries: int = 1 << 14) -> None:
        self.version = 0
        self.refused = 0
        """Neighbours refused because the cache was full."""
        self.unsolicited = 0
        """Replies without a request, late or duplicated."""
        self._max_entries = max_entries
        self._entries: dict[Place, _Entry] = {}
        self._due: list[tuple[int, Place]] = []

    def need(self, places: Iterable[Place], now_ns: int) -> None:
        """Keep exactly these neighbours resolved; entries needed before and not among them are removed."""
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
        """Start to resolve the neighbour to which a packet is to be sent, unless it is in the cache."""
        if place not in self._entries:
            self._add(place, False, now_ns)

    def heard(self, place: Place, mac: bytes, now_ns: int) -> bool:
        """Process a reply; return whether it was accepted."""
        entry = self._entries.get(place)
        if (
            entry is None
            or entry.requested_ns is None
            or now_ns - entry.requested_ns > REPLY_TIMEOUT_NS
            or not is_one_station(mac)
        ):
            self.unsolicited += 1
            return False
        entry.requested_ns, entry.heard_ns, entry.unanswered = None, now_ns, 0
        self._schedule(place, entry, now_ns + REACHABLE_NS)
        if mac != entry.mac:
            entry.mac = mac
            self.version += 1
        return True

    def hinted(self, place: Place, mac: bytes, now_ns: int) -> None:
        """Process an unsolicited claim that a neighbour has another MAC: request it again from all stations.

        The request is sent at the earliest a second after the last reply, which limits the rate that a host can cause.
        """
        entry = self._entries.get(place)
        if entry is not None and entry.mac not in (None, mac) and entry.requested_ns is None:
            entry.unanswered = UNICAST_POLLS  # the old MAC may be gone: not unicast
            self._schedule(place, entry, min(entry.due_ns, max(now_ns, entry.heard_ns + POLL_NS)))

    def tick(self, now_ns: int) -> list[Request]:
        """Return the requests that are due."""
        requests = []
        while self._due and self._due[0][0] <= now_ns:
            due_ns, place = heapq.heappop(self._due)
            entry = self._entries.get(place)
            if entry is None or entry.due_ns != due_ns:
                continue  # scheduled anew since
            request = self._request(place, entry, now_ns)
            if request is not None:
                requests.append(request)
        return requests

    def mac_of(self, place: Place) -> bytes | None:
        """Return the MAC of a neighbour; None if it is not resolved."""
        entry = self._entries.get(place)
        return entry.mac if entry else None

    def resolved(self) -> dict[Place, bytes]:
        """Return the MACs of all resolved neighbours."""
        return {place: entry.mac for place, entry in self._entries.items() if entry.mac is not None}

    def __len__(self) -> int:
        return len(self._entries)

    def _request(self, place: Place, entry: _Entry, now_ns: int) -> Request | None:
        if entry.mac is not None and entry.unanswered >= MAX_POLLS:
            entry.mac, entry.unanswered = None, 0
            self.version += 1
        if entry.mac is None and not entry.needed and entry.unanswered >= UNNEEDED_ATTEMPTS:
            self._forget(place)
            return None
        to = entry.mac if entry.unanswered < UNICAST_POLLS else None
        retry_ns = POLL_NS if entry.mac else min(FIRST_RETRY_NS << min(entry.unanswered, 10), LAST_RETRY_NS)
        entry.requested_ns = now_ns
        entry.unanswered += 1
        self._schedule(place, entry, now_ns + retry_ns)
        return Request(place, to)

    def _add(self, place: Place, needed: bool, now_ns: int) -> None:
        if len(self._entries) >= self._max_entries:
            self.refused += 1
            return
        self._entries[place] = _Entry(needed, now_ns)
        heapq.heappush(self._due, (now_ns, place))

    def _schedule(self, place: Place, entry: _Entry, due_ns: int) -> None:
        if entry.due_ns != due_ns:
            entry.due_ns = due_ns
            heapq.heappush(self._due, (due_ns, place))
        if len(self._due) > 4 * len(self._entries) + 64:  # a rescheduled entry leaves its old time in the heap
            self._due = [(known.due_ns, at) for at, known in self._entries.items()]
            heapq.heapify(self._due)

    def _forget(self, place: Place) -> None:
        if self._entries.pop(place).mac is not None:
            self.version += 1
