"""Read the history file. Every call opens the file: a reader does not block the writer (WAL), and may be in any thread.

The interpreter is released while SQLite reads a chunk of rows, so a long reply does not stop the event loop.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from heddle.controller.model.log_event import LogEvent
from heddle.controller.runtime.telemetry import LinkRecord, PastMoment, PortPast
from heddle.controller.store import schema
from heddle.controller.store.database import BUSY_S

MAX_BUCKETS = 3_600
"""The buckets of one reply about a port; a longer time is read in longer buckets."""
SLACK_BUCKETS = 3
"""A moment is in the newest bucket that began at most so many buckets earlier: writing takes seconds."""
MAX_NS = 2**63 - 1
ROWS_AT_ONCE = 500
_LOG = logging.getLogger("heddle.history")


def read_events(path: Path, since_ns: int, limit: int, until_ns: int | None = None) -> tuple[LogEvent, ...]:
    """Return the newest events within a time, oldest first; nothing where the file cannot be read."""
    bounds = max(-MAX_NS, since_ns), MAX_NS if until_ns is None else min(MAX_NS, until_ns)
    rows = _read(path, schema.NEWEST_EVENTS, (*bounds, limit))
    return tuple(
        LogEvent(timestamp_unix_ns=stamp, severity=severity, kind=kind, subject=subject, text=text)
        for stamp, severity, kind, subject, text in reversed(rows)
    )


def read_links(path: Path, unix_ns: int) -> LinkRecord | None:
    """Return which links were down and drained at a time; None where that is not recorded."""
    rows = _read(path, schema.LINK_STATE_AT, (min(MAX_NS, unix_ns),))
    return next((LinkRecord(stamp, *(tuple(ids.split()) for ids in found)) for stamp, *found in rows), None)


def read_oldest_event_ns(path: Path) -> int | None:
    """Return the time of the oldest event."""
    rows = _read(path, schema.OLDEST_EVENT, ())
    return int(rows[0][0]) if rows and rows[0][0] is not None else None


def read_rollups(path: Path, port: str, level_s: int, since_s: int = 0) -> tuple[list[tuple[int, ...]], ...]:
    """Return a port's buckets (start, then PORT_COUNTERS) and its queues' (start, priority, QUEUE_COUNTERS, depth)."""
    values = (port, level_s, since_s)
    return _read(path, schema.PORT_ROLLUPS, values), _read(path, schema.QUEUE_ROLLUPS, values)


def read_port(path: Path, port: str, since_s: int, until_s: int) -> PortPast:
    """Return a port's buckets within a time, in the shortest length that is recorded then and is not too many."""
    for level in schema.LEVELS_S:
        if (until_s - since_s) // level > MAX_BUCKETS and level != schema.LEVELS_S[-1]:
            continue
        first_s = since_s - since_s % level
        recorded = _read(path, schema.RECORDED, {"level": level, "since_s": first_s, "until_s": until_s})
        if recorded:
            ports, queues = read_rollups(path, port, level, first_s)
            return PortPast(
                level,
                [start for (start,) in recorded[-MAX_BUCKETS:]],
                [row for row in ports if row[0] <= until_s],
                [row for row in queues if row[0] <= until_s],
            )
    return PortPast(1, (), (), ())


def read_moment(path: Path, at_s: int) -> PastMoment | None:
    """Return the shortest bucket that a moment is in; None where none is recorded."""
    for level in schema.LEVELS_S:
        since_s = at_s - (SLACK_BUCKETS if level == 1 else 1) * level
        found = _read(path, schema.NEWEST_BUCKET, {"level": level, "since_s": since_s, "until_s": at_s})
        if found and found[0][0] is not None:
            where = (level, found[0][0])
            counted = {name: (sent, received) for name, sent, received in _read(path, schema.MOMENT_PORTS, where)}
            return PastMoment(found[0][0], level, counted, dict(_read(path, schema.MOMENT_QUEUES, where)))
    return None


def _read(path: Path, statement: str, values: tuple[object, ...] | dict[str, int]) -> list[tuple[Any, ...]]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as connection:
            return list(chain.from_iterable(_chunks(connection.execute(statement, values))))
    except sqlite3.Error as error:
        _LOG.warning("history: %s cannot be read: %s", path, error)
        return []


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        yield rows
