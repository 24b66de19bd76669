"""The minute under way, in arrays: what each port and queue grew by since the file was last rolled up.

To add a second to its minute and hour in the file costs as much each as the second itself; to add it up here and to
write once a minute costs next to nothing. Pure; the writer's thread owns it.
"""

import numpy as np
from numpy.typing import NDArray

from controller.store.seconds import Bucket
from telemetry.samples.counters import PORT_COUNTERS, PRIORITIES, QUEUE_COUNTERS

Ints = NDArray[np.int64]
MINUTE_S = 60


class Minute:
    """One minute of up to `ports` ports; `start_s` is None while nothing was added."""

    def __init__(self, ports: int) -> None:
        self.start_s: int | None = None
        self._ports = np.zeros((ports, len(PORT_COUNTERS)), dtype=np.int64)
        self._queues = np.zeros((ports, PRIORITIES, len(QUEUE_COUNTERS)), dtype=np.int64)
        self._depth = np.zeros((ports, PRIORITIES), dtype=np.int64)

    def holds(self, start_s: int) -> bool:
        """Say whether a second belongs to what is under way, or may begin it."""
        return self.start_s is None or start_s // MINUTE_S * MINUTE_S == self.start_s

    def add(self, second: Bucket) -> None:
        """Add a second that it `holds`."""
        self.start_s = second.start_s // MINUTE_S * MINUTE_S
        self._ports[second.ports[:, 0]] += second.ports[:, 1:]
        rows, priorities = second.queues[:, 0], second.queues[:, 1]
        self._queues[rows, priorities] += second.queues[:, 2:-1]
        self._depth[rows, priorities] = np.maximum(self._depth[rows, priorities], second.queues[:, -1])

    def take(self) -> Bucket | None:
        """Return what was added, and begin at nothing."""
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
