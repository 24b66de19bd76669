"""Write the state once a second for all clients of the stream, and hold the newest. Without clients nothing is written.

A client that is slow skips states: it gets the newest when it has taken the one before. Events of the log are kept for
a while, so that such a client misses none but a flood of them.
"""

import asyncio
import logging
import secrets
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.past import event_text
from heddle.controller.dashboard.documents.state import Content, StateText, state_head
from heddle.controller.dashboard.sources import Sources
from heddle.controller.runtime.background import Background
from heddle.controller.runtime.telemetry import EVENTS
from heddle.controller.runtime.watch import Newest

PERIOD_S = 1.0
POLL_S = 0.2
"""A changed topology or list of jobs is published after so long at most, before the period is over."""
UNCHANGED_S = 10.0
"""A state is published after so long although nothing has changed: the age of telemetry has."""
MAX_EVENTS = 256
_LOG = logging.getLogger("heddle.dashboard")


class Update(NamedTuple):
    """One state: its number, the event of the stream that holds its JSON, and the last event of the log then."""

    sequence: int
    event: bytes
    last_event: int

    @property
    def text(self) -> bytes:
        """Return the JSON."""
        return self.event[self.event.index(b"data: ") + 6 : -2]


class Publisher:
    """Owns the newest update. `boot` differs with every life of the controller."""

    def __init__(self, sources: Sources) -> None:
        self.boot = secrets.token_hex(6)
        self.newest: Newest[Update] = Newest()
        self.readers = 0
        """The open streams; without any, no state is written."""
        self.closed = False
        self._sources = sources
        self._states = StateText()
        self._sequence = 0
        self._events: deque[tuple[int, bytes]] = deque(maxlen=MAX_EVENTS)
        self._event_count = 0
        self._background = Background()
        self._content: Content | None = None
        self._published_s = self._written_s = 0.0
        self._written = (0, 0)
        self._writing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dashboard")

    def start(self) -> None:
        """Begin to publish."""
        self._background.start(self._publish_states(), self._collect_events())

    async def close(self) -> None:
        """Stop publishing, and wake the streams to end."""
        self.closed = True
        if self.newest.value is not None:
            self.newest.put(self.newest.value)
        await self._background.close()
        self._thread.shutdown(wait=False)

    def events_after(self, number: int) -> tuple[int, bytes]:
        """Return the kept events of the log after a number as one JSON list, and the number of the last."""
        later = [text for each, text in self._events if each > number]
        return self._event_count, b"[" + b",".join(later) + b"]" if later else b""

    async def current(self) -> Update:
        """Return the newest update; writes one where the last is older than a period."""
        newest = self.newest.value
        if newest is None or asyncio.get_running_loop().time() - self._written_s > PERIOD_S:
            await self._publish()
        assert self.newest.value is not None, "the first state is news"
        return self.newest.value

    async def _publish_states(self) -> None:
        running = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(POLL_S)
            is_due = running.time() - self._written_s >= PERIOD_S
            if self.readers and (is_due or self._changes() != self._written):
                try:
                    await self._publish()
                except Exception:
                    _LOG.exception("the dashboard's state cannot be written; the controller is not affected")

    def _changes(self) -> tuple[int, int]:
        """Return what is published before its period is over: generations of the topology and of all jobs."""
        state = self._sources.loop.state
        return state.topology_generation, id(state.jobs)

    async def _publish(self) -> None:
        async with self._writing:
            moment, now_s, self._written = Moment.of(self._sources), asyncio.get_running_loop().time(), self._changes()
            running = asyncio.get_running_loop()
            content = await running.run_in_executor(self._thread, self._states.content, moment)
            self._written_s = now_s
            if content == self._content and now_s - self._published_s < UNCHANGED_S and not self._has_events():
                return
            self._content, self._published_s = content, now_s
            self._sequence += 1
            head = state_head(moment, self.boot, self._sequence)
            event = f"id: {self.boot}-{self._sequence}\nevent: state\ndata: {{{head},{content.text}}}\n\n"
            self.newest.put(Update(self._sequence, event.encode(), self._event_count))

    def _has_events(self) -> bool:
        newest = self.newest.value
        return newest is None or newest.last_event < self._event_count

    async def _collect_events(self) -> None:
        watch = self._sources.feeds.telemetry.events.open(EVENTS)
        try:
            async for event in watch:
                self._event_count += 1
                self._events.append((self._event_count, event_text(event)))
        finally:
            self._sources.feeds.telemetry.events.close(EVENTS, watch)
