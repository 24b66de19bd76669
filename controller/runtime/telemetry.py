"""Publish telemetry to readers: the newest tick, and the event log.

The collector's owner calls `tick` once a period and `publish_events` for events; the loop publishes the brain's notes
by `note`. Values are frozen and queues bounded: a slow reader of ticks gets the newest, one of events misses the
oldest, and both are counted.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from heddle.controller.model.effect import Note
from heddle.controller.model.error import UnavailableError
from heddle.controller.model.log_event import NOTE, LogEvent
from heddle.controller.runtime.watch import Newest, Watchers
from heddle.telemetry.detection.signal import Signal
from heddle.telemetry.detection.window import Snapshot

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


class PortPast(NamedTuple):
    """What a port and its queues counted, in buckets of `length_s`.

    `starts_s` are the buckets that are recorded. A recorded bucket without rows of this port is one without growth.
    `port` rows are a bucket's start, then the growth of PORT_COUNTERS; `queues` a start, a priority, the growth of
    QUEUE_COUNTERS, then the largest depth in bytes.
    """

    length_s: int
    starts_s: Sequence[int]
    port: Sequence[tuple[int, ...]]
    queues: Sequence[tuple[int, ...]]


class PastMoment(NamedTuple):
    """The bucket of all ports that a moment is in: its start and length, sent and received bytes, and pauses.

    `counted` has tx_bytes and rx_bytes by port, `paused_ns` the time that the queue paused most was paused.
    """

    start_s: int
    length_s: int
    counted: Mapping[str, tuple[int, int]]
    paused_ns: Mapping[str, int]


class LinkRecord(NamedTuple):
    """The links that are down and drained from a time on: of each cable and NIC the id of its first direction."""

    unix_ns: int
    down: tuple[str, ...]
    drained: tuple[str, ...]


class History(Protocol):
    """Storage of samples and events across restarts; `sample` and `record` neither block nor raise."""

    def sample(self, snapshot: Snapshot) -> None:
        """Store a tick's counters."""

    def record(self, events: tuple[LogEvent, ...]) -> None:
        """Store events."""

    def record_links(self, record: LinkRecord) -> None:
        """Store which links are down and drained; neither blocks nor raises."""

    def links(self, unix_ns: int) -> LinkRecord | None:
        """Return which links were down and drained at a time, None where it is not recorded; called in a thread."""

    def events(self, since_unix_ns: int, limit: int, until_unix_ns: int | None = None) -> tuple[LogEvent, ...]:
        """Return the newest events within a time, oldest first; called in a thread, because it reads a disk."""

    def port(self, name: str, since_s: int, until_s: int) -> PortPast:
        """Return what a port counted within a time; called in a thread."""

    def moment(self, at_s: int) -> PastMoment | None:
        """Return what all ports counted at a time, None where it is not recorded; called in a thread."""

    def oldest_event_ns(self) -> int | None:
        """Return the time of the oldest event; called in a thread."""

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
        self.port_readers: Counter[str] = Counter()
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

    def past(self, since_unix_ns: int, limit: int, until_unix_ns: int | None = None) -> tuple[LogEvent, ...]:
        """Return the newest events within a time, oldest first, from disk and memory; reads the disk."""
        kept = self.history.events(since_unix_ns, limit, until_unix_ns) if self.history is not None else ()
        until = inf if until_unix_ns is None else until_unix_ns
        newer = (event for event in self.recent() if since_unix_ns <= event.timestamp_unix_ns <= until)
        merged = dict.fromkeys((*kept, *newer))
        return tuple(sorted(merged, key=lambda event: event.timestamp_unix_ns)[-limit:])
