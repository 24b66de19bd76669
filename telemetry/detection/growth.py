"""What every port's counters grew by: since the last look, and over the last periods. Memory is allocated once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.samples.counters import COLUMNS

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Growth:
    """A row per port: what each counter grew by (ports, COLUMNS), and in how much of the source's time (ports,)."""

    delta: Words
    interval_ns: Ints

    @classmethod
    def of(cls, ports: int) -> "Growth":
        """Return no growth."""
        return cls(np.zeros((ports, COLUMNS), dtype=np.uint64), np.zeros(ports, dtype=np.int64))

    def add(self, other: "Growth", rows: Ints) -> None:
        """Add some rows of another."""
        self.delta[rows] += other.delta[rows]
        self.interval_ns[rows] += other.interval_ns[rows]

    def clear(self, rows: Ints) -> None:
        """Forget some rows."""
        self.delta[rows] = 0
        self.interval_ns[rows] = 0


class Recent:
    """The last periods, each apart, and their sum: what is added leaves the sum when its period is the oldest."""

    def __init__(self, ports: int, periods: int, period_ns: int) -> None:
        self.sum = Growth.of(ports)
        self._periods = [Growth.of(ports) for _ in range(periods)]
        self._rows = np.zeros((periods, ports), dtype=np.bool_)
        self._slot = 0
        self._period_ns = period_ns
        self._began_ns: int | None = None

    def add(self, growth: Growth, rows: Ints, now_ns: int) -> bool:
        """Add rows to the period under way; say whether it is over."""
        self._periods[self._slot].add(growth, rows)
        self._rows[self._slot, rows] = True
        self.sum.add(growth, rows)
        if not self._is_over(now_ns):
            return False
        self._slot = (self._slot + 1) % len(self._periods)
        oldest, gone = self._periods[self._slot], np.flatnonzero(self._rows[self._slot])
        self.sum.delta[gone] -= oldest.delta[gone]
        self.sum.interval_ns[gone] -= oldest.interval_ns[gone]
        oldest.clear(gone)
        self._rows[self._slot] = False
        return True

    def _is_over(self, now_ns: int) -> bool:
        """Say whether the period is over, as it is after three quarters of it: looks may be a little early for its end.

        Periods follow each other on a grid, which begins anew where a look is late or the clock was put back.
        """
        since_ns = self._period_ns if self._began_ns is None else now_ns - self._began_ns
        if -self._period_ns <= since_ns < self._period_ns * 3 // 4:
            return False
        on_grid = self._began_ns is not None and 0 < since_ns < self._period_ns * 7 // 4
        self._began_ns = self._began_ns + self._period_ns if self._began_ns is not None and on_grid else now_ns
        return True
