"""Finds bytes that the counters say are queued and that are not: frames that a dying link took with it. Pure.

Enqueued less dequeued is exact as long as every frame that entered a queue leaves it. A cable that is pulled breaks
that, and so would any loss inside of the kernel. Without correction the queue would look occupied for ever, and
the ports that those frames came in by would pause their neighbours for ever. So a few times a second:

- a queue whose port is down, or that holds bytes and has neither taken nor given any for a whole window without being
  paused, is empty: all of its depth is written off (or back, where too much was);
- in one switch and priority, the bytes inside by ingress port sum up to the bytes inside by egress queue. What the
  former exceeds the latter by at *every* look of a window is residue; it is taken from ingress ports that were never
  below it.
"""

import numpy as np
import numpy.typing as npt

from mininet_topos.queues.pause import Longs


class StaleBytes:
    """Looks at all queues, and says at the end of a window what to write off. Arrays are [ports, priorities]."""

    def __init__(self, switch_of_port: npt.NDArray[np.int64]) -> None:
        """Take the switch of every port, numbered from 0."""
        self._switch, self._switches = switch_of_port, int(switch_of_port.max()) + 1
        self._moved: Longs | None = None
        self._least_inside: Longs | None = None
        self._least_excess: Longs | None = None

    def look(self, depth: Longs, inside: Longs) -> None:
        """Take one look at egress depths and at what is inside by ingress port."""
        excess = self._sums(inside) - self._sums(depth)
        self._least_inside = inside.copy() if self._least_inside is None else np.minimum(self._least_inside, inside)
        self._least_excess = excess if self._least_excess is None else np.minimum(self._least_excess, excess)

    def settle(
        self, depth: Longs, moved: Longs, paused: npt.NDArray[np.bool_], down: npt.NDArray[np.bool_]
    ) -> tuple[Longs, Longs]:
        """End the window: return what to write off of egress depths, and of what is inside by ingress port.

        `moved` grows with every byte that enters or leaves a queue.
        """
        still = np.zeros(depth.shape, np.bool_) if self._moved is None else moved == self._moved
        self._moved = moved.copy()
        lost = np.where(down[:, None] | (still & ~paused), depth, 0)
        arrived = self._arrived_residue()
        self._least_inside = self._least_excess = None
        return lost, arrived

    def _arrived_residue(self) -> Longs:
        if self._least_inside is None or self._least_excess is None:
            raise ValueError("a window takes at least one look")
        residue = np.zeros_like(self._least_inside)
        for switch, priority in zip(*np.nonzero(self._least_excess > 0), strict=True):
            rest = int(self._least_excess[switch, priority])
            for port in np.nonzero(self._switch == switch)[0]:
                part = min(rest, int(self._least_inside[port, priority]))
                if part > 0:
                    residue[port, priority], rest = part, rest - part
        return residue

    def _sums(self, values: Longs) -> Longs:
        total = np.zeros((self._switches, values.shape[1]), np.int64)
        np.add.at(total, self._switch, values)
        return total
