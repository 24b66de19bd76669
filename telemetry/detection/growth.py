"""Accumulate the growth of every port's counters, per scan and over the last periods; memory is allocated once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.samples.counters import COLUMNS

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Growth:
    """A row per port: growth of each counter (ports, COLUMNS), and the source's time it took in ns (ports,)."""

    delta: Words
    interval_ns: Ints

    @classmethod
    def of(cls, ports: int) -> "Growth":
        """Return zero growth."""
        return cls(np.zeros((ports, COLUMNS), dtype=np.uint64), np.zeros(ports, dtype=np.int64))

    def add(self, other: "Growth", rows: Ints) -> None:
        """Add the given rows of another instance."""
        self.delta[rows] += other.delta[rows]
        self.interval_ns[rows] += other.interval_ns[rows]

    def clear(self, rows: Ints) -> None:
        """Set the given rows to zero."""
        self.delta[rows] = 0
        self.interval_ns[rows] = 0


class Recent:
    """The growth of each of the last periods, and their sum; the oldest period leaves the sum when a new one starts."""

    def __init__(self, ports: int, periods: int, period_ns: int) -> None:
        self.sum = Growth.of(ports)
        self._periods = [Growth.of(ports) for _ in range(periods)]
        self._rows = np.zeros((periods, ports), dtype=np.bool_)
        self._slot = 0
        self._period_ns = period_ns
        self._began_ns: int | None = None

    def add(self, growth: Growth, rows: Ints, now_ns: int) -> bool:
        """Add rows to the current period; return whether this ends it."""
        self._periods[self._slot].add(growth, rows)
        self._rows[self._slot, rows] = True
        self.sum.add(growth, rows)
        if not self._is_over(now_ns):
            return False
        self._slot = (self._slot + 1) % len(self._periods)
        oldest, expired = self._periods[self._slot], np.flatnonzero(self._rows[self._slot])
        self.sum.delta[expired] -= oldest.delta[expired]
        self.sum.interval_ns[expired] -= oldest.interval_ns[expired]
        oldest.clear(expired)
        self._rows[self._slot] = False
        return True

    def _is_over(self, now_ns: int) -> bool:
        """Return whether the period is over; three quarters of it suffice, since a scan may precede its end a little.

        Periods follow a grid, which restarts if a scan is late or the clock was set back.
        """
        since_ns = self._period_ns if self._began_ns is None else now_ns - self._began_ns
        if -self._period_ns <= since_ns < self._period_ns * 3 // 4:
            return False
        on_grid = self._began_ns is not None and 0 < since_ns < self._period_ns * 7 // 4
        self._began_ns = self._began_ns + self._period_ns if self._began_ns is not None and on_grid else now_ns
        return True
