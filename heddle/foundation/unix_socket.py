"""Probe Unix sockets in the file system."""

import socket
from pathlib import Path


def is_listening(path: str | Path, kind: int = socket.SOCK_STREAM) -> bool:
    """Return whether a process listens at a socket file: False for a stale file of a process that has ended."""
    with socket.socket(socket.AF_UNIX, kind) as end:
        try:
            end.connect(str(path))
        except OSError:
            return False
        return True
