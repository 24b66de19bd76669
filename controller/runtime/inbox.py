"""The queue of events that wait for the loop: bounded, with a share for each peer, so that none takes all of it.

Events keep the order in which they arrived. A port's state replaces one of the same port that still waits, unless its
switch has posted another kind of event since: a switch whose ports toggle occupies one place for each port.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.controller.model.event import Event, PortStatus, SwitchDown, SwitchUp
from heddle.controller.runtime.limits.limited import Limit

INBOX_LIMIT = 65_536
PEER_SHARE = 4_096
"""The events of one switch, gateway or host that may wait, beside the begin and the end of its session."""


@dataclass(slots=True)
class _Waiting:
    event: Event
    peer: str


class Inbox:
    """Events from all edges; `refused` counts those beyond a peer's share, `overflowed` those beyond the limit."""

    def __init__(self, refused: Counter[Limit]) -> None:
        self.overflowed = 0
        self._refused = refused
        self._waiting: deque[_Waiting] = deque()
        self._of_peer: Counter[str] = Counter()
        self._ports: dict[str, dict[int, _Waiting]] = {}
        self._arrived = asyncio.Event()

    def put(self, event: Event, peer: str = "") -> bool:
        """Append an event; return False where the inbox or the share of the peer is full. "" is the controller."""
        ports = self._ports.get(peer, {})
        if isinstance(event, PortStatus) and (older := ports.get(event.port)) is not None:
            older.event = event
            return True
        if len(self._waiting) >= INBOX_LIMIT:
            self.overflowed += 1
            return False
        if peer and self._of_peer[peer] >= PEER_SHARE and not isinstance(event, SwitchUp | SwitchDown):
            self._refused[Limit.INBOX] += 1
            return False
        waiting = _Waiting(event, peer)
        self._waiting.append(waiting)
        self._arrived.set()
        if peer:
            self._of_peer[peer] += 1
            if isinstance(event, PortStatus):
                self._ports.setdefault(peer, {})[event.port] = waiting
            else:
                self._ports.pop(peer, None)
        return True

    async def take(self, most: int) -> list[Event]:
        """Wait for events; return the oldest, at most so many."""
        await self._arrived.wait()
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        for one in taken:
            self._left(one)
        if not self._waiting:
            self._arrived.clear()
        return [one.event for one in taken]

    def _left(self, one: _Waiting) -> None:
        if not one.peer:
            return
        self._of_peer[one.peer] -= 1
        if not self._of_peer[one.peer]:
            del self._of_peer[one.peer]
        ports = self._ports.get(one.peer, {})
        if isinstance(one.event, PortStatus) and ports.get(one.event.port) is one:
            del ports[one.event.port]
            if not ports:
                del self._ports[one.peer]


def coalesced(events: Sequence[Event]) -> list[Event]:
    """Return events without those port states that another of the same port follows, before any other kind of event."""
    kept: list[Event] = []
    ports: dict[tuple[str, int], PortStatus] = {}
    for event in events:
        if isinstance(event, PortStatus):
            ports[event.switch, event.port] = event
        else:
            kept += [*ports.values(), event]
            ports = {}
    return [*kept, *ports.values()]
