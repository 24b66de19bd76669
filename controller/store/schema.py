"""The history's tables, and the statements that read and write them.

    rollup_seconds    1, 60 or 3600: how long a row's bucket is
    start_s           the bucket's first second, Unix time
    counters          what they grew by in the bucket; depth_bytes: the largest that a snapshot saw

A second is added to its three buckets in one transaction, so every level is whole after a crash, whatever was cut off.
"""

from telemetry.counters import PORT_COUNTERS, QUEUE_COUNTERS

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
CREATE TABLE IF NOT EXISTS event (
  id INTEGER PRIMARY KEY, timestamp_unix_ns INTEGER NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL,
  subject TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS event_by_time ON event (timestamp_unix_ns);
PRAGMA user_version = {VERSION};
"""


def _upsert(table: str, keys: tuple[str, ...], counters: tuple[str, ...], largest: tuple[str, ...] = ()) -> str:
    columns = (*keys, *counters, *largest)
    changes = [f"{name} = {name} + excluded.{name}" for name in counters]
    changes += [f"{name} = max({name}, excluded.{name})" for name in largest]
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(changes)}"
    )


ADD_PORT = _upsert("port_rollup", ("rollup_seconds", "start_s", "port"), PORT_COUNTERS)
ADD_QUEUE = _upsert("queue_rollup", ("rollup_seconds", "start_s", "port", "priority"), QUEUE_COUNTERS, ("depth_bytes",))
ADD_EVENT = "INSERT INTO event (timestamp_unix_ns, severity, kind, subject, text) VALUES (?, ?, ?, ?, ?)"
NEWEST_EVENTS = (
    "SELECT timestamp_unix_ns, severity, kind, subject, text FROM event WHERE timestamp_unix_ns >= ? "
    "ORDER BY timestamp_unix_ns DESC, id DESC LIMIT ?"
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
