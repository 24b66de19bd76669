"""Account for the frames that the PFC watchdog discards: those that waited when it tripped, and later arrivals.

A frame that arrives is dropped by the egress program, which counts it. A frame that waited vanishes from the kernel's
queue uncounted. Its bytes must leave the depth of its queue and the occupancy of the ingress port that it came by, else
that port would pause its neighbour for ever. The programs count how many bytes went from each ingress port to each
queue (`crossings`), so both are exact. Frames that were lost otherwise, as when a cable is pulled, are written off in
the same way and do not count as discarded.

`queues` is the kernel's table of counters, [ports, priorities].
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from heddle.mininet_topos.queues.pause import Longs

Held = Mapping[int, int]
"""The bytes of one queue that have not left it, by the ingress port that counts them."""


class Discards:
    """`packets` are the discarded packets of each queue that the kernel's table does not count as dropped."""

    def __init__(self, queues: Any) -> None:
        """Use the kernel's table; nothing is discarded at first."""
        self._queues = queues
        self.packets: Longs = np.zeros(queues.shape, np.int64)
        self._lost_packets: Longs = np.zeros(queues.shape, np.int64)
        self._written_off: dict[tuple[int, int], dict[int, int]] = {}
        self._dropped_before: dict[tuple[int, int], int] = {}
        self._dropped: Longs = np.zeros(queues.shape, np.int64)

    def begin(self, slot: int, priority: int) -> None:
        """Record the start of a storm: from now on every dropped packet of the queue is discarded."""
        self._dropped_before[slot, priority] = int(self._queues["dropped_packets"][slot, priority])

    def settle(self, slot: int, priority: int, held: Held) -> None:
        """Account for an emptied queue; call it when no frame of the queue is on the link any more."""
        self.packets[slot, priority] += self._newly_lost(slot, priority)
        queue = self._queues[slot, priority]
        self._write_off(
            slot, priority, held, queue["enqueued_bytes"] - queue["dequeued_bytes"] - queue["written_off_bytes"]
        )

    def end(self, slot: int, priority: int) -> None:
        """Record the end of a storm."""
        self._dropped[slot, priority] += self._since_begin(slot, priority)
        del self._dropped_before[slot, priority]

    def forget(self, slot: int, priority: int, held: Held, lost_bytes: int) -> None:
        """Write off frames that were lost otherwise: `lost_bytes` of the queue, and what each ingress port counts."""
        self._newly_lost(slot, priority)
        self._write_off(slot, priority, held, lost_bytes)

    def _write_off(self, slot: int, priority: int, held: Held, lost_bytes: int) -> None:
        self._queues["written_off_bytes"][slot, priority] += lost_bytes
        before = self._written_off.get((slot, priority), {})
        for arrival, count in held.items():
            self._queues["arrived_written_off_bytes"][arrival, priority] += count - before.get(arrival, 0)
        self._written_off[slot, priority] = {**before, **held}

    def watchdog_packets(self) -> Longs:
        """Return the packets that the watchdog has discarded, waiting and arriving, of each queue."""
        found = self.packets + self._dropped
        for slot, priority in self._dropped_before:
            found[slot, priority] += self._since_begin(slot, priority)
        return found

    def _since_begin(self, slot: int, priority: int) -> int:
        return int(self._queues["dropped_packets"][slot, priority]) - self._dropped_before[slot, priority]

    def _newly_lost(self, slot: int, priority: int) -> int:
        """Return the packets that vanished from an empty queue since the last call for it."""
        queue = self._queues[slot, priority]
        lost = int(queue["enqueued_packets"] - queue["sent_packets"])
        newly = lost - int(self._lost_packets[slot, priority])
        self._lost_packets[slot, priority] = lost
        return newly
