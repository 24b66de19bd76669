"""Turn snapshots into rows of one second: the growth of every port and queue. Pure; the writer's thread owns it.

Counters of a snapshot are totals that never decrease, so the next snapshot makes up for a lost one. Growth counts for
the second of the snapshot that shows it. A queue or port that neither grew nor held packets has no row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.detection.window import SECOND_NS, Snapshot
from heddle.telemetry.samples.counters import NIC_AT, PORT_COUNTERS, PRIORITIES, QUEUE_COUNTERS, QUEUES_AT

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

# SQLite's integers are signed; no counter grows by more in a second.
MAX_GROWTH = np.uint64(2**62)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The growth of ports and queues in a second or a minute; rows without growth are left out.

    ports (n, 1 + counters): row of the port table, then the growth of each of PORT_COUNTERS; queues (n, 3 + counters):
    row, priority, growth of each of QUEUE_COUNTERS, largest depth.
    """

    start_s: int
    ports: Ints
    queues: Ints

    def __bool__(self) -> bool:
        return bool(len(self.ports) or len(self.queues))


class Seconds:
    """An accumulator of snapshots; a second is complete when a snapshot of the next one arrives."""

    def __init__(self) -> None:
        self._last: Words | None = None
        self._start_s = 0
        self._grown: Words | None = None
        self._depth: Words | None = None

    def add(self, snapshot: Snapshot) -> Bucket | None:
        """Add a snapshot; return the previous second where this snapshot begins another, else None."""
        counters = snapshot.total[:, :NIC_AT]
        if self._last is None or self._grown is None or self._depth is None or self._last.shape != counters.shape:
            closed = None if self._last is None else self.close()
            self._begin(snapshot, np.zeros_like(counters))
        else:
            closed = None
            grown = np.minimum(counters - np.minimum(self._last, counters), MAX_GROWTH)
            if snapshot.now_ns // SECOND_NS != self._start_s:
                closed = self.close()
                self._begin(snapshot, grown)
            else:
                self._grown += grown
                np.maximum(self._depth, _depth(snapshot), out=self._depth)
        self._last = counters.copy()
        return closed

    def close(self) -> Bucket:
        """Return the current second and clear it."""
        if self._grown is None or self._depth is None:
            return _NOTHING
        second = Bucket(self._start_s, _port_rows(self._grown), _queue_rows(self._grown, self._depth))
        self._grown = np.zeros_like(self._grown)
        self._depth = np.zeros_like(self._depth)
        return second

    def _begin(self, snapshot: Snapshot, grown: Words) -> None:
        self._start_s, self._grown, self._depth = snapshot.now_ns // SECOND_NS, grown, _depth(snapshot)


def _depth(snapshot: Snapshot) -> Words:
    """Return each queue's depth, 0 for ports without a fresh sample."""
    return np.where(snapshot.stale[:, None], np.uint64(0), snapshot.depth_bytes)


def _port_rows(grown: Words) -> Ints:
    ports = grown[:, :QUEUES_AT]
    active = np.flatnonzero(ports.any(axis=1))
    return np.column_stack((active, ports[active].astype(np.int64)))


def _queue_rows(grown: Words, depth: Words) -> Ints:
    queues = grown[:, QUEUES_AT:].reshape(-1, PRIORITIES, len(QUEUE_COUNTERS))
    rows, priorities = np.nonzero(queues.any(axis=2) | (depth > 0))
    values = queues[rows, priorities].astype(np.int64)
    held = np.minimum(depth[rows, priorities], MAX_GROWTH).astype(np.int64)
    return np.column_stack((rows, priorities, values, held))


_NOTHING = Bucket(
    0, np.zeros((0, 1 + len(PORT_COUNTERS)), dtype=np.int64), np.zeros((0, 3 + len(QUEUE_COUNTERS)), dtype=np.int64)
)
