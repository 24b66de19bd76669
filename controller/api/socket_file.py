"""Listen at a socket file in whose place that of a next life can come without a moment in which none is there.

A server binds a name beside it, which then takes its place (rename(2)). A server that ends removes the name that it has
bound, gRPC's too: that is gone by then, so the file of its successor stays.
"""

import contextlib
import os
from pathlib import Path

from heddle.controller.model.server_address import MAX_PATH_BYTES, UNIX


class SocketFile:
    """The socket file of one server, at `unix:/PATH`."""

    def __init__(self, address: str) -> None:
        self.path = address.removeprefix(UNIX)
        self._inode = 0

    @property
    def beside(self) -> str:
        """Return the address to bind, in the same directory."""
        path = f"{self.path}~"
        return UNIX + (path if len(path.encode()) <= MAX_PATH_BYTES else str(Path(self.path).with_name("~")))

    def take_place(self) -> None:
        """Put what is bound beside in place; raises OSError."""
        path = self.beside.removeprefix(UNIX)
        self._inode = os.stat(path).st_ino
        os.replace(path, self.path)

    def remove(self) -> None:
        """Remove the file, unless a successor has put its own there."""
        with contextlib.suppress(OSError):
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
