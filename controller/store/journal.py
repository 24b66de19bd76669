"""The journal of one controller in a SQLite file: `runtime.ports.StateStore`.

SQLite runs in WAL mode with synchronous = FULL: a transaction that `write` has returned from survives a power failure.
A file that is not ours, damaged or of a newer version is refused before anything is written to it.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.runtime.ports import EPOCH_SHIFT, StoreError
from heddle.controller.store import journal_schema as schema
from heddle.controller.store.sqlite_file import header_of, identity_of

BUSY_S = 2.0
SIDE_FILES = ("-wal", "-shm")
Key = tuple[str, str]
_LOG = logging.getLogger("heddle.journal")


class SqliteStore:
    """One open journal. Each thread may use it, one at a time."""

    def __init__(self, path: Path, *, migrations: Sequence[str] = schema.MIGRATIONS) -> None:
        """Open the file, or create it; raises InputError for one that is not ours, damaged or newer."""
        self.place = str(path)
        self._path = path
        if check_file(path, newest=len(migrations)) is None:
            create(path, migrations=migrations)
        with _as_input_error(path):
            self._connection = _connected(path)
            try:
                _migrate(self._connection, migrations)
            except BaseException:
                self._connection.close()
                raise
        self._identity = identity_of(path)

    def read(self) -> Mapping[Key, bytes]:
        """Return all values; raises InputError where a row is damaged."""
        with _as_input_error(self._path):
            return read_values(self._connection)

    def write(self, values: Mapping[Key, bytes | None]) -> None:
        """Write values as one transaction that is durable afterwards; raises StoreError."""
        self.check()
        with self._as_store_error(), self._connection:
            for (kind, name), content in values.items():
                if content is None:
                    self._connection.execute(schema.DELETE, (kind, name))
                else:
                    self._connection.execute(schema.PUT, (kind, name, schema.crc_of(kind, name, content), content))

    def check(self) -> None:
        """Check that the file still has its name: one that was deleted is written again; raises StoreError."""
        found = identity_of(self._path)
        if found == self._identity:
            return
        if found is not None:
            raise StoreError(f"{self.place} was replaced by another file while the controller ran")
        _LOG.error("journal: %s was deleted while the controller ran; it is written again", self.place)
        with self._as_store_error():
            self._save_again()

    def next_generation(self) -> int:
        """Return a number above all that this journal has returned before; raises StoreError."""
        with self._as_store_error(), self._connection:
            epoch, revision = (_counter(self._connection, name) for name in ("epoch", "revision"))
            self._connection.execute(schema.SET_COUNTER, (revision + 1, "revision"))
        return epoch << EPOCH_SHIFT | (revision + 1)

    def close(self) -> None:
        """Close the file, which checkpoints its write-ahead log."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _save_again(self) -> None:
        """Copy the deleted file, which is still open, to its name."""
        for suffix in SIDE_FILES:
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        copy(self._connection, self._path)
        self._connection.close()
        self._connection = _connected(self._path)
        self._identity = identity_of(self._path)

    @contextmanager
    def _as_store_error(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.place} cannot be written ({error})") from None


def check_file(path: Path, newest: int = len(schema.MIGRATIONS), *, thoroughly: bool = False) -> int | None:
    """Return the version of a journal, None where there is none; raises InputError for one that must not be used.

    Nothing is written. `thoroughly` also checks every index and row.
    """
    try:
        head = header_of(path)
    except (ValueError, OSError) as why:
        raise InputError(f"{path} is no journal of heddle ({why}); name another directory by --state") from None
    if head is None:
        return None
    if head.application_id != schema.APPLICATION_ID:
        raise InputError(f"{path} is a SQLite file of another program; name another directory by --state")
    with _as_input_error(path):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version > newest:
                raise InputError(
                    f"{path} is of version {version}, this heddle reads {newest}: use a newer one, or another --state"
                )
            checking = "integrity_check" if thoroughly else "quick_check"
            if (found := connection.execute(f"PRAGMA {checking}(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(str(found).splitlines()[0])
            if thoroughly:
                read_values(connection)
        finally:
            connection.close()
    return version


def create(path: Path, *, epoch: int = 1, migrations: Sequence[str] = schema.MIGRATIONS) -> None:
    """Create an empty journal, under another name first: a file with the name of a journal is always a whole one."""
    beside = path.with_name(path.name + ".new")
    try:
        for left in (beside, *(beside.with_name(beside.name + suffix) for suffix in SIDE_FILES)):
            left.unlink(missing_ok=True)
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = _connected(beside)
        try:
            connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
            _migrate(connection, migrations)
            with connection:
                connection.execute(schema.SET_COUNTER, (epoch, "epoch"))
        finally:
            connection.close()
        publish(beside, path)
    except (sqlite3.Error, OSError) as error:
        raise PrerequisiteError(f"{path} cannot be created ({error}); name another directory by --state") from None


def copy(source: sqlite3.Connection, path: Path) -> None:
    """Write a copy of an open journal, whole or not at all; raises sqlite3.Error, OSError."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    target = sqlite3.connect(beside)
    try:
        source.backup(target)
        target.execute("PRAGMA journal_mode = WAL")
    finally:
        target.close()
    publish(beside, path)


def publish(beside: Path, path: Path) -> None:
    """Rename a closed file to its name, durably."""
    for name in (beside, beside.parent):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            if name is beside:
                os.fsync(descriptor)
                os.replace(beside, path)
            else:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_values(connection: sqlite3.Connection) -> dict[Key, bytes]:
    """Return all values; raises sqlite3.DatabaseError where a row does not match its checksum."""
    found: dict[Key, bytes] = {}
    for kind, name, crc, content in connection.execute(schema.ALL):
        if schema.crc_of(kind, name, content) != crc:
            raise sqlite3.DatabaseError(f"wrong checksum of {kind} {name}")
        found[kind, name] = content
    return found


def _counter(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(schema.COUNTER, (name,)).fetchone()[0])


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level="IMMEDIATE", check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 8388608")
    return connection


def _migrate(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Bring a journal to the newest version, each step in a transaction of its own."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for number, script in enumerate(migrations[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")


@contextmanager
def _as_input_error(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise PrerequisiteError(f"{path} cannot be opened ({error}); name another directory by --state") from None
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"{path} is damaged ({error}); nothing was changed: bring back a copy by `heddle state restore`"
        ) from None
