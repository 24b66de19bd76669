"""Let one process at a time compile a kernel; the others wait, then read it from the cache."""

import fcntl
import os
import select
from contextlib import suppress
from pathlib import Path

TIMEOUT_S = 120.0
"""Of waiting for another process, which may hang: after that a process compiles for itself."""
POLL_S = 0.02


class CompileLock:
    """A lock on a file beside the cached kernel. The kernel of the system releases it where a process dies.

    Kernels are compiled while their callers are, so a process may hold several. Calls have no cycles, so no two
    processes wait for each other. Without a writable directory there is no lock and no waiting.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process has the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock; wait for the process that has it, for at most TIMEOUT_S."""
        if self._file is not None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            for _ in range(round(TIMEOUT_S / POLL_S)):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    select.select([], [], [], POLL_S)  # sleeps: the packages of kernels import no clock
                else:
                    self._file = file
                    return
            os.close(file)

    def release(self) -> None:
        """Give the lock back, if this process has it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
