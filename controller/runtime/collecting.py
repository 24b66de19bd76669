"""The collector inside the controller: what each of its looks brings is put where readers find it.

A fault in the collector ends telemetry, not the controller: what is steered by a plan goes on being steered by it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from controller.model.log_event import LogEvent
from controller.runtime.telemetry import Telemetry
from controller.views.signal_events import signal_events
from telemetry.collector.bus import Bus
from telemetry.collector.collector import Collector, Readers
from telemetry.observer import Look, Observer

BROKER = "broker"
_LOG = logging.getLogger("heddle.controller")


class Collecting:
    """One fabric's collector while the controller runs."""

    def __init__(self, observer: Observer, bus: Bus, telemetry: Telemetry) -> None:
        self.failed = False
        self.collector = Collector(observer, bus, self._tell)
        self._telemetry = telemetry
        self._ports = observer.window.ports
        self._was_connected: bool | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to collect."""
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End collecting."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    def _tell(self, look: Look, readers: Readers | None) -> None:
        self._telemetry.counts = self.collector.totals()
        if readers is not None:
            self._telemetry.tick(*readers)
        self._telemetry.happened(self._events(look))

    def _events(self, look: Look) -> Iterator[LogEvent]:
        now_ns, connected = look.now_ns, self.collector.connected.is_set()
        if connected != self._was_connected:
            self._was_connected = connected
            yield _event(now_ns, "broker", BROKER, online=connected)
        for status in look.agents:
            yield _event(status.since_unix_ns, "agent", status.agent, online=status.online)
        for complaint in look.complaints:
            yield LogEvent(
                timestamp_unix_ns=now_ns,
                severity="warning",
                kind=f"telemetry_{complaint.kind}",
                subject=complaint.source,
                text=complaint.line,
            )
        yield from signal_events(look.signals, self._ports, now_ns)

    async def _run(self) -> None:
        try:
            await self.collector.run()
        except Exception:
            self.failed = True
            _LOG.exception("telemetry ended by a fault of the controller; plans and rules are not touched by it")


def _event(now_ns: int, what: str, subject: str, *, online: bool) -> LogEvent:
    state = "online" if online else "offline"
    return LogEvent(
        timestamp_unix_ns=now_ns,
        severity="info" if online else "warning",
        kind=f"{what}_{state}",
        subject=subject,
        text=f"the {what} is {state}",
    )
