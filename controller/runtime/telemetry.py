"""Publish telemetry to readers: the newest tick, and the event log.

The collector's owner calls `tick` once a period and `publish_events` for events; the loop publishes the brain's notes
by `note`. Values are frozen and queues bounded: a slow reader of ticks gets the newest, one of events misses the
oldest, and both are counted.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from controller.model.effect import Note
from controller.model.error import UnavailableError
from controller.model.log_event import NOTE, LogEvent
from controller.runtime.watch import Newest, Watchers
from telemetry.detection.signal import Signal
from telemetry.detection.window import Snapshot

MAX_RECENT = 1_000
EVENTS = "events"
HOW_TO_CONFIGURE = (
    "telemetry is not configured: name an MQTT broker as telemetry.broker in the config file (heddle run --config FILE)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryTick:
    """The result of one period: a copy of the windows, and every raised condition."""

    snapshot: Snapshot
    active: tuple[Signal, ...]


class History(Protocol):
    """Storage of samples and events across restarts; `sample` and `record` neither block nor raise."""

    def sample(self, snapshot: Snapshot) -> None:
        """Store a tick's counters."""

    def record(self, events: tuple[LogEvent, ...]) -> None:
        """Store events."""

    def events(self, since_unix_ns: int, limit: int) -> tuple[LogEvent, ...]:
        """Return the newest events from a time on, oldest first; called in a thread, because it reads a disk."""

    def counts(self) -> Mapping[str, int]:
        """Return the counts of written and dropped items, for metrics."""


class Telemetry:
    """The hub between the collector and its readers. `configured` is whether a collector runs."""

    def __init__(self, *, configured: bool = False, history: History | None = None) -> None:
        self.configured = configured
        self.history = history
        self.ticks: Newest[TelemetryTick] = Newest()
        self.events: Watchers[LogEvent] = Watchers()
        self.skipped_ticks = 0
        self.port_readers = 0
        self._recent: deque[LogEvent] = deque(maxlen=MAX_RECENT)
        self.counts: Mapping[str, int] = {}

    def tick(self, snapshot: Snapshot, active: tuple[Signal, ...]) -> None:
        """Publish the result of a period."""
        self.ticks.put(TelemetryTick(snapshot=snapshot, active=active))
        if self.history is not None:
            self.history.sample(snapshot)

    def publish_events(self, events: Iterable[LogEvent]) -> None:
        """Publish events, oldest first."""
        published = tuple(events)
        for event in published:
            self._recent.append(event)
            self.events.publish(EVENTS, event)
        if published and self.history is not None:
            self.history.record(published)

    def note(self, note: Note, unix_ms: int) -> None:
        """Publish a note of the brain as an event."""
        stamp = unix_ms * 1_000_000
        event = LogEvent(
            timestamp_unix_ns=stamp, severity=note.severity, kind=NOTE, subject=note.subject, text=note.text
        )
        self.publish_events((event,))

    def required(self) -> "Telemetry":
        """Return self; raises UnavailableError where no collector runs."""
        if not self.configured:
            raise UnavailableError(HOW_TO_CONFIGURE)
        return self

    def newest(self) -> TelemetryTick:
        """Return the newest tick; raises UnavailableError while there is none."""
        tick = self.required().ticks.value
        if tick is None:
            raise UnavailableError("telemetry has just started and has no samples yet; try again in a few seconds")
        return tick

    def recent(self) -> tuple[LogEvent, ...]:
        """Return the last MAX_RECENT events, oldest first."""
        return tuple(self._recent)

    def past(self, since_unix_ns: int, limit: int) -> tuple[LogEvent, ...]:
        """Return the newest events from a time on, oldest first, from disk and memory; reads the disk."""
        kept = self.history.events(since_unix_ns, limit) if self.history is not None else ()
        newer = (event for event in self.recent() if event.timestamp_unix_ns >= since_unix_ns)
        merged = dict.fromkeys((*kept, *newer))
        return tuple(sorted(merged, key=lambda event: event.timestamp_unix_ns)[-limit:])
