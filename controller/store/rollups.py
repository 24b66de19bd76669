"""Write seconds, minutes and hours: each second once, minutes and hours when a minute is over.

The file holds `until_s`: all seconds before it are in their minute and hour. Later seconds are in memory as well
(`Minute`); after a crash or a failed batch they are added up from the file by SQL, so that every level is complete.
"""

import sqlite3

import numpy as np
from numpy.typing import NDArray

from heddle.controller.store import schema
from heddle.controller.store.minute import Minute
from heddle.controller.store.seconds import Bucket

Ints = NDArray[np.int64]
SECOND = 1
ROWS_AT_ONCE = 100
"""Rows in one statement: a third of the time of as many statements; more rows are no faster."""


class Rollups:
    """The writer of one file's buckets. Every method runs inside of the caller's transaction."""

    def __init__(self) -> None:
        self._ids: Ints | None = None
        self._minute = Minute(0)
        self._until_s = self._newest_s = 0

    def forget(self) -> None:
        """Discard the state in memory after a failed transaction; the file is read again before the next."""
        self._ids = None

    def write(self, transaction: sqlite3.Connection, names: tuple[str, ...], seconds: list[Bucket]) -> None:
        """Write seconds; `names` are the ports of their rows."""
        if self._ids is None or self._ids.size != len(names):
            self._begin(transaction, len(names))
        for second in seconds:
            ids = self._known(transaction, names, second)
            if not self._minute.holds(second.start_s):
                self.flush(transaction)
            repeated = second.start_s < self._until_s  # the clock was set back, or a restart within a second
            if repeated:
                for level in schema.LEVELS_S:
                    _write(transaction, level, second, ids)
            else:
                _write(transaction, SECOND, second, ids, is_new=second.start_s > self._newest_s)
                self._minute.add(second)
            self._newest_s = max(self._newest_s, second.start_s)

    def flush(self, transaction: sqlite3.Connection) -> None:
        """Write the current minute, complete or not, to its minute and hour."""
        minute = self._minute.take()
        if minute is None or self._ids is None:
            return
        for level in schema.LEVELS_S[1:]:
            _write(transaction, level, minute, self._ids)
        self._rolled(transaction, self._newest_s + 1)

    def drop_before(self, transaction: sqlite3.Connection, level: int, start_s: int) -> None:
        """Drop a level's buckets before a time; the minutes and hours of dropped seconds stay."""
        early = level == SECOND and start_s > self._until_s
        if early and self._ids is None:
            self.catch_up(transaction)
        for table in (schema.PORT_TABLE, schema.QUEUE_TABLE):
            transaction.execute(table.drop, (level, start_s))
        if early:
            self.flush(transaction)  # only now: before, the file may be full

    def catch_up(self, transaction: sqlite3.Connection) -> None:
        """Add all seconds from `until_s` on to their minutes and hours in the file."""
        self._newest_s = transaction.execute(schema.NEWEST_SECOND).fetchone()[0]
        found = transaction.execute(schema.ROLLED_UNTIL).fetchone()
        if found is not None:  # else a file without this mark, of an older version: its roll-ups are complete
            for level in schema.LEVELS_S[1:]:
                transaction.execute(schema.ROLL_UP_PORTS, {"level": level, "until_s": found[0]})
                transaction.execute(schema.ROLL_UP_QUEUES, {"level": level, "until_s": found[0]})
        self._rolled(transaction, self._newest_s + 1)

    def _begin(self, transaction: sqlite3.Connection, ports: int) -> None:
        """Read `until_s` from the file and start an empty minute for this many ports."""
        self.catch_up(transaction)
        self._ids, self._minute = np.full(ports, -1, dtype=np.int64), Minute(ports)

    def _rolled(self, transaction: sqlite3.Connection, until_s: int) -> None:
        self._until_s = until_s
        transaction.execute(schema.SET_ROLLED_UNTIL, (until_s,))

    def _known(self, transaction: sqlite3.Connection, names: tuple[str, ...], second: Bucket) -> Ints:
        """Return the file's ids of the ports, those of a second's rows among them."""
        assert self._ids is not None
        rows = np.union1d(second.ports[:, 0], second.queues[:, 0])
        new = [(names[row],) for row in rows[self._ids[rows] < 0].tolist()]
        if new:
            transaction.executemany("INSERT OR IGNORE INTO port (name) VALUES (?)", new)
            by_name = dict(transaction.execute("SELECT name, id FROM port").fetchall())
            self._ids = np.array([by_name.get(name, -1) for name in names], dtype=np.int64)
        return self._ids


def _write(transaction: sqlite3.Connection, level: int, bucket: Bucket, ids: Ints, *, is_new: bool = False) -> None:
    """Add a bucket's rows to a level; `is_new` where none of them exists yet."""
    start_s = bucket.start_s - bucket.start_s % level
    for table, rows in ((schema.PORT_TABLE, bucket.ports), (schema.QUEUE_TABLE, bucket.queues)):
        where = np.broadcast_to(np.array((level, start_s), dtype=np.int64), (len(rows), 2))
        whole = np.column_stack((where, ids[rows[:, 0]], rows[:, 1:]))
        many = len(whole) // ROWS_AT_ONCE * ROWS_AT_ONCE
        statement = table.add(ROWS_AT_ONCE, is_new=is_new)
        for first in range(0, many, ROWS_AT_ONCE):  # in chunks: the loop gets the interpreter in between
            transaction.execute(statement, whole[first : first + ROWS_AT_ONCE].ravel().tolist())
        transaction.executemany(table.add(1, is_new=is_new), whole[many:].tolist())
