"""The directory of what survives a restart: its default place, its lock, and copies of its journal.

DIR/lock             held while a controller uses the directory, or a command changes it
DIR/journal.sqlite   the journal
DIR/epoch            the journal's epoch: that there was one, also where the journal is gone
"""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from heddle.controller.model.error import InputError, InUseError, PrerequisiteError
from heddle.controller.runtime.ports import EPOCH_SHIFT
from heddle.controller.store import journal_schema as schema
from heddle.controller.store.journal import SqliteStore, check_file, copy, create, publish, read_values

JOURNAL, EPOCH, LOCK = "journal.sqlite", "epoch", "lock"
NONE = "none"
"""The name for no directory at all: nothing survives."""
_LOG = logging.getLogger("heddle.journal")


def default_directory() -> Path:
    """Return the directory of a service for root, and that of the user (XDG base directories) for others."""
    if os.geteuid() == 0:
        return Path("/var/lib/heddle")
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local/state") / "heddle"


class StateDirectory:
    """A directory that this process alone uses, until `close`."""

    def __init__(self, directory: Path) -> None:
        """Create the directory (mode 0700) where it is absent, and lock it; raises PrerequisiteError, InUseError."""
        self.journal = directory / JOURNAL
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            text = f"state: {directory} cannot be used ({error.strerror}); name another directory by --state"
            raise PrerequisiteError(text) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InUseError(
                f"state: {directory} is used by another controller or command; end it, or name another by --state"
            ) from None

    def open(self) -> SqliteStore:
        """Open its journal, or begin one; raises InputError, also where there was one, and PrerequisiteError."""
        is_there, log = _has_content(self.journal), self.journal.with_name(JOURNAL + "-wal")
        if not is_there and (_epoch_before(self.journal) is not None or self.journal.exists() or log.exists()):
            what = "is empty" if self.journal.exists() else "is gone"
            raise InputError(
                f"{self.journal} {what}, and there was a journal: bring back a copy by `heddle state restore FILE`, or "
                f"begin with nothing by `heddle state init`, each with `--state {self.journal.parent}`"
            )
        store = SqliteStore(self.journal)
        if not is_there:
            _LOG.info("journal: %s begins, with nothing in it", self.journal)
        _remember_epoch(self.journal, epoch_in(self.journal))
        return store

    def close(self) -> None:
        """Release the directory."""
        os.close(self._lock)


@contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Lock a directory for a command; yields the path of its journal."""
    held = StateDirectory(directory)
    try:
        yield held.journal
    finally:
        held.close()


def init(directory: Path, above: int) -> int:
    """Create an empty journal whose generations are above a number that a switch has reported; return its epoch."""
    with locked(directory) as path:
        if check_file(path) is not None:
            raise InUseError(f"{path} exists already; nothing was changed")
        epoch = max(_epoch_before(path) or 0, above >> EPOCH_SHIFT) + 1
        create(path, epoch=epoch)
        _remember_epoch(path, epoch)
        return epoch


def raise_epoch(directory: Path, above: int) -> int:
    """Raise the generations of a journal above one that a switch has reported; return the epoch."""
    with locked(directory) as path:
        _existing(directory)
        epoch = max(epoch_in(path), (above >> EPOCH_SHIFT)) + 1
        _set_epoch(path, epoch)
        return epoch


def backup(directory: Path, file: Path) -> None:
    """Copy a journal, also while a controller writes to it."""
    path = _existing(directory)
    if file.exists():
        raise InUseError(f"{file} exists already; nothing was changed")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            copy(source, file)
    except (sqlite3.Error, OSError) as error:
        raise PrerequisiteError(f"{file} cannot be written ({error})") from None


def restore(directory: Path, file: Path, above: int) -> int:
    """Replace a journal by a copy; return its epoch, which is above that of both and above a number given.

    The journal of before is kept as `journal.sqlite.replaced`.
    """
    if check_file(file, thoroughly=True) is None:
        raise InputError(f"{file}: there is no such copy")
    with locked(directory) as path:
        epochs = [epoch_in(file), above >> EPOCH_SHIFT, _epoch_before(path) or 0]
        if path.exists():
            epochs.append(epoch_in(path))
            aside = path.with_name(path.name + ".replaced")
            for suffix in ("", "-wal", "-shm"):
                side = path.with_name(path.name + suffix)
                if side.exists():
                    os.replace(side, aside.with_name(aside.name + suffix))
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source:
            copy(source, path)
        _set_epoch(path, max(epochs) + 1)
        return max(epochs) + 1


def check(directory: Path) -> dict[str, int]:
    """Check every page, index and row of a journal; return its version, its epoch and the number of each kind."""
    path = _existing(directory)
    version = check_file(path, thoroughly=True)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        counts: dict[str, int] = {}
        for kind, _ in read_values(connection):
            counts[kind] = counts.get(kind, 0) + 1
    return {"version": version or 0, "epoch": epoch_in(path), **counts}


def has_journal(directory: Path) -> bool:
    """Return whether a directory holds a journal; raises InputError for one that is damaged."""
    return check_file(directory / JOURNAL) is not None


def read(directory: Path) -> dict[tuple[str, str], bytes]:
    """Return all values of a journal, also while a controller writes to it; raises InputError."""
    path = _existing(directory)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return read_values(connection)
    except sqlite3.Error as error:
        raise InputError(f"{path} is damaged ({error}): `heddle state restore`") from None


def _existing(directory: Path) -> Path:
    path = directory / JOURNAL
    if check_file(path) is None:
        raise InputError(f"{path}: there is no journal")
    return path


def _set_epoch(path: Path, epoch: int) -> None:
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(schema.SET_COUNTER, (epoch, "epoch"))
    except sqlite3.Error as error:
        raise PrerequisiteError(f"{path} cannot be written ({error})") from None
    _remember_epoch(path, epoch)


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _epoch_before(path: Path) -> int | None:
    """Return the epoch of the journal that there was, None where there was none; 0 where it cannot be read."""
    try:
        return int(path.with_name(EPOCH).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return 0


def _remember_epoch(path: Path, epoch: int) -> None:
    """Write beside a journal that there is one; raises PrerequisiteError."""
    if _epoch_before(path) == epoch:
        return
    beside = path.with_name(EPOCH + ".new")
    try:
        beside.write_text(f"{epoch}\n")
        publish(beside, path.with_name(EPOCH))
    except OSError as error:
        raise PrerequisiteError(f"{path.with_name(EPOCH)} cannot be written ({error.strerror})") from None


def epoch_in(path: Path) -> int:
    """Return the epoch of a journal; 0 where it cannot be read any more."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute(schema.COUNTER, ("epoch",)).fetchone()[0])
    except sqlite3.Error:
        return 0
