"""The events that wait for the loop, in two bounded lanes: what the network reports overtakes what callers request.

Each lane keeps the order of arrival, and all events of a peer are of one lane. With a share for each peer none takes
all of a lane. A port's state replaces one of the same port that still waits, unless its switch has posted another kind
of event since: a switch whose ports toggle occupies one place for each port.

A turn takes the topology lane first, then a few requests in any case: a failure waits for few of them, and requests
advance however often the topology changes.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.controller.model.event import (
    CablesJudged,
    Compiled,
    Congested,
    Diagnosed,
    Due,
    Event,
    Heard,
    Installed,
    InstallFailed,
    InstallLags,
    NotFollowed,
    PortsAstray,
    PortsFound,
    PortStatus,
    RulesRead,
    Solved,
    Suggested,
    SwitchCaughtUp,
    SwitchDown,
    SwitchUp,
)
from heddle.controller.runtime.limits.limited import Limit

LANE_LIMIT = 65_536
"""The events of a lane that may wait: a full lane of requests refuses no failure."""
PEER_SHARE = 4_096
"""The events of one switch, gateway or host that may wait, beside the begin and the end of its session."""
MAX_REQUESTS = 16
"""The requests of a turn: each may cost the brain half a millisecond where thousands wait for a plan."""
TOPOLOGY = frozenset({
    SwitchUp, SwitchDown, PortStatus, SwitchCaughtUp, Congested, CablesJudged, PortsAstray, Heard, Due,
    Solved, PortsFound, Compiled, Installed, InstallFailed, InstallLags, RulesRead, Suggested, Diagnosed, NotFollowed,
})  # fmt: skip
"""What the network reports, and the results of work that a decision began. The ticks that end leases are not of it: a
renewal that waits would come too late."""


@dataclass(slots=True)
class _Waiting:
    number: int
    event: Event
    peer: str


class Inbox:
    """Events from all edges; `refused` counts those beyond a peer's share, `overflowed` those beyond a lane's limit.

    `overtook` counts the topology events that were taken before a request that had waited for longer.
    """

    def __init__(self, refused: Counter[Limit]) -> None:
        self.overflowed = self.overtook = 0
        self._refused = refused
        self._put = 0
        self._topology: deque[_Waiting] = deque()
        self._requests: deque[_Waiting] = deque()
        self._of_peer: Counter[str] = Counter()
        self._ports: dict[str, dict[int, _Waiting]] = {}
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> tuple[int, int]:
        """Return how many events of the topology, and how many requests, wait."""
        return len(self._topology), len(self._requests)

    def put(self, event: Event, peer: str = "") -> bool:
        """Append an event; return False where its lane or the share of the peer is full. "" is the controller."""
        ports = self._ports.get(peer, {})
        if isinstance(event, PortStatus) and (older := ports.get(event.port)) is not None:
            older.event = event
            return True
        lane = self._topology if type(event) in TOPOLOGY else self._requests
        if len(lane) >= LANE_LIMIT:
            self.overflowed += 1
            return False
        if peer and self._of_peer[peer] >= PEER_SHARE and not isinstance(event, SwitchUp | SwitchDown):
            self._refused[Limit.INBOX] += 1
            return False
        self._put += 1
        waiting = _Waiting(self._put, event, peer)
        lane.append(waiting)
        self._arrived.set()
        if peer:
            self._of_peer[peer] += 1
            if isinstance(event, PortStatus):
                self._ports.setdefault(peer, {})[event.port] = waiting
            else:
                self._ports.pop(peer, None)
        return True

    async def take(self, most: int) -> list[Event]:
        """Wait for events; return the oldest of the topology, at most so many, then the oldest requests."""
        await self._arrived.wait()
        taken = [self._topology.popleft() for _ in range(min(most, len(self._topology)))]
        if self._requests:
            oldest = self._requests[0].number
            self.overtook += sum(one.number > oldest for one in taken)
        taken += [self._requests.popleft() for _ in range(min(MAX_REQUESTS, len(self._requests)))]
        for one in taken:
            self._left(one)
        if not (self._topology or self._requests):
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
