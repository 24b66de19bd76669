"""The socket between the control process and its data process: messages with the files of segments.

Both ends are the same program on the same machine and one made the other, so messages are pickled values.
"""

import os
import pickle
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dataplane.config.local import LocalConfig

MAX_MESSAGE_BYTES = 1 << 20
MAX_FILES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a data process is to run."""

    backend: str = "auto"
    """Kind of port: auto, af-xdp or af-packet."""
    busy_poll: bool = False
    """Never sleep while there is nothing to do: 5 us of latency instead of 30, for a core of its own."""
    cpu: int | None = None
    """The core that it is bound to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first message to a data process.

    With it come the control and the state segment and two events (eventfd): that which ends a sleep, and that which
    tells the slow path of its packets.
    """

    local: LocalConfig
    options: Options
    paired: bool
    """Whether there is a partner to exchange connections with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A generation of tables; comes with their segment."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The data process forwards from now on."""

    backend: str
    notices: tuple[str, ...] = ()
    """What an operator should know: why it is not the fastest kind of port, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The data process cannot run here and ends."""

    reason: str


def pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends; a message arrives whole or not at all."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Any, files: Sequence[int] = ()) -> None:
    """Send a message; raises OSError where the other end is gone."""
    content = pickle.dumps(message)
    if len(content) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(content)} bytes; at most {MAX_MESSAGE_BYTES}")
    socket.send_fds(end, [content], files)


def receive(end: socket.socket) -> tuple[Any, list[int]]:
    """Return a message and its files, which are the caller's to close; (None, []) where the other end is gone."""
    try:
        content, files, flags, _ = socket.recv_fds(end, MAX_MESSAGE_BYTES, MAX_FILES)
    except ConnectionResetError:
        # It ended with a message of ours unread: the kernel tells that first, and then what it had said before.
        content, files, flags, _ = socket.recv_fds(end, MAX_MESSAGE_BYTES, MAX_FILES)
    if not content:
        return None, []
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for file in files:
            os.close(file)
        raise ValueError("a message was cut off")
    return pickle.loads(content), files
