"""The socket at which hooks wake the agent, and wait for the end of a pass that began after they came."""

import os
import selectors
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.foundation.unix_socket import is_listening, is_other_file

BACKLOG = 1_024
MAX_WAITING = 512
"""The maximum of connections that wait for a pass; beyond, the oldest is closed, and its hook ends."""
MODE = 0o600
DONE = b"\n"


class WakeSocket:
    """A listening socket file of this process's user alone; raises PrerequisiteError where another agent has it.

    `turned_away` counts the hooks that did not wait, as too many did.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.turned_away = 0
        if is_listening(path):
            raise PrerequisiteError(f"{path}: another agent listens there")
        if is_other_file(path):
            raise PrerequisiteError(f"{path}: exists and is no socket")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o777 & ~MODE)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(mask)
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def wait(self, timeout_s: float) -> list[socket.socket]:
        """Wait for hooks, at most `timeout_s`; return the connections of those that came, for `release`."""
        found: list[socket.socket] = []
        if self._selector.select(max(0.0, timeout_s)):
            with suppress(OSError):  # no more of them
                while True:
                    found.append(self._listener.accept()[0])
                    if len(found) > MAX_WAITING:
                        found.pop(0).close()
                        self.turned_away += 1
        return found

    def release(self, waiting: Iterable[socket.socket]) -> None:
        """End the wait of hooks; one that has gone is no error."""
        for each in waiting:
            with suppress(OSError):
                each.setblocking(False)
                each.send(DONE)
            each.close()

    def close(self) -> None:
        """Close the socket and remove its file."""
        self._selector.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)
