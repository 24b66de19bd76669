"""What telemetry brought, for readers: the newest tick, the log of events, and who is told of both.

The collector's owner calls `tick` once a period and `happened` for what is worth telling; the loop's notes come by
`note`. Readers take frozen values. Nothing here grows: a slow reader of ticks gets the newest, one of events skips the
oldest, both counted.
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
    """One period's end: a copy of the windows and every condition that is raised."""

    snapshot: Snapshot
    active: tuple[Signal, ...]


class History(Protocol):
    """What keeps samples and events beyond a restart; neither call of the first two waits or raises."""

    def sample(self, snapshot: Snapshot) -> None:
        """Take a tick's counters."""

    def record(self, events: tuple[LogEvent, ...]) -> None:
        """Take events."""

    def events(self, since_unix_ns: int, most: int) -> tuple[LogEvent, ...]:
        """Return the newest events from a time on, oldest first; called in a thread, for it reads a disk."""

    def counts(self) -> Mapping[str, int]:
        """Return what was written and dropped so far, for metrics."""


class Telemetry:
    """The one meeting point of collector and readers. `configured` says whether a collector runs."""

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
        """Publish a period's end."""
        self.ticks.put(TelemetryTick(snapshot=snapshot, active=active))
        if self.history is not None:
            self.history.sample(snapshot)

    def happened(self, events: Iterable[LogEvent]) -> None:
        """Publish events, oldest first."""
        told = tuple(events)
        for event in told:
            self._recent.append(event)
            self.events.publish(EVENTS, event)
        if told and self.history is not None:
            self.history.record(told)

    def note(self, note: Note, unix_ms: int) -> None:
        """Publish a line that the brain wrote."""
        stamp = unix_ms * 1_000_000
        event = LogEvent(
            timestamp_unix_ns=stamp, severity=note.severity, kind=NOTE, subject=note.subject, text=note.text
        )
        self.happened((event,))

    def required(self) -> "Telemetry":
        """Return this; raises Unavailable where no collector runs."""
        if not self.configured:
            raise UnavailableError(HOW_TO_CONFIGURE)
        return self

    def newest(self) -> TelemetryTick:
        """Return the newest tick; raises Unavailable while there is none."""
        tick = self.required().ticks.value
        if tick is None:
            raise UnavailableError("telemetry has just started and knows nothing yet; try again in a few seconds")
        return tick

    def recent(self) -> tuple[LogEvent, ...]:
        """Return the last events, oldest first, as far as memory keeps them."""
        return tuple(self._recent)

    def past(self, since_unix_ns: int, most: int) -> tuple[LogEvent, ...]:
        """Return the newest events from a time on, oldest first, of disk and memory; reads the disk."""
        kept = self.history.events(since_unix_ns, most) if self.history is not None else ()
        newer = (event for event in self.recent() if event.timestamp_unix_ns >= since_unix_ns)
        merged = dict.fromkeys((*kept, *newer))
        return tuple(sorted(merged, key=lambda event: event.timestamp_unix_ns)[-most:])
