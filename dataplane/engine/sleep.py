"""Sleep until a file is readable: a port's socket, or the event by which the control process wakes the data process."""

from collections.abc import Sequence

import numpy as np
from numba import types

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.intrinsics import address_of
from heddle.dataplane.packet.memory import native32

POLLIN = 1
_POLLFD = np.dtype([("fd", np.int32), ("events", np.int16), ("revents", np.int16)])  # struct pollfd of poll.h
_poll = types.ExternalFunction("poll", types.int32(types.int64, types.int64, types.int32))


def sleepers(files: Sequence[int]) -> Bytes:
    """Return the array of `struct pollfd` for `sleep`, from file descriptors."""
    rows = np.zeros(len(files), _POLLFD)
    rows["fd"], rows["events"] = files, POLLIN
    return rows.view(np.uint8)


@inline
def sleep(files: Bytes, timeout_ms: int) -> bool:
    """Wait until one of `sleepers`' files is readable, for `timeout_ms` at most; return whether one is."""
    return _poll(address_of(files, 0), files.size >> 3, timeout_ms) > 0


@inline
def is_called(files: Bytes) -> bool:
    """Whether the last `sleep` found the first of the files readable: in a data process the event that wakes it."""
    return native32(files, 4) >> 16 & POLLIN != 0
