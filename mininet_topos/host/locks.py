"""Advisory lock files (flock); the kernel releases a lock however its holder ends, `kill -9` included."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """Take the lock, creating the file, and return the descriptor that holds it; None if another process holds it.

    Children do not inherit it (close-on-exec).
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_held(path: Path) -> bool:
    """Return whether a lock file exists and some process holds its lock."""
    if not path.exists():
        return False
    fd = try_lock(path)
    if fd is not None:
        os.close(fd)
    return fd is None


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Wait for the lock and hold it for the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
