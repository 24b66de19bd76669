"""One demo measures at a time on a machine: two at once would share its processors and distort each other.

The turn is an advisory lock; the kernel gives it back however its holder ends.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.model.error import PrerequisiteError

POLL_S = 0.5


@contextmanager
def measurement_lock(lock: Path, wait_s: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the turn, after waiting for it at most `wait_s`; raises PrerequisiteError where it does not come."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(fd, wait_s, say)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _take(fd: int, wait_s: float, say: Callable[[str], None]) -> None:
    deadline, told = time.monotonic() + wait_s, False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        if time.monotonic() >= deadline:
            raise PrerequisiteError(
                f"another demo is measuring on this machine (process {holder}): start again when it has ended,"
                " or let this one wait with --wait SECONDS"
            )
        if not told:
            say(f"another demo is measuring (process {holder}); waiting for the turn, at most {wait_s:.0f} s")
            told = True
        time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
