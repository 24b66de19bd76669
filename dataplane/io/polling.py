"""Wait for frames in poll(2) for a bounded time."""

from collections.abc import Sequence

import numpy as np

from heddle.dataplane.io.frames.layout import POLL_AT, POLL_FDS, Ports
from heddle.dataplane.io.system_calls import POLLIN, poll
from heddle.dataplane.jit import kernel
from heddle.dataplane.packet.intrinsics import address_of

POLL_BYTES = 8
"""`struct pollfd`: descriptor 32 | events 16 | returned events 16."""


def write_poll_rows(ports: Ports, descriptors: Sequence[int]) -> None:
    """Store the sockets that `wait` polls."""
    rows = np.array([(fd, POLLIN, 0) for fd in descriptors], np.dtype("<i4,<i2,<i2"))
    at = int(ports.pool[POLL_AT])
    ports.memory[at : at + rows.nbytes] = rows.view(np.uint8)
    ports.pool[POLL_FDS] = len(rows)


@kernel
def wait(ports: Ports, timeout_ms: int) -> bool:
    """Sleep until a frame arrives or the time is up; return whether one has arrived. Memory ports never sleep."""
    if ports.pool[POLL_FDS] == 0:
        return True
    return poll(address_of(ports.memory, ports.pool[POLL_AT]), ports.pool[POLL_FDS], timeout_ms) > 0
