"""Open, repair, write and trim the history file. One thread owns a `Database`.

SQLite runs in WAL mode: readers (`sqlite3 FILE`, the API) do not block the writer. A commit does not wait for the disk
(synchronous = NORMAL): a power failure may lose the last commits but cannot corrupt the file.
"""

import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.controller.model.log_event import LogEvent
from heddle.controller.runtime.telemetry import LinkRecord
from heddle.controller.store import schema
from heddle.controller.store.rollups import Rollups
from heddle.controller.store.seconds import Bucket
from heddle.controller.store.sqlite_file import header_of, identity_of

DAMAGED_SUFFIX = ".damaged"
BUSY_S = 2.0
FULL_SHARE, TRIMMED_SHARE = 0.9, 0.75
"""A file past the first share of its limit is trimmed to the second, so that not every batch trims."""
_LOG = logging.getLogger("heddle.history")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long each level is kept, and the maximum file size, whichever is reached first.

    Seconds for an hour, to observe an incident; minutes for a week, to analyse it afterwards; hours for a year, to see
    how load grows; events for a month.
    """

    seconds_s: int = 3_600
    minutes_s: int = 7 * 86_400
    hours_s: int = 365 * 86_400
    events_s: int = 30 * 86_400
    max_bytes: int = 256 << 20

    def keep_s(self, level_s: int) -> int:
        """Return how long a level is kept."""
        return {1: self.seconds_s, 60: self.minutes_s}.get(level_s, self.hours_s)


class Database:
    """One open file. Methods raise sqlite3.Error where the disk or the file fails."""

    def __init__(self, path: Path, retention: Retention) -> None:
        self.path, self.retention = path, retention
        self._rollups = Rollups()
        self._connection = _opened(path, retention)
        with suppress(sqlite3.Error), self._transaction() as transaction:  # else before the first write
            self._rollups.catch_up(transaction)
        self._identity = identity_of(path)
        self._page_bytes = int(self._one("PRAGMA page_size"))

    def close(self) -> None:
        """Write the current minute and close the file, which checkpoints its write-ahead log."""
        with suppress(sqlite3.Error), self._transaction() as transaction:  # else the next opening catches up
            self._rollups.flush(transaction)
        self._connection.close()

    def is_in_place(self) -> bool:
        """Return whether the file still has its name."""
        return identity_of(self.path) == self._identity

    def write(
        self,
        names: Sequence[str],
        seconds: Iterable[Bucket],
        events: Iterable[LogEvent],
        links: Iterable[LinkRecord] = (),
    ) -> None:
        """Write seconds, events and states of links, in one transaction."""
        seconds = list(seconds)
        with self._transaction() as transaction:
            if seconds:
                self._rollups.write(transaction, tuple(names), seconds)
            transaction.executemany(
                schema.ADD_EVENT, ((e.timestamp_unix_ns, e.severity, e.kind, e.subject, e.text) for e in events)
            )
            states = ((each.unix_ns, "\n".join(each.down), "\n".join(each.drained)) for each in links)
            transaction.executemany(schema.ADD_LINK_STATE, states)

    def trim(self, now_s: int) -> None:
        """Drop data past its retention, then the oldest until the file is within its size."""
        with self._transaction() as transaction:
            for level in schema.LEVELS_S:
                self._rollups.drop_before(transaction, level, now_s - self.retention.keep_s(level))
            oldest_ns = (now_s - self.retention.events_s) * 1_000_000_000
            transaction.execute("DELETE FROM event WHERE timestamp_unix_ns < ?", (oldest_ns,))
            transaction.execute(schema.DROP_LINK_STATES, (oldest_ns,))
        self.shrink()
        self._connection.execute("PRAGMA incremental_vacuum").fetchall()

    def used_bytes(self) -> int:
        """Return the bytes of the file in use; free pages are not counted."""
        return (int(self._one("PRAGMA page_count")) - int(self._one("PRAGMA freelist_count"))) * self._page_bytes

    def shrink(self) -> None:
        """Drop the oldest quarter of the finest level, repeatedly, while the file is nearly full; events last."""
        if self.used_bytes() <= self.retention.max_bytes * FULL_SHARE:
            return
        wanted = self.retention.max_bytes * TRIMMED_SHARE
        for _ in range(64):
            if self.used_bytes() <= wanted:
                return
            with self._transaction() as transaction:
                if not any(self._drop_quarter(transaction, level) for level in schema.LEVELS_S):
                    middle = "SELECT avg(timestamp_unix_ns) FROM event"
                    transaction.execute(schema.DROP_LINK_STATES.replace("?", f"({middle})"))
                    transaction.execute(f"DELETE FROM event WHERE timestamp_unix_ns <= ({middle})")

    def _drop_quarter(self, transaction: sqlite3.Connection, level: int) -> bool:
        ends = [
            transaction.execute(f"SELECT {end}(start_s) FROM {table} WHERE rollup_seconds = ?", (level,)).fetchone()[0]
            for table in ("port_rollup", "queue_rollup")
            for end in ("min", "max")  # each alone is one step down the index
        ]
        known = [end for end in ends if end is not None]
        if not known:
            return False
        oldest, newest = min(known), max(known)
        self._rollups.drop_before(transaction, level, oldest + max(level, (newest - oldest) // 4))
        return True

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connection:
                yield self._connection
        except BaseException:
            self._rollups.forget()
            raise

    def _one(self, statement: str) -> int:
        return int(self._connection.execute(statement).fetchone()[0])


def _opened(path: Path, retention: Retention) -> sqlite3.Connection:
    """Open the file; one of ours that is damaged or of another version is moved aside, once.

    What was never ours is refused untouched.
    """
    _check_owner(path)
    try:
        return _connected(path, retention)
    except sqlite3.OperationalError as error:
        raise PrerequisiteError(f"history: {path} cannot be written ({error}); name another file") from None
    except sqlite3.DatabaseError as error:
        _move_aside(path, error)
        return _connected(path, retention)


def _check_owner(path: Path) -> None:
    """Raise PrerequisiteError for a file that no history was written to."""
    try:
        head = header_of(path)
        if head is None or head.application_id == schema.APPLICATION_ID:
            return
        if head.application_id or not _has_our_tables(path):
            raise ValueError("it is a SQLite file of another program")
    except (ValueError, OSError) as why:
        raise PrerequisiteError(f"history: {path} is no history of heddle ({why}); name another file") from None


def _has_our_tables(path: Path) -> bool:
    """Return whether a file without a program's number has the tables of a history of before, or none at all."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)
        try:
            found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        finally:
            connection.close()
    except sqlite3.Error:
        return False
    return found <= {"port", "port_rollup", "queue_rollup", "rolled", "event", "link_state"}


def _connected(path: Path, retention: Retention) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level="IMMEDIATE", check_same_thread=False)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 8388608")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("its pages contradict each other")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, schema.VERSION):
            raise sqlite3.DatabaseError(f"it is of version {version}, not {schema.VERSION}")
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        connection.executescript(schema.CREATE)
        page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {max(64, retention.max_bytes // page_bytes)}")
    except BaseException:
        connection.close()
        raise
    return connection


def _move_aside(path: Path, why: Exception) -> None:
    """Rename a file that cannot be used, replacing an earlier one, and log it."""
    aside = path.with_name(path.name + DAMAGED_SUFFIX)
    _LOG.warning("history: %s cannot be used (%s); it is kept as %s, a new history begins", path, why, aside.name)
    os.replace(path, aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
