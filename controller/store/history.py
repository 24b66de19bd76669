"""Store telemetry history without blocking the controller's loop: a thread writes.

    sample, record ──► waiting (bounded; full: dropped and counted) ──► thread: Seconds ──► Database, a batch a second

A crash loses the queue and the batch: a second or two. A full or failing disk loses history but does not affect the
controller: batches are dropped and counted, and logged once until writing succeeds again.
"""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from heddle.controller.model.log_event import LogEvent
from heddle.controller.runtime.telemetry import LinkRecord, PastMoment, PortPast
from heddle.controller.store.database import Database, Retention
from heddle.controller.store.reading import read_events, read_links, read_moment, read_oldest_event_ns, read_port
from heddle.controller.store.seconds import Bucket, Seconds
from heddle.telemetry.detection.window import Snapshot

MAX_SNAPSHOTS = 4
MAX_EVENTS = 10_000
MAX_LINK_RECORDS = 64
"""Of more in a batch the newest are kept."""
COUNTS = ("skipped_snapshots", "dropped_events", "written_batches", "failed_batches", "used_bytes")
BATCH_S = 1.0
TRIM_EVERY_S = 30
CLOSE_S = 5.0
_LOG = logging.getLogger("heddle.history")


class _Waiting:
    """The bounded queue from the loop to the thread; the loop never waits.

    A full queue discards the oldest snapshot, which only loses resolution: counters are totals.
    """

    def __init__(self) -> None:
        self.snapshots: deque[Snapshot] = deque(maxlen=MAX_SNAPSHOTS)
        self.events: deque[LogEvent] = deque()
        self.links: deque[LinkRecord] = deque(maxlen=MAX_LINK_RECORDS)
        self.closing = False
        self.changed = threading.Condition()

    def put_snapshot(self, snapshot: Snapshot) -> int:
        """Append a snapshot; return the number of snapshots discarded for it."""
        with self.changed:
            pushed = len(self.snapshots) == MAX_SNAPSHOTS
            self.snapshots.append(snapshot)
            self.changed.notify()
        return int(pushed)

    def put_events(self, events: tuple[LogEvent, ...]) -> int:
        """Append events; return the number of events discarded."""
        with self.changed:
            room = max(0, MAX_EVENTS - len(self.events))
            self.events += events[:room]
            self.changed.notify()
        return max(0, len(events) - room)

    def take_snapshots(self, timeout_s: float) -> list[Snapshot]:
        """Wait for snapshots or the end; return the queued snapshots."""
        with self.changed:
            self.changed.wait_for(lambda: self.snapshots or self.closing, timeout_s)
            found = list(self.snapshots)
            self.snapshots.clear()
            return found

    def put_links(self, record: LinkRecord) -> None:
        """Append a state of the links."""
        with self.changed:
            self.links.append(record)
            self.changed.notify()

    def take_events(self) -> list[LogEvent]:
        """Return the queued events."""
        with self.changed:
            found = list(self.events)
            self.events.clear()
            return found

    def take_links(self) -> list[LinkRecord]:
        """Return the queued states of links."""
        with self.changed:
            found = list(self.links)
            self.links.clear()
            return found

    def close(self) -> None:
        """End the queue."""
        with self.changed:
            self.closing = True
            self.changed.notify()


class SqliteHistory:
    """History in one SQLite file. `sample` and `record` neither block nor raise; `close` writes the queue."""

    def __init__(
        self, path: Path, retention: Retention | None = None, *, unix_s: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._retention = retention or Retention()
        self._database: Database | None = Database(path, self._retention)
        self._unix_s = unix_s
        self._waiting = _Waiting()
        self._seconds = Seconds()
        self._names: tuple[str, ...] = ()
        self._failing = False
        self._trimmed_s = 0.0
        self._counts = dict.fromkeys(COUNTS, 0)
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def sample(self, snapshot: Snapshot) -> None:
        """Store a tick's counters."""
        self._counts["skipped_snapshots"] += self._waiting.put_snapshot(snapshot)

    def record(self, events: tuple[LogEvent, ...]) -> None:
        """Store events."""
        self._counts["dropped_events"] += self._waiting.put_events(events)

    def record_links(self, record: LinkRecord) -> None:
        """Store which links are down and drained."""
        self._waiting.put_links(record)

    def links(self, unix_ns: int) -> LinkRecord | None:
        """Return which links were down and drained at a time."""
        return read_links(self.path, unix_ns)

    def events(self, since_unix_ns: int, limit: int, until_unix_ns: int | None = None) -> tuple[LogEvent, ...]:
        """Return the newest events within a time, oldest first."""
        return read_events(self.path, since_unix_ns, limit, until_unix_ns)

    def port(self, name: str, since_s: int, until_s: int) -> PortPast:
        """Return what a port counted within a time."""
        return read_port(self.path, name, since_s, until_s)

    def moment(self, at_s: int) -> PastMoment | None:
        """Return what all ports counted at a time; None where it is not recorded."""
        return read_moment(self.path, at_s)

    def oldest_event_ns(self) -> int | None:
        """Return the time of the oldest event."""
        return read_oldest_event_ns(self.path)

    def counts(self) -> Mapping[str, int]:
        """Return the counts of written and dropped items."""
        return dict(self._counts)

    def close(self) -> None:
        """Write the queue and close the file; gives up after CLOSE_S."""
        self._waiting.close()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        closing = False
        while not closing:
            seconds = self._gathered()
            closing = self._waiting.closing and not self._waiting.snapshots
            if closing:
                seconds.append(self._seconds.close())
            self._write(
                [second for second in seconds if second], self._waiting.take_events(), self._waiting.take_links()
            )
        if self._database is not None:
            self._database.close()

    def _gathered(self) -> list[Bucket]:
        """Read snapshots for BATCH_S; return the completed seconds."""
        over: list[Bucket] = []
        due = time.monotonic() + BATCH_S
        while (left := due - time.monotonic()) > 0:
            for snapshot in self._waiting.take_snapshots(left):
                self._names = snapshot.names
                if (second := self._seconds.add(snapshot)) is not None:
                    over.append(second)
            if self._waiting.closing:
                break
        return over

    def _write(self, seconds: list[Bucket], events: list[LogEvent], links: list[LinkRecord]) -> None:
        now_s = self._unix_s()
        self._leave_deleted()
        try:
            if self._database is None:
                self._database = Database(self.path, self._retention)
            if seconds or events or links:
                self._database.write(self._names, seconds, events, links)
                self._counts["written_batches"] += 1
                self._database.shrink()
            if now_s - self._trimmed_s >= TRIM_EVERY_S or now_s < self._trimmed_s:
                self._trimmed_s = now_s
                self._database.trim(int(now_s))
                self._counts["used_bytes"] = self._database.used_bytes()
        except Exception as error:
            self._failed(error, bool(seconds or events or links), int(now_s))
        else:
            if self._failing:
                _LOG.warning("history: %s is written again", self.path)
            self._failing = False

    def _leave_deleted(self) -> None:
        """Close a file that was deleted or replaced while it was open: what is written to it is lost."""
        if self._database is not None and not self._database.is_in_place():
            _LOG.error("history: %s was deleted or replaced while the controller ran; a new one begins", self.path)
            self._database.close()
            self._database = None

    def _failed(self, error: Exception, lost: bool, now_s: int) -> None:
        """Count the batch as lost; free space where the file is full, reopen it where it is damaged."""
        self._counts["failed_batches"] += lost
        if not self._failing:
            _LOG.warning("history: %s cannot be written (%s); history is lost until it can", self.path, error)
        self._failing = True
        if self._database is None:
            return
        try:
            if isinstance(error, sqlite3.OperationalError):
                self._database.trim(now_s)
                return
        except sqlite3.Error:
            pass
        self._database.close()
        self._database = None
