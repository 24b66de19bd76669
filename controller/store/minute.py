"""Accumulate the current minute in arrays: the growth of each port and queue since the file was last rolled up.

Adding each second to its minute and hour in the file would triple the writes; adding it up in memory and writing once a
minute is nearly free. Pure; the writer's thread owns it.
"""

import numpy as np
from numpy.typing import NDArray

from heddle.controller.store.seconds import Bucket
from heddle.telemetry.samples.counters import PORT_COUNTERS, PRIORITIES, QUEUE_COUNTERS

Ints = NDArray[np.int64]
MINUTE_S = 60


class Minute:
    """One minute of up to `ports` ports; `start_s` is None while it is empty."""

    def __init__(self, ports: int) -> None:
        self.start_s: int | None = None
        self._ports = np.zeros((ports, len(PORT_COUNTERS)), dtype=np.int64)
        self._queues = np.zeros((ports, PRIORITIES, len(QUEUE_COUNTERS)), dtype=np.int64)
        self._depth = np.zeros((ports, PRIORITIES), dtype=np.int64)

    def holds(self, start_s: int) -> bool:
        """Return whether a second belongs to this minute; True for an empty one."""
        return self.start_s is None or start_s // MINUTE_S * MINUTE_S == self.start_s

    def add(self, second: Bucket) -> None:
        """Add a second; `holds` must be True for it."""
        self.start_s = second.start_s // MINUTE_S * MINUTE_S
        self._ports[second.ports[:, 0]] += second.ports[:, 1:]
        rows, priorities = second.queues[:, 0], second.queues[:, 1]
        self._queues[rows, priorities] += second.queues[:, 2:-1]
        self._depth[rows, priorities] = np.maximum(self._depth[rows, priorities], second.queues[:, -1])

    def take(self) -> Bucket | None:
        """Return the accumulated minute and clear it."""
        if self.start_s is None:
            return None
        rows = np.flatnonzero(self._ports.any(axis=1))
        queues = np.nonzero(self._queues.any(axis=2) | (self._depth > 0))
        bucket = Bucket(
            self.start_s,
            np.column_stack((rows, self._ports[rows])),
            np.column_stack((*queues, self._queues[queues], self._depth[queues])),
        )
        self.start_s = None
        for array in (self._ports, self._queues, self._depth):
            array[...] = 0
        return bucket
