"""JSON lines over a pipe, both ends: how the lab talks with its NIC and capture processes.

A child ends when its standard input does, which the kernel sees to however the lab's process ends. (The
signal of PR_SET_PDEATHSIG would come already when the *thread* that started the child ends.)
"""

import json
import os
import select
import time
from collections.abc import Iterable
from typing import IO, Any

CHUNK_BYTES = 1 << 16


class LineReader:
    """Reads JSON objects, one per line, from a descriptor without ever blocking on half a line."""

    def __init__(self, fd: int) -> None:
        """Read from `fd`."""
        self.fd, self.closed = fd, False
        self._received = b""

    def read(self) -> list[dict[str, Any]]:
        """Return what has arrived, waiting for at least some bytes; sets `closed` at the end of the input."""
        chunk = os.read(self.fd, CHUNK_BYTES)
        self.closed = not chunk
        *lines, self._received = (self._received + chunk).split(b"\n")
        return [json.loads(line) for line in lines if line]


def wait_readable(fds: Iterable[int], timeout_s: float) -> list[int]:
    """Return the descriptors that can be read or have ended, waiting at most so long; any number will do."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(timeout_s * 1000)]


def write_line(file: IO[bytes], message: dict[str, Any]) -> None:
    """Send one object at once."""
    file.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    file.flush()


def read_one(reader: LineReader, waiting: list[dict[str, Any]], timeout_s: float) -> dict[str, Any] | None:
    """Return the next object, from `waiting` or the descriptor; None when the input ends or time is over."""
    deadline = time.monotonic() + timeout_s
    while not waiting and not reader.closed:
        rest = deadline - time.monotonic()
        if rest <= 0 or not wait_readable([reader.fd], rest):
            return None
        waiting += reader.read()
    return waiting.pop(0) if waiting else None
