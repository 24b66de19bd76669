"""Messages between the control process and the data process: pickled values with file descriptors (SCM_RIGHTS).

The control process starts the data process from the same program, so pickle is safe and versions agree.
"""

import os
import pickle
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heddle.dataplane.config.local import LocalConfig

MAX_MESSAGE_BYTES = 1 << 20
MAX_FILES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a data process."""

    backend: str = "auto"
    """Port backend: auto, af-xdp or af-packet."""
    busy_poll: bool = False
    """Never sleep: 5 us of latency instead of 30, at the cost of a dedicated core."""
    cpu: int | None = None
    """Core to bind to; None for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first message to a data process.

    Files: the control segment, the state segment, the eventfd that ends a sleep of the data process, and the eventfd
    that notifies the slow path of punted packets, and the segment that tables are changed in.
    """

    local: LocalConfig
    options: Options
    paired: bool
    """Whether connections are replicated with a partner."""
    program: str
    """What the data process runs (`programs`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A generation of tables; its segment is the only file."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The data process forwards from now on."""

    backend: str
    notices: tuple[str, ...] = ()
    """Lines for the operator, such as why a slower port backend is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The data process cannot run on this host and ends."""

    reason: str


def pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a SOCK_SEQPACKET pair: a message arrives whole or not at all."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Any, files: Sequence[int] = ()) -> None:
    """Send a message; raises OSError if the other end is closed."""
    content = pickle.dumps(message)
    if len(content) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(content)} bytes; at most {MAX_MESSAGE_BYTES}")
    socket.send_fds(end, [content], files)


def receive(end: socket.socket) -> tuple[Any, list[int]]:
    """Return a message and its files, which the caller closes; (None, []) if the other end is closed."""
    try:
        content, files, flags, _ = socket.recv_fds(end, MAX_MESSAGE_BYTES, MAX_FILES)
    except ConnectionResetError:
        # The peer ended with a message of ours unread: the kernel reports that first, and then delivers its messages.
        content, files, flags, _ = socket.recv_fds(end, MAX_MESSAGE_BYTES, MAX_FILES)
    if not content:
        return None, []
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for file in files:
            os.close(file)
        raise ValueError("a message was cut off")
    return pickle.loads(content), files
