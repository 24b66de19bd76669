"""Probe Unix sockets in the file system."""

import socket
import stat
from contextlib import suppress
from pathlib import Path


def is_listening(path: str | Path, kind: int = socket.SOCK_STREAM) -> bool:
    """Return whether a process listens at a socket file: False for a stale file of a process that has ended."""
    with socket.socket(socket.AF_UNIX, kind) as end:
        try:
            end.connect(str(path))
        except OSError:
            return False
        return True


def is_other_file(path: str | Path) -> bool:
    """Return whether something that is no socket has a name: a server that listens there would replace it."""
    with suppress(OSError):
        return not stat.S_ISSOCK(Path(path).lstat().st_mode)
    return False
