"""Merge what several sources say that a port hears: the newest change counts, and silence says nothing.

What a source repeats is no news. So a daemon that still lists the neighbour of before does not undo what another
source has heard since; nor does its first report, of which it is not known how old it is.
"""

from collections.abc import Mapping
from enum import StrEnum

from heddle.controller.model.cabling import Peer
from heddle.controller.model.fabric import PortRef

MAX_PORTS = 65_536
"""The ports that are kept: more than twice as many as the largest fabric of a test has."""
Changes = Mapping[PortRef, Peer | None]


class HeardBy(StrEnum):
    """A source of what ports hear: frames over OpenFlow, LLDP daemons by telemetry agents, or pings over SRv6."""

    OPENFLOW = "openflow"
    AGENTS = "agents"
    PINGS = "pings"


class Merged:
    """What each port hears by each source, and by which of them it counts; `refused` counts those past MAX_PORTS."""

    def __init__(self, max_ports: int = MAX_PORTS) -> None:
        self.refused = 0
        self._max_ports = max_ports
        self._heard: dict[PortRef, dict[HeardBy, Peer]] = {}
        self._counts: dict[PortRef, Peer] = {}

    def update(self, source: HeardBy, changes: Changes) -> dict[PortRef, Peer | None]:
        """Take what a source hears anew, None for nothing any more; return what counts from now on, where that differs.

        A port that is down hears nothing: OpenFlow's None ends what agents say, too, until they say something new.
        """
        found: dict[PortRef, Peer | None] = {}
        for port, peer in changes.items():
            before, now = self._counts.get(port), self._take(source, port, peer)
            if now != before:
                found[port] = now
        return found

    def _take(self, source: HeardBy, port: PortRef, peer: Peer | None) -> Peer | None:
        known = self._heard.get(port, {})
        left = {} if source is HeardBy.OPENFLOW and peer is None else dict(known)
        left.pop(source, None)
        if peer is None:
            now = next(iter(left.values()), None)
        elif not known and len(self._heard) >= self._max_ports:
            self.refused += 1
            return None
        else:
            is_first_report = source is HeardBy.AGENTS and source not in known
            now = self._counts.get(port, peer) if is_first_report else peer
            left[source] = peer
        self._keep(port, left, now)
        return now

    def _keep(self, port: PortRef, left: dict[HeardBy, Peer], now: Peer | None) -> None:
        if now is None:
            self._heard.pop(port, None)
            self._counts.pop(port, None)
        else:
            self._heard[port], self._counts[port] = left, now
