"""The collector: subscribes, reconnects, and lets a worker thread decode, keep and judge what comes.

    bus ──► pending (bounded) ──► worker thread: Observer.take … Observer.look ──► on_look

The loop only appends to a list and swaps it; all arrays are the worker's, so nothing is locked. The worker looks as
soon as what came has settled (`telemetry.cadence`), so a counter's age at its look is the way over the bus and little
more; readers get a copy of the windows once a period. What does not fit into
`pending` is dropped and counted: samples are cumulative, the next one tells what the lost one did.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass

from telemetry.cadence import Cadence
from telemetry.collector.bus import Bus, BusConnectionError, Message
from telemetry.detection.signal import Signal
from telemetry.detection.window import Snapshot
from telemetry.observer import Look, Observer
from telemetry.samples.topic import subscriptions

MAX_PENDING_MESSAGES = 16_384
MAX_PENDING_BYTES = 128 << 20
LEAST_WAIT_S, MAX_WAIT_S = 0.1, 2.0
Readers = tuple[Snapshot, tuple[Signal, ...]]
"""What readers get once a period: a copy of the windows and every condition that is raised."""
_LOG = logging.getLogger("heddle.telemetry")


@dataclass(slots=True)
class Counts:
    """What the collector did, for metrics; only grows."""

    received_messages: int = 0
    received_bytes: int = 0
    overflowed_messages: int = 0
    lost_connections: int = 0
    looks: int = 0
    late_looks: int = 0


class Collector:
    """One fabric's collector. `run` lasts until cancelled; after every look `on_look` is called on the loop.

    It gets the look and, where a period is over with it, what is for readers.
    """

    def __init__(
        self,
        observer: Observer,
        bus: Bus,
        on_look: Callable[[Look, Readers | None], None],
        *,
        unix_ns: Callable[[], int] = time.time_ns,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.counts = Counts()
        self.connected = asyncio.Event()
        self._observer, self._bus, self._on_look = observer, bus, on_look
        self._unix_ns, self._jitter = unix_ns, jitter
        self._cadence = Cadence(observer.detector.settings.period_ms * 1_000_000, time.monotonic_ns())
        self._came = asyncio.Event()
        self._pending: list[tuple[str, bytes, int]] = []
        self._pending_bytes = 0
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="telemetry")

    async def run(self) -> None:
        """Collect until cancelled; a fault of ours comes out of here."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._serve())
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def totals(self) -> dict[str, int]:
        """Return what was counted so far: what came, what was dropped and why, what stood out."""
        return asdict(self.counts) | {"samples": self._observer.samples} | self._observer.complaints.counts

    def receive(self, message: Message) -> None:
        """Take one message off the bus; drops it where the worker is too far behind."""
        counts, size = self.counts, len(message.payload)
        counts.received_messages += 1
        counts.received_bytes += size
        if len(self._pending) >= MAX_PENDING_MESSAGES or self._pending_bytes + size > MAX_PENDING_BYTES:
            counts.overflowed_messages += 1
            return
        self._pending.append((message.topic, message.payload, self._unix_ns()))
        self._pending_bytes += size
        self._cadence.came(time.monotonic_ns())
        self._came.set()

    async def _listen(self) -> None:
        """Keep connected: after a loss wait a random part of a time that doubles from 0.1 to 2 seconds."""
        wait_s = LEAST_WAIT_S
        while True:
            try:
                await self._bus.listen(subscriptions(self._observer.fabric), self.receive, self.connected)
                reason = "the broker ended the connection"
            except BusConnectionError as lost:
                reason = str(lost)
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from lost  # a client may lose the bus while it is being cancelled
            if self.connected.is_set():
                self.connected.clear()
                self.counts.lost_connections += 1
                wait_s = LEAST_WAIT_S
                _LOG.warning("telemetry: the broker is lost (%s); connecting again", reason)
            elif wait_s == LEAST_WAIT_S:
                _LOG.warning("telemetry: no broker (%s); trying on", reason)
            await asyncio.sleep(wait_s * (0.5 + 0.5 * self._jitter()))
            wait_s = min(2 * wait_s, MAX_WAIT_S)

    async def _serve(self) -> None:
        """Whenever it is time, give the worker what came and let it look."""
        loop = asyncio.get_running_loop()
        while True:
            due_ns = await self._due()
            self.counts.late_looks += time.monotonic_ns() - due_ns > self._cadence.period_ns
            batch, self._pending, self._pending_bytes = self._pending, [], 0
            self._cadence.looked(time.monotonic_ns())
            self._tell(*await loop.run_in_executor(self._worker, _look, self._observer, batch, self._unix_ns))

    async def _due(self) -> int:
        """Wait until it is time to look; return since when it is."""
        while (wait_s := ((due_ns := self._cadence.due_ns()) - time.monotonic_ns()) / 1e9) > 0:
            if self._pending:
                await asyncio.sleep(wait_s)
                continue
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._came.wait()
        return due_ns

    def _tell(self, look: Look, readers: Readers | None) -> None:
        self.counts.looks += 1
        for complaint in look.complaints:
            _LOG.warning("telemetry: %s", complaint)
        for status in look.agents:
            _LOG.info("telemetry: agent %s is %s", status.agent, "online" if status.online else "offline")
        self._on_look(look, readers)


def _look(
    observer: Observer, batch: list[tuple[str, bytes, int]], unix_ns: Callable[[], int]
) -> tuple[Look, Readers | None]:
    for topic, payload, received_ns in batch:
        observer.take(topic, payload, received_ns)
    now_ns = unix_ns()
    look = observer.look(now_ns)
    return look, (observer.snapshot(now_ns), observer.active()) if look.is_whole else None
