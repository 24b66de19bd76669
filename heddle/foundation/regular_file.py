"""Read regular files alone, up to a limit: opening a FIFO may wait for ever, and reading a device may never end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file; raises OSError for anything else, without waiting, and ValueError for a name with NULs."""
    file = open(path, "rb", opener=_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return file


def read_regular(path: Path | str, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`; raises OSError, ValueError for a name with NULs."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size <= max_bytes:
            content = file.read(max_bytes + 1)  # files below /proc have size 0, and a file may grow
            if len(content) <= max_bytes:
                return content
    raise OSError(errno.EFBIG, f"larger than {_size_text(max_bytes)}, the most that is read", str(path))


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a FIFO, and take no terminal as the controlling one."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _size_text(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count:,} bytes"
