"""Read the machine's clocks."""

import time


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        self._start_ns = time.time_ns() - time.monotonic_ns()

    def unix_ms(self) -> int:
        """Return Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def steady_unix_ms(self) -> int:
        """Return Unix time in milliseconds at the start plus the time since: setting the clock does not change it."""
        return (self._start_ns + time.monotonic_ns()) // 1_000_000

    def monotonic_ns(self) -> int:
        """Return a time that only grows, in nanoseconds."""
        return time.monotonic_ns()
