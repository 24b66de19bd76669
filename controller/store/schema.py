"""Define the history's tables, and the SQL statements that read and write them.

rollup_seconds    the length of a row's bucket: 1, 60 or 3600
start_s           the bucket's first second, Unix time
counters          their growth in the bucket; depth_bytes: the maximum of the snapshots

link_state        the ids of links that are down and drained from a time on, separated by line ends

rolled.until_s    all seconds before it are in their minute and hour; later ones are added at the end of
                  their minute, or when the file is opened after a crash
"""

from dataclasses import dataclass

from heddle.telemetry.samples.counters import PORT_COUNTERS, QUEUE_COUNTERS

APPLICATION_ID = 0x48444C48
"""The ASCII letters HDLH, at byte 68 of the file: it shows that a file is a history."""
VERSION = 1
LEVELS_S = (1, 60, 3_600)

_PORT_COLUMNS = ", ".join(f"{name} INTEGER NOT NULL" for name in PORT_COUNTERS)
_QUEUE_COLUMNS = ", ".join(f"{name} INTEGER NOT NULL" for name in (*QUEUE_COUNTERS, "depth_bytes"))

CREATE = f"""
CREATE TABLE IF NOT EXISTS port (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS port_rollup (
  rollup_seconds INTEGER, start_s INTEGER, port INTEGER, {_PORT_COLUMNS},
  PRIMARY KEY (rollup_seconds, start_s, port)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue_rollup (
  rollup_seconds INTEGER, start_s INTEGER, port INTEGER, priority INTEGER, {_QUEUE_COLUMNS},
  PRIMARY KEY (rollup_seconds, start_s, port, priority)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rolled (id INTEGER PRIMARY KEY CHECK (id = 1), until_s INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS event (
  id INTEGER PRIMARY KEY, timestamp_unix_ns INTEGER NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL,
  subject TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS event_by_time ON event (timestamp_unix_ns);
CREATE TABLE IF NOT EXISTS link_state (
  timestamp_unix_ns INTEGER PRIMARY KEY, down TEXT NOT NULL, drained TEXT NOT NULL);
PRAGMA user_version = {VERSION};
"""


@dataclass(frozen=True, slots=True)
class Table:
    """One of the two tables of buckets: its keys, the counters that add up, and the columns that keep a maximum."""

    name: str
    keys: tuple[str, ...]
    counters: tuple[str, ...]
    largest: tuple[str, ...] = ()

    @property
    def columns(self) -> str:
        """Return all columns in the order of the rows."""
        return ", ".join((*self.keys, *self.counters, *self.largest))

    @property
    def drop(self) -> str:
        """Return the statement that drops a level's rows before a time."""
        return f"DELETE FROM {self.name} WHERE rollup_seconds = ? AND start_s < ?"

    def add(self, rows: int, *, is_new: bool = False) -> str:
        """Return the statement that adds `rows` rows to the existing ones; `is_new`: none of them exists."""
        values = f"({', '.join('?' * (len(self.keys) + len(self.counters) + len(self.largest)))})"
        insert = f"INSERT INTO {self.name} ({self.columns}) VALUES {', '.join([values] * rows)}"
        return insert if is_new else f"{insert} {self._or_add}"

    def roll_up(self) -> str:
        """Return the statement that adds the seconds from `until_s` on to the buckets of a `level`."""
        inner = ", ".join(self.keys[2:])
        sums = [f"sum({name})" for name in self.counters] + [f"max({name})" for name in self.largest]
        return (
            f"INSERT INTO {self.name} ({self.columns}) "
            f"SELECT :level, start_s - start_s % :level AS bucket_s, {inner}, {', '.join(sums)} FROM {self.name} "
            f"WHERE rollup_seconds = 1 AND start_s >= :until_s GROUP BY bucket_s, {inner} {self._or_add}"
        )

    @property
    def _or_add(self) -> str:
        changes = [f"{name} = {name} + excluded.{name}" for name in self.counters]
        changes += [f"{name} = max({name}, excluded.{name})" for name in self.largest]
        return f"ON CONFLICT ({', '.join(self.keys)}) DO UPDATE SET {', '.join(changes)}"


PORT_TABLE = Table("port_rollup", ("rollup_seconds", "start_s", "port"), PORT_COUNTERS)
QUEUE_TABLE = Table("queue_rollup", ("rollup_seconds", "start_s", "port", "priority"), QUEUE_COUNTERS, ("depth_bytes",))
ROLL_UP_PORTS, ROLL_UP_QUEUES = PORT_TABLE.roll_up(), QUEUE_TABLE.roll_up()
NEWEST_SECOND = (
    "SELECT max(coalesce((SELECT max(start_s) FROM port_rollup WHERE rollup_seconds = 1), 0), "
    "coalesce((SELECT max(start_s) FROM queue_rollup WHERE rollup_seconds = 1), 0))"
)
ROLLED_UNTIL = "SELECT until_s FROM rolled"
SET_ROLLED_UNTIL = "INSERT OR REPLACE INTO rolled (id, until_s) VALUES (1, ?)"
ADD_EVENT = "INSERT INTO event (timestamp_unix_ns, severity, kind, subject, text) VALUES (?, ?, ?, ?, ?)"
NEWEST_EVENTS = (
    "SELECT timestamp_unix_ns, severity, kind, subject, text FROM event WHERE timestamp_unix_ns BETWEEN ? AND ? "
    "ORDER BY timestamp_unix_ns DESC, id DESC LIMIT ?"
)
ADD_LINK_STATE = "INSERT OR REPLACE INTO link_state (timestamp_unix_ns, down, drained) VALUES (?, ?, ?)"
LINK_STATE_AT = (
    "SELECT timestamp_unix_ns, down, drained FROM link_state WHERE timestamp_unix_ns <= ? "
    "ORDER BY timestamp_unix_ns DESC LIMIT 1"
)
DROP_LINK_STATES = (  # all but the newest before a time, which is the state at that time
    "DELETE FROM link_state WHERE timestamp_unix_ns < "
    "(SELECT max(timestamp_unix_ns) FROM link_state WHERE timestamp_unix_ns <= ?)"
)
OLDEST_EVENT = "SELECT min(timestamp_unix_ns) FROM event"
RECORDED = (  # one step down the index for each bucket
    "WITH RECURSIVE starts (s) AS ("
    "SELECT min(start_s) FROM port_rollup WHERE rollup_seconds = :level AND start_s >= :since_s UNION ALL "
    "SELECT (SELECT min(start_s) FROM port_rollup WHERE rollup_seconds = :level AND start_s > s) FROM starts "
    "WHERE s IS NOT NULL AND s <= :until_s) SELECT s FROM starts WHERE s <= :until_s"
)
NEWEST_BUCKET = (
    "SELECT max(start_s) FROM port_rollup WHERE rollup_seconds = :level AND start_s BETWEEN :since_s AND :until_s"
)
MOMENT_PORTS = (
    "SELECT name, tx_bytes, rx_bytes FROM port_rollup JOIN port ON port.id = port_rollup.port "
    "WHERE rollup_seconds = ? AND start_s = ?"
)
MOMENT_QUEUES = (
    "SELECT name, max(paused_ns) FROM queue_rollup JOIN port ON port.id = queue_rollup.port "
    "WHERE rollup_seconds = ? AND start_s = ? AND paused_ns > 0 GROUP BY name"
)
PORT_ROLLUPS = (
    f"SELECT start_s, {', '.join(PORT_COUNTERS)} FROM port_rollup JOIN port ON port.id = port_rollup.port "
    "WHERE name = ? AND rollup_seconds = ? AND start_s >= ? ORDER BY start_s"
)
QUEUE_ROLLUPS = (
    f"SELECT start_s, priority, {', '.join((*QUEUE_COUNTERS, 'depth_bytes'))} FROM queue_rollup "
    "JOIN port ON port.id = queue_rollup.port WHERE name = ? AND rollup_seconds = ? AND start_s >= ? "
    "ORDER BY start_s, priority"
)
