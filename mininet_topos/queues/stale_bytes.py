"""Find stale bytes: bytes that the counters show as queued although their frames were lost, as when a link goes down.

Depth = enqueued - dequeued is exact while every frame that enters a queue also leaves it. A pulled cable breaks this,
and so would any loss in the kernel. Uncorrected, the queue would seem occupied for ever, and the ingress ports of the
lost frames would pause their neighbours for ever. The queue of a port that is down is empty (`switches`). The rest is
found once per window:

- a queue is empty if it held bytes and neither accepted nor released any for the whole window without being paused: its
  whole depth is written off (a negative depth is written back);
- in one switch and priority, the ingress occupancies of all ports sum to the egress depths of all ports. The minimum
  excess of the former over all samples of a window is stale; it is written off from ingress ports that held at least
  that much at every sample.

Pure functions over arrays.
"""

import numpy as np
import numpy.typing as npt

from heddle.mininet_topos.queues.pause import Longs


class StaleBytes:
    """Samples all queues, and returns at the end of a window the bytes to write off. Arrays are [ports, priorities]."""

    def __init__(self, switch_of_port: npt.NDArray[np.int64]) -> None:
        """Set the switch of every port, numbered from 0."""
        self._switch, self._switches = switch_of_port, int(switch_of_port.max()) + 1
        self._moved: Longs | None = None
        self._min_ingress: Longs | None = None
        self._min_excess: Longs | None = None

    def sample(self, depth: Longs, ingress: Longs) -> None:
        """Record one sample of egress depths and ingress occupancies."""
        excess = self._sums(ingress) - self._sums(depth)
        self._min_ingress = ingress.copy() if self._min_ingress is None else np.minimum(self._min_ingress, ingress)
        self._min_excess = excess if self._min_excess is None else np.minimum(self._min_excess, excess)

    def end_window(self, depth: Longs, moved: Longs, paused: npt.NDArray[np.bool_]) -> tuple[Longs, Longs]:
        """End the window; return the bytes to write off from egress depths, and from ingress occupancies.

        `moved` counts every byte that enters or leaves a queue.
        """
        still = np.zeros(depth.shape, np.bool_) if self._moved is None else moved == self._moved
        self._moved = moved.copy()
        lost = np.where(still & ~paused, depth, 0)
        arrived = self._stale_ingress()
        self._min_ingress = self._min_excess = None
        return lost, arrived

    def _stale_ingress(self) -> Longs:
        if self._min_ingress is None or self._min_excess is None:
            raise ValueError("a window needs at least one sample")
        stale = np.zeros_like(self._min_ingress)
        for switch, priority in zip(*np.nonzero(self._min_excess > 0), strict=True):
            rest = int(self._min_excess[switch, priority])
            for port in np.nonzero(self._switch == switch)[0]:
                part = min(rest, int(self._min_ingress[port, priority]))
                if part > 0:
                    stale[port, priority], rest = part, rest - part
        return stale

    def _sums(self, values: Longs) -> Longs:
        total = np.zeros((self._switches, values.shape[1]), np.int64)
        np.add.at(total, self._switch, values)
        return total
