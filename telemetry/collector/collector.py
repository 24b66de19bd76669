"""The collector: subscribe, reconnect, and have a worker thread decode, store and evaluate samples.

    bus ──► pending (bounded) ──► worker thread: Observer.take … Observer.scan ──► on_scan

The event loop only appends to a list and swaps it; the worker owns all arrays, so there are no locks. A scan follows
shortly after messages arrive (`telemetry.cadence`), so the age of a counter at its scan is the delay of the bus and
little more. Readers get a copy of the windows once per period, and at once where a condition is raised. Messages that
do not fit into `pending` are dropped and counted; counters are cumulative, so the next sample contains what the dropped
one contained.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass

from heddle.foundation.backoff import Backoff
from heddle.telemetry.cadence import Cadence
from heddle.telemetry.collector.bus import Bus, BusConnectionError, Message
from heddle.telemetry.detection.signal import Signal
from heddle.telemetry.detection.window import Snapshot
from heddle.telemetry.observer import Observer, Scan
from heddle.telemetry.samples.topic import subscriptions

MAX_PENDING_MESSAGES = 16_384
MAX_PENDING_BYTES = 128 << 20
RECONNECT = Backoff(first_s=0.1, max_s=2.0)
Readers = tuple[Snapshot, tuple[Signal, ...]]
"""What readers get once per period, and when a condition is raised: a copy of the windows, every raised condition."""
_LOG = logging.getLogger("heddle.telemetry")


@dataclass(slots=True)
class Counts:
    """Cumulative counts of the collector, for metrics."""

    received_messages: int = 0
    received_bytes: int = 0
    overflowed_messages: int = 0
    lost_connections: int = 0
    scans: int = 0
    late_scans: int = 0


class Collector:
    """The collector of one fabric. `run` lasts until cancelled and calls `on_scan` on the loop after every scan.

    Its arguments are the scan and, if the scan ends a period or raises a condition, the copy for readers.
    """

    def __init__(
        self,
        observer: Observer,
        bus: Bus,
        on_scan: Callable[[Scan, Readers | None], None],
        *,
        unix_ns: Callable[[], int] = time.time_ns,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.counts = Counts()
        self.connected = asyncio.Event()
        self._observer, self._bus, self._on_scan = observer, bus, on_scan
        self._unix_ns, self._jitter = unix_ns, jitter
        self._cadence = Cadence(observer.detector.settings.period_ms * 1_000_000, time.monotonic_ns())
        self._arrived = asyncio.Event()
        self._pending: list[tuple[str, bytes, int]] = []
        self._pending_bytes = 0
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="telemetry")

    async def run(self) -> None:
        """Collect until cancelled; raises exceptions that are programming errors."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(self._serve())
        finally:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def totals(self) -> dict[str, int]:
        """Return all counts by name: received, dropped by reason, and anomalies."""
        return asdict(self.counts) | {"samples": self._observer.samples} | self._observer.complaints.counts

    def receive(self, message: Message) -> None:
        """Queue one message for the worker; drop and count it if the queue is full."""
        counts, size = self.counts, len(message.payload)
        counts.received_messages += 1
        counts.received_bytes += size
        if len(self._pending) >= MAX_PENDING_MESSAGES or self._pending_bytes + size > MAX_PENDING_BYTES:
            counts.overflowed_messages += 1
            return
        self._pending.append((message.topic, message.payload, self._unix_ns()))
        self._pending_bytes += size
        self._cadence.received(time.monotonic_ns())
        self._arrived.set()

    async def _listen(self) -> None:
        """Stay connected: after a loss wait a random part of a delay that doubles from 0.1 to 2 seconds."""
        attempt = 1
        while True:
            try:
                await self._bus.listen(subscriptions(self._observer.fabric), self.receive, self.connected)
                reason = "the broker ended the connection"
            except BusConnectionError as lost:
                reason = str(lost)
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from lost  # the connection may fail during cancellation
            if self.connected.is_set():
                self.connected.clear()
                self.counts.lost_connections += 1
                attempt = 1
                _LOG.warning("telemetry: connection to the broker lost (%s); reconnecting", reason)
            elif attempt == 1:
                _LOG.warning("telemetry: cannot connect to the broker (%s); retrying", reason)
            await asyncio.sleep(RECONNECT.delay_s(attempt, self._jitter()))
            attempt += 1

    async def _serve(self) -> None:
        """Run a scan in the worker thread each time one is due."""
        loop = asyncio.get_running_loop()
        while True:
            due_ns = await self._due()
            self.counts.late_scans += time.monotonic_ns() - due_ns > self._cadence.period_ns
            batch, self._pending, self._pending_bytes = self._pending, [], 0
            self._cadence.scanned(time.monotonic_ns())
            self._publish(*await loop.run_in_executor(self._worker, _scan, self._observer, batch, self._unix_ns))

    async def _due(self) -> int:
        """Wait until a scan is due and return the time at which it became due."""
        while (wait_s := ((due_ns := self._cadence.due_ns()) - time.monotonic_ns()) / 1e9) > 0:
            if self._pending:
                await asyncio.sleep(wait_s)
                continue
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._arrived.wait()
        return due_ns

    def _publish(self, scan: Scan, readers: Readers | None) -> None:
        self.counts.scans += 1
        for complaint in scan.complaints:
            _LOG.warning("telemetry: %s", complaint)
        for status in scan.agents:
            _LOG.info("telemetry: agent %s is %s", status.agent, "online" if status.online else "offline")
        self._on_scan(scan, readers)


def _scan(
    observer: Observer, batch: list[tuple[str, bytes, int]], unix_ns: Callable[[], int]
) -> tuple[Scan, Readers | None]:
    for topic, payload, received_ns in batch:
        observer.take(topic, payload, received_ns)
    now_ns = unix_ns()
    scan = observer.scan(now_ns)
    is_read = scan.is_whole or any(signal.raised for signal in scan.signals)
    return scan, (observer.snapshot(now_ns), observer.active()) if is_read else None
