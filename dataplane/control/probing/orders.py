"""Messages between the control process and the process that probes.

They have a module of their own, because the other process runs its own one as `__main__`, under which pickle would not
find the same classes.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from heddle.dataplane.control.probing.probes import Target
from heddle.dataplane.control.process import messages

MAX_KEYS = 256
"""Targets in one message, whose size is limited."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Probe these targets, by key, from now on; a target that is probed already is not begun again."""

    targets: dict[Any, Target] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Forget:
    """Probe these keys no more."""

    keys: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Turned:
    """A target is up, or down, from now on."""

    key: Any
    is_up: bool


async def read_messages(end: socket.socket, handle: Callable[[Any], None]) -> None:
    """Pass each message that arrives to `handle`, until the other end is closed.

    Messages are read in the callback itself: a task that reads later could find none left, and would block.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def read() -> None:
        message, _ = messages.receive(end)
        if message is not None:
            handle(message)
            return
        loop.remove_reader(end.fileno())
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(end.fileno(), read)
    try:
        await ended
    finally:
        loop.remove_reader(end.fileno())
