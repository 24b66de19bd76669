"""When the collector looks: soon after something came, seldom enough to stay cheap, and once a period in any case.

What came waits for what comes with it (`settle_ns` after the newest message), but not for long (`spread_ns` after the
first), so that a round of an agent is one look and agents that are spread over the period are four. A look costs what
is new, so many small ones cost little more than a large one. Time is an argument.
"""

SETTLE_SHARE, MAX_SETTLE_NS = 0.05, 10_000_000
SPREAD_SHARE, MAX_SPREAD_NS = 0.25, 250_000_000


class Cadence:
    """One collector's; all times are of one clock that never goes back."""

    def __init__(self, period_ns: int, now_ns: int) -> None:
        self.period_ns = period_ns
        self.settle_ns = min(round(period_ns * SETTLE_SHARE), MAX_SETTLE_NS)
        self.spread_ns = min(round(period_ns * SPREAD_SHARE), MAX_SPREAD_NS)
        self._looked_ns = now_ns
        self._first_ns: int | None = None
        self._newest_ns = now_ns

    def came(self, now_ns: int) -> None:
        """Take note of a message."""
        self._newest_ns = now_ns
        if self._first_ns is None:
            self._first_ns = now_ns

    def looked(self, now_ns: int) -> None:
        """Take note of a look that begins: what came until now is in it."""
        self._looked_ns, self._first_ns = now_ns, None

    def due_ns(self) -> int:
        """Return when to look, as far as is known now: a message may bring it forward, or put it off a little."""
        latest = self._looked_ns + self.period_ns
        if self._first_ns is None:
            return latest
        settled = min(self._newest_ns + self.settle_ns, self._first_ns + self.spread_ns)
        return min(latest, max(settled, self._looked_ns + self.spread_ns))
