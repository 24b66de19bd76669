"""Append lines to the audit file in a thread: JSON objects, one a line; the controller never waits for the disk.

FILE is renamed to FILE.1 when it has half of the allowed bytes, in place of the FILE.1 before. While the disk is full,
or the file cannot be written, lines are lost: they are counted, and a warning is logged at most once in WARN_S.
"""

import contextlib
import json
import logging
import os
import queue
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

from heddle.controller.model.error import InputError, PrerequisiteError

QUEUE_LIMIT = 16_384
"""The lines that wait to be written; more are lost."""
WARN_S = 60.0
CLOSE_S = 5.0
MAX_LINE_BYTES = 64 << 10
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_LOG = logging.getLogger("heddle.controller")


class AuditFile:
    """The file of one controller, mode 0600. `lost` counts the lines that could not be written."""

    def __init__(self, path: Path, max_bytes: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """Open the file and start the thread; raises PrerequisiteError, InputError for a file of something else."""
        self.lost = 0
        self._path, self._max_bytes, self._monotonic_s = path, max_bytes, monotonic_s
        self._warned_s: float | None = None
        self._waiting: queue.Queue[bytes | None] = queue.Queue(QUEUE_LIMIT)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = _opened(path)
        except OSError as error:
            raise PrerequisiteError(f"audit: {path} cannot be written ({error.strerror}); name another file") from None
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def write(self, fields: dict[str, str]) -> None:
        """Write one line later; count it as lost where too many wait. Never blocks."""
        line = json.dumps(fields).encode()
        try:
            self._waiting.put_nowait(line + b"\n")
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Write what waits, for a few seconds at most."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_S)
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            os.close(self._descriptor)

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._append(line)
            except OSError as error:
                self.lost += 1
                self._warn(error)

    def _append(self, line: bytes) -> None:
        """Write a line whole or not at all; raises OSError."""
        size = os.fstat(self._descriptor).st_size
        if size and size + len(line) > self._max_bytes // 2:
            os.replace(self._path, self._path.with_name(self._path.name + ".1"))
            fresh = _opened(self._path)
            os.close(self._descriptor)
            self._descriptor, size = fresh, 0
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError:
            if written:
                os.ftruncate(self._descriptor, size)
            raise

    def _warn(self, error: OSError) -> None:
        now_s = self._monotonic_s()
        if self._warned_s is None or now_s - self._warned_s >= WARN_S:
            self._warned_s = now_s
            _LOG.warning("%s: the audit trail cannot be written (%s); %d lines lost", self._path, error, self.lost)


def _opened(path: Path) -> int:
    """Open an audit file or create one; raises OSError, InputError for what was never one."""
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or (
            found.st_size and not _is_audit(os.pread(descriptor, MAX_LINE_BYTES, 0))
        ):
            raise InputError(f"audit: {path} is no audit file of heddle; name another file")
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_audit(begin: bytes) -> bool:
    """Return whether a file begins with a line of an audit trail."""
    try:
        fields = json.loads(begin.partition(b"\n")[0])
    except ValueError:
        return False
    return isinstance(fields, dict) and {"time", "who", "what", "outcome"} <= fields.keys()
