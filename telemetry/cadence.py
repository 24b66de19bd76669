"""Schedule the collector's scans: soon after messages arrive, at a minimum distance, and at least once per period.

A scan is due `settle_ns` after the newest message, but at most `spread_ns` after the first unscanned one. All messages
of one agent's round then fall into one scan, and agents spread over the period cause four scans. The cost of a scan
grows with the new samples only, so several small scans cost little more than a large one. Time is an argument.
"""

SETTLE_FRACTION, MAX_SETTLE_NS = 0.05, 10_000_000
SPREAD_FRACTION, MAX_SPREAD_NS = 0.25, 250_000_000


class Cadence:
    """The scan times of one collector; all times are of one monotonic clock."""

    def __init__(self, period_ns: int, now_ns: int) -> None:
        self.period_ns = period_ns
        self.settle_ns = min(round(period_ns * SETTLE_FRACTION), MAX_SETTLE_NS)
        self.spread_ns = min(round(period_ns * SPREAD_FRACTION), MAX_SPREAD_NS)
        self._scanned_ns = now_ns
        self._first_ns: int | None = None
        self._newest_ns = now_ns

    def received(self, now_ns: int) -> None:
        """Record the arrival of a message."""
        self._newest_ns = now_ns
        if self._first_ns is None:
            self._first_ns = now_ns

    def scanned(self, now_ns: int) -> None:
        """Record the start of a scan; it covers all messages received until now."""
        self._scanned_ns, self._first_ns = now_ns, None

    def due_ns(self) -> int:
        """Return the time of the next scan; a later message may advance it, or postpone it by up to `settle_ns`."""
        latest = self._scanned_ns + self.period_ns
        if self._first_ns is None:
            return latest
        settled = min(self._newest_ns + self.settle_ns, self._first_ns + self.spread_ns)
        return min(latest, max(settled, self._scanned_ns + self.spread_ns))
