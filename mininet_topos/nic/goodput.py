"""The goodput of a queue pair over time: delivered payload bytes per period. Pure; time is an argument."""

from collections import Counter

PERIOD_NS = 50_000_000
"""30 full frames at 20 Mbit/s: one frame more or less is 3 %."""


class GoodputSeries:
    """Counts bytes by the period in which they arrive; period 0 begins at `start_ns`."""

    def __init__(self) -> None:
        """Create an empty series."""
        self.start_ns = 0
        self._bytes: Counter[int] = Counter()

    def add(self, size_bytes: int, now_ns: int) -> None:
        """Count bytes that arrive now."""
        self._bytes[max(0, now_ns - self.start_ns) // PERIOD_NS] += size_bytes

    def by_period(self) -> list[int]:
        """Return the bytes of each period from the start to the last one with any."""
        return [self._bytes[period] for period in range(max(self._bytes, default=-1) + 1)]
