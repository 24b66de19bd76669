"""A clock that stands still until a test moves it."""


class FakeClock:
    """The clock of a controller's loop in a test; times begin at `unix_ms` and 0 ns, and grow by `advance`."""

    def __init__(self, unix_ms: int = 1_700_000_000_000) -> None:
        self._start_ms, self._passed_ns = unix_ms, 0

    def advance(self, seconds: float) -> None:
        """Let time pass; raises ValueError for a negative time."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds:g} s")
        self._passed_ns += round(seconds * 1_000_000_000)

    def unix_ms(self) -> int:
        """Return Unix time in milliseconds."""
        return self._start_ms + self._passed_ns // 1_000_000

    def steady_unix_ms(self) -> int:
        """Return Unix time in milliseconds that only grows: here the same."""
        return self.unix_ms()

    def monotonic_ns(self) -> int:
        """Return the nanoseconds that have passed."""
        return self._passed_ns
