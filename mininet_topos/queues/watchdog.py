"""The PFC watchdog of switch ports: detects a queue that a neighbour pauses without end, and when that has ended.

                 paused for the whole detection time, nothing sent
    OPERATIONAL ──────────────────────────────────────────────────► STORMED
        ▲                                                             │ discard the queue, ignore its pauses
        └─────────────────────────────────────────────────────────────┘
                 no pause in force for the restoration time

It follows SONiC's (action drop; sonic-swss, orchagent/pfcwdorch.cpp and pfc_detect_*.lua). Pure functions of time.
Arrays are indexed by place; the caller maps a place to port and priority. Times are integers in nanoseconds.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from heddle.mininet_topos.queues.pause import Longs

Flags = npt.NDArray[np.bool_]


class Verdicts(NamedTuple):
    """The places whose queue is to be discarded from now on, and those that are restored."""

    trip: list[int]
    restore: list[int]


class Watchdog:
    """One state machine per place; `stormed` marks those that have tripped, and `trips`, `restores` count.

    `longest_stuck_ns` is the longest time for which a place was paused and sent nothing, trips included.
    """

    def __init__(self, detection_ns: Longs, restoration_ns: int) -> None:
        """Set each place's detection time, and the restoration time of all."""
        places = len(detection_ns)
        self._detection_ns, self._restoration_ns = detection_ns, restoration_ns
        self.stormed: Flags = np.zeros(places, np.bool_)
        self.trips: Longs = np.zeros(places, np.int64)
        self.restores: Longs = np.zeros(places, np.int64)
        self.longest_stuck_ns: Longs = np.zeros(places, np.int64)
        self._sent: Longs = np.zeros(places, np.int64)
        self._still_ns: Longs = np.zeros(places, np.int64)
        self._paused_ns: Longs = np.zeros(places, np.int64)

    def step(self, paused_since_ns: Longs, sent_packets: Longs, now_ns: int) -> Verdicts:
        """Return what changes now; `paused_since_ns` is -1 for a place that is not paused."""
        paused = paused_since_ns >= 0
        self._still_ns[sent_packets != self._sent] = now_ns
        self._sent = sent_packets.copy()
        self._paused_ns[paused] = now_ns
        stuck_ns = np.where(paused & ~self.stormed, now_ns - np.maximum(paused_since_ns, self._still_ns), 0)
        self.longest_stuck_ns = np.maximum(self.longest_stuck_ns, stuck_ns)
        trip = paused & ~self.stormed & (stuck_ns >= self._detection_ns)
        restore = self.stormed & ~paused & (now_ns - self._paused_ns >= self._restoration_ns)
        self.stormed = (self.stormed | trip) & ~restore
        self.trips += trip
        self.restores += restore
        return Verdicts(np.flatnonzero(trip).tolist(), np.flatnonzero(restore).tolist())
