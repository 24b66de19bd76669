"""Record in the history which links are down and drained: at the start, and whenever the topology changes."""

import asyncio

from heddle.controller.brain.state import State
from heddle.controller.runtime.background import Background
from heddle.controller.runtime.feeds import TOPOLOGY, Feeds
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.telemetry import LinkRecord
from heddle.controller.views.link_states import Flags, link_states


class LinkHistory:
    """Follows the topology where telemetry has a history; without one it does nothing."""

    def __init__(self, loop: Loop, feeds: Feeds) -> None:
        self._loop, self._feeds = loop, feeds
        self._background = Background()

    def start(self) -> None:
        """Begin to record."""
        if self._feeds.telemetry.history is not None:
            self._background.start(self._run())

    async def close(self) -> None:
        """Stop."""
        await self._background.close()

    async def _run(self) -> None:
        watch = self._feeds.topology.open(TOPOLOGY)
        recorded = None
        try:
            recorded = await self._record(recorded)
            async for _ in watch:
                recorded = await self._record(recorded)
        finally:
            self._feeds.topology.close(TOPOLOGY, watch)

    async def _record(self, before: LinkRecord | None) -> LinkRecord:
        """Record the states of links where they have changed."""
        unix_ns = self._loop.now_unix_ms() * 1_000_000
        found = await asyncio.to_thread(record_of, self._loop.state, unix_ns)
        history = self._feeds.telemetry.history
        if history is not None and (before is None or before[1:] != found[1:]):
            history.record_links(found)
        return found


def record_of(state: State, unix_ns: int) -> LinkRecord:
    """Return the links that are down and drained: of each cable and NIC the first direction."""
    links, (up, drained) = state.fabric.directed_links, link_states(state)

    def named(flags: Flags) -> tuple[str, ...]:
        return tuple(links[2 * at].id for at in flags[::2].nonzero()[0].tolist())

    return LinkRecord(unix_ns, named(~up), named(drained))
