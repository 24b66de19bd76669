"""Run the telemetry collector inside the controller, and publish the result of each of its scans.

A fault in the collector ends telemetry, not the controller: plans and rules stay in force.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence

from heddle.controller.model.event import PortStatus
from heddle.controller.model.log_event import LogEvent
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.runtime.heard import ReportedPeers
from heddle.controller.runtime.judged_cables import JudgedBy, JudgedCables
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.telemetry import Telemetry
from heddle.controller.views.bad_cables import judged_cables, known_conditions
from heddle.controller.views.hot_links import hot_links, is_hot
from heddle.controller.views.measured import Totals
from heddle.controller.views.signal_events import signal_events
from heddle.telemetry.collector.bus import Bus
from heddle.telemetry.collector.collector import Collector, Readers
from heddle.telemetry.detection.signal import Signal
from heddle.telemetry.detection.window import LinkChange, Snapshot
from heddle.telemetry.observer import Observer, Scan
from heddle.telemetry.samples.topic import Source

BROKER = "broker"
_LOG = logging.getLogger("heddle.controller")


class Collecting:
    """The collector of one fabric."""

    def __init__(
        self, observer: Observer, bus: Bus, telemetry: Telemetry, loop: Loop | None = None,
        reported: ReportedPeers | None = None, judged: JudgedCables | None = None,
    ) -> None:  # fmt: skip
        """Prepare it; `reported` takes what ports hear of their neighbours, None for what does not count."""
        self.failed = False
        self._observer = observer
        self._loop, self._reported = loop, reported
        self._judged = judged or (JudgedCables(loop) if loop is not None else None)
        self.collector = Collector(observer, bus, self._publish)
        self._telemetry = telemetry
        self._ports = observer.window.ports
        self._was_connected: bool | None = None
        self._running: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        # Rates of what is congested are those of the periods that have raised the condition.
        self._totals: deque[Totals] = deque(maxlen=observer.detector.settings.raise_periods)

    def start(self) -> None:
        """Start the collector; cables that were bad before the start are so until their counters say otherwise."""
        if self._loop is not None:
            bad = (bad.found for bad in self._loop.state.bad_cables.values())
            for kind, port, value in known_conditions(bad):
                self._observer.detector.keep(kind, port, value, time.time_ns())
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop the collector."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        if self._reported is not None:
            await self._reported.close()

    def _publish(self, scan: Scan, readers: Readers | None) -> None:
        self._telemetry.counts = self.collector.totals()
        self._post_links(scan.links)
        if self._reported is not None:
            self._reported.report(scan.heard)
        if readers is not None:
            self._report(*readers)
        if readers is not None and scan.is_whole:
            self._totals.append(Totals.of(readers[0]))
            self._telemetry.tick(*readers)
        self._telemetry.publish_events(self._events(scan))

    def _post_links(self, changes: Sequence[LinkChange]) -> None:
        """Post the carrier of switch ports as OpenFlow port status, on a fabric that has no OpenFlow sessions."""
        loop = self._loop
        if loop is None or traits_of(loop.state.fabric).has_sessions or not loop.state.settings.acts_on_telemetry:
            return
        for change in changes:
            source, switch, _ = self._ports.owner_of(change.port)
            if source is Source.SWITCH:
                number = int(change.port.rpartition(":")[2])
                loop.post(PortStatus(switch=switch, port=number, up=change.up), switch)

    def _report(self, snapshot: Snapshot, active: tuple[Signal, ...]) -> None:
        """Post which cables are bad, and what is congested, at least once per sampling period; one report at a time."""
        loop, busy = self._loop, self._reporting is not None and not self._reporting.done()
        before = self._totals[0] if self._totals else None
        if loop is not None and self._judged is not None:
            self._judged.report(JudgedBy.TELEMETRY, judged_cables(loop.state.fabric, active).cables)
        if loop is not None and not busy and (is_hot(active) or loop.state.hot_ports):
            self._reporting = asyncio.create_task(_reported(loop, snapshot, active, before))

    def _events(self, scan: Scan) -> Iterator[LogEvent]:
        now_ns, connected = scan.now_ns, self.collector.connected.is_set()
        if connected != self._was_connected:
            self._was_connected = connected
            yield _event(now_ns, "broker", BROKER, online=connected)
        for status in scan.agents:
            yield _event(status.since_unix_ns, "agent", status.agent, online=status.online)
        for complaint in scan.complaints:
            yield LogEvent(
                timestamp_unix_ns=now_ns,
                severity="warning",
                kind=f"telemetry_{complaint.kind}",
                subject=complaint.source,
                text=complaint.line,
            )
        yield from signal_events(scan.signals, self._ports, now_ns)

    async def _run(self) -> None:
        try:
            await self.collector.run()
        except Exception:
            self.failed = True
            _LOG.exception("telemetry ended by a fault of the controller; plans and rules are not affected")


async def _reported(loop: Loop, snapshot: Snapshot, active: tuple[Signal, ...], before: Totals | None) -> None:
    loop.post(await asyncio.to_thread(hot_links, loop.state, snapshot, active, before))


def _event(now_ns: int, what: str, subject: str, *, online: bool) -> LogEvent:
    state = "online" if online else "offline"
    return LogEvent(
        timestamp_unix_ns=now_ns,
        severity="info" if online else "warning",
        kind=f"{what}_{state}",
        subject=subject,
        text=f"the {what} is {state}",
    )
