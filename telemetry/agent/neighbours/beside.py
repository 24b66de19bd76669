"""Add to a source's samples what its ports hear of their neighbours, read beside the counters.

What is heard goes with one sample of each port after every reading: a message that is lost is made good by the next
reading. A daemon that does not reply leaves the counters as they are, and says nothing about any port.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from heddle.telemetry.agent.source import CounterSource, DeviceSamples, SourceError
from heddle.telemetry.complaint import Complaints
from heddle.telemetry.neighbours.heard import Heard
from heddle.telemetry.samples.sample import PortSample

PERIOD_S = 1.0
Reader = Callable[[], Awaitable[Mapping[str, Heard]]]
"""Returns what ports hear, by the fabric's names of ports and NICs; raises SourceError."""
log = logging.getLogger(__name__)


class WithNeighbours:
    """A source whose samples also have what ports hear."""

    def __init__(self, source: CounterSource, read: Reader, period_s: float = PERIOD_S) -> None:
        self.name, self.reads_per_period = source.name, source.reads_per_period
        self._source, self._read, self._period_s = source, read, period_s
        self._unsent: dict[str, Heard] = {}
        self._reading: asyncio.Task[None] | None = None
        self._due_s = 0.0
        self._complaints = Complaints()

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the samples of the source, with what was heard since the last call; raises SourceError."""
        devices = await self._source.read(now_unix_ns)
        now_s = time.monotonic()
        if now_s >= self._due_s and (self._reading is None or self._reading.done()):
            if self._reading is not None:
                self._reading.result()  # a programming error ends the agent
            self._due_s = now_s + self._period_s
            self._reading = asyncio.create_task(self._hear())
        return [replace(device, samples=[self._with(each) for each in device.samples]) for device in devices]

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
        """End a reading, and close the source."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        await self._source.close()
