"""Enter the network namespace of another process with one thread (setns(2))."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network_namespace(pid: int) -> Iterator[None]:
    """Run the block in the network namespace of a process (this thread only); raises OSError."""
    own, other = (os.open(f"/proc/{process}/ns/net", os.O_RDONLY | os.O_CLOEXEC) for process in ("thread-self", pid))
    try:
        _enter(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)
        os.close(other)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"a host's network namespace cannot be entered: {os.strerror(number)}")
