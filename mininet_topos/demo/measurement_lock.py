"""Let only one demo measure at a time on a machine: two would share its processors and distort each other's figures.

An advisory lock (flock); the kernel releases it however its holder ends.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.locks import holder, open_lock, write_holder

POLL_S = 0.5


@contextmanager
def measurement_lock(lock: Path, wait_s: float, log: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock for the block, after waiting at most `wait_s`; raises PrerequisiteError if it stays taken."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    fd = open_lock(lock)
    try:
        _acquire(fd, wait_s, log)
        write_holder(fd)
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, wait_s: float, log: Callable[[str], None]) -> None:
    deadline, logged = time.monotonic() + wait_s, False
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            measuring = holder(fd)
        if time.monotonic() >= deadline:
            raise PrerequisiteError(
                f"another demo is measuring on this machine (process {measuring}): start again when it has ended,"
                " or let this one wait with --wait SECONDS"
            )
        if not logged:
            log(f"another demo is measuring (process {measuring}); waiting for it to end, at most {wait_s:.0f} s")
            logged = True
        time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
