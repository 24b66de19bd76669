"""Advisory lock files (flock); the kernel releases a lock however its holder ends, `kill -9` included."""

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

QUIET_S, POLL_S = 1.0, 0.02
"""Labs that start together wait for each other for less than QUIET_S: longer waits are reported."""


def try_lock(path: Path) -> int | None:
    """Take the lock, creating the file, and return the descriptor that holds it; None if another process holds it.

    Children do not inherit it (close-on-exec).
    """
    fd = open_lock(path)
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
    """Wait for the lock and hold it for the block; a long wait is reported on standard error with the holder's pid."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = open_lock(path)
    try:
        _wait(fd, path)
        write_holder(fd)
        yield
    finally:
        os.close(fd)


def open_lock(path: Path) -> int:
    """Open a lock file, creating it; its mode lets no other user open, and therefore hold it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if os.fstat(fd).st_uid == os.geteuid():
        os.fchmod(fd, 0o600)
    return fd


def write_holder(fd: int) -> None:
    """Write this process's id into a lock file that it holds."""
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def holder(fd: int) -> str:
    """Return the id of the process that holds a lock file, `unknown` if it has written none."""
    return os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"


def _wait(fd: int, path: Path) -> None:
    begin = time.monotonic()
    while time.monotonic() - begin < QUIET_S:
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(POLL_S)
    print(f"heddle: {path} is held by process {holder(fd)}; waiting for it", file=sys.stderr, flush=True)
    fcntl.flock(fd, fcntl.LOCK_EX)
