"""Add to a source's samples what its ports hear of their neighbours, read beside the counters.

What is heard goes with one sample of each port after every reading: a message that is lost is made good by the next
reading. A daemon that does not reply leaves the counters as they are, and says nothing about any port.

Daemons are read once a second, and at once where they report a change (`watch`).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from heddle.telemetry.agent.source import CounterSource, DeviceSamples, SourceError
from heddle.telemetry.complaint import Complaints
from heddle.telemetry.neighbours.heard import Heard
from heddle.telemetry.samples.sample import PortSample

PERIOD_S = 1.0
CHANGE_PERIOD_S = 0.25
"""However many changes a daemon reports, it is read at most so often for them."""
Reader = Callable[[], Awaitable[Mapping[str, Heard]]]
"""Returns what ports hear, by the fabric's names of ports and NICs; raises SourceError."""
Watch = Callable[[asyncio.Event], Coroutine[None, None, None]]
"""Sets the event whenever something that is read may have changed, until cancelled."""
log = logging.getLogger(__name__)


class WithNeighbours:
    """A source whose samples also have what ports hear."""

    def __init__(
        self, source: CounterSource, read: Reader, period_s: float = PERIOD_S, *, watch: Watch | None = None
    ) -> None:
        self.name, self.reads_per_period = source.name, source.reads_per_period
        self._source, self._read, self._period_s = source, read, period_s
        self._unsent: dict[str, Heard] = {}
        self._reading: asyncio.Task[None] | None = None
        self._watch, self._changed = watch, asyncio.Event()
        self._watching: tuple[asyncio.Task[None], ...] = ()
        self._due_s = 0.0
        self._complaints = Complaints()

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the samples of the source, with what was heard since the last call; raises SourceError."""
        if self._watch is not None and not self._watching:
            self._watching = (asyncio.create_task(self._watch(self._changed)), asyncio.create_task(self._follow()))
        for task in self._watching:
            if task.done():
                task.result()  # a programming error ends the agent
        devices = await self._source.read(now_unix_ns)
        if time.monotonic() >= self._due_s:
            self._begin_reading()
        return [replace(device, samples=[self._with(each) for each in device.samples]) for device in devices]

    def _begin_reading(self) -> None:
        """Begin to read, unless a reading is under way: then the next samples begin another."""
        self._due_s = 0.0
        if self._reading is None or self._reading.done():
            if self._reading is not None:
                self._reading.result()  # likewise
            self._due_s = time.monotonic() + self._period_s
            self._reading = asyncio.create_task(self._hear())

    async def _follow(self) -> None:
        """Read at once whatever has changed: the next samples have it."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._begin_reading()
            await asyncio.sleep(CHANGE_PERIOD_S)

    def _with(self, sample: PortSample) -> PortSample:
        heard = self._unsent.pop(sample.port, None)
        return sample if heard is None else replace(sample, heard=heard)

    async def _hear(self) -> None:
        try:
            self._unsent = dict(await self._read())
        except SourceError as fault:
            self._complaints.add("neighbours_fault", self.name, str(fault))
            for complaint in self._complaints.due(time.monotonic_ns()):
                log.warning("%s", complaint)

    async def close(self) -> None:
        """End what is read and watched, and close the source."""
        for task in filter(None, (*self._watching, self._reading)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._source.close()
