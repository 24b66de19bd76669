"""JSON lines over a pipe, both ends: the protocol between the lab and its NIC, capture and queue processes.

A child exits at the end of its standard input; the kernel closes that pipe however the lab's process ends.
(PR_SET_PDEATHSIG would signal the child as soon as the *thread* that started it ends.)
"""

import json
import os
import select
import time
from collections.abc import Iterable
from typing import IO, Any

CHUNK_BYTES = 1 << 16


class LineReader:
    """Reads JSON objects, one per line, from a descriptor; it never blocks on half a line."""

    def __init__(self, fd: int) -> None:
        """Read from `fd`."""
        self.fd, self.closed = fd, False
        self._received = b""

    def read(self) -> list[dict[str, Any]]:
        """Return the objects that have arrived, waiting for the first bytes; sets `closed` at the end of the input."""
        chunk = os.read(self.fd, CHUNK_BYTES)
        self.closed = not chunk
        *lines, self._received = (self._received + chunk).split(b"\n")
        return [json.loads(line) for line in lines if line]


def wait_readable(fds: Iterable[int], timeout_s: float) -> list[int]:
    """Return the descriptors that are readable or closed, after at most `timeout_s`; not limited by FD_SETSIZE."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(timeout_s * 1000)]


def write_line(file: IO[bytes], message: dict[str, Any]) -> None:
    """Write one object as a line and flush it."""
    file.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    file.flush()


def read_one(reader: LineReader, waiting: list[dict[str, Any]], timeout_s: float) -> dict[str, Any] | None:
    """Return the next object, from `waiting` or the descriptor; None at the end of the input or after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not waiting and not reader.closed:
        rest = deadline - time.monotonic()
        if rest <= 0 or not wait_readable([reader.fd], rest):
            return None
        waiting += reader.read()
    return waiting.pop(0) if waiting else None


def read_configuration(reader: LineReader) -> dict[str, Any] | None:
    """Return the first command of a child process; None where its input ends before one arrives."""
    commands: list[dict[str, Any]] = []
    while not commands and not reader.closed:
        commands = reader.read()
    return None if reader.closed else commands[0]
