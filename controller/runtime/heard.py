"""Bring together what OpenFlow frames and telemetry agents say of the cabling, and post what counts of it."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping

from heddle.controller.cabling.heard import Neighbour
from heddle.controller.cabling.merging import Changes, HeardBy, Merged
from heddle.controller.cabling.sources.reported import Reports, peers
from heddle.controller.model.cabling import Peer
from heddle.controller.model.event import Heard
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.runtime.limits.limited import Limit

PAUSE_FACTOR, MAX_PAUSE_S = 3.0, 10.0
"""The pause after reports were matched, in times of what it took: plain Python in a thread slows the loop."""
_LOG = logging.getLogger("heddle.controller")


class HeardPeers:
    """What ports hear by every source. What cannot be posted, as the inbox is full, goes with the next call.

    `limited` counts ports past the limit of the table.
    """

    def __init__(self, post: Callable[[Heard], bool], limited: Counter[Limit]) -> None:
        self._merged = Merged()
        self._post, self._limited = post, limited
        self._unposted: dict[PortRef, Peer | None] = {}

    def hear(self, source: HeardBy, changes: Changes) -> bool:
        """Take what a source hears anew; return False where the inbox is full."""
        refused = self._merged.refused
        self._unposted |= self._merged.update(source, changes)
        self._limited[Limit.HEARD_PORTS] += self._merged.refused - refused
        if self._unposted and not self._post(Heard(changes=dict(self._unposted))):
            return False
        self._unposted.clear()
        return True


class ReportedPeers:
    """What agents report, by the fabric's names: matched in a thread, one report of all ports at a time."""

    def __init__(self, fabric: Fabric, into: HeardPeers) -> None:
        self._fabric, self._into = fabric, into
        self._known: Mapping[PortRef, Neighbour] = {}
        self._next: Reports | None = None
        self._matching: asyncio.Task[None] | None = None

    def report(self, reports: Reports | None) -> None:
        """Take what all ports hear, None where that has not changed; called at least once per sampling period."""
        self._next = reports if reports is not None else self._next
        if self._matching is not None and not self._matching.done():
            return
        if self._next is not None:
            reports, self._next = self._next, None
            self._matching = asyncio.create_task(self._matched(reports))
        else:
            self._into.hear(HeardBy.AGENTS, {})

    async def close(self) -> None:
        """End the matching."""
        if self._matching is not None:
            self._matching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._matching

    async def _matched(self, reports: Reports) -> None:
        """Match reports and post what has changed, then pause."""
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        try:
            found = await asyncio.to_thread(peers, self._fabric, reports)
        except Exception:
            _LOG.exception("the names that ports hear could not be matched; what was heard before stays")
            return
        changes: dict[PortRef, Peer | None] = dict.fromkeys(self._known.keys() - found.keys())
        for port, peer in found.items():
            if self._known.get(port) != peer:
                changes[port] = Peer(peer.switch, peer.port, peer.nic)
        self._known = found
        self._into.hear(HeardBy.AGENTS, changes)
        await asyncio.sleep(min(MAX_PAUSE_S, PAUSE_FACTOR * (now_s() - began_s)))
