"""Token buckets by key: limit the rate of slow-path work per VPC.

A full bucket carries no state and may be replaced by another key's; a bucket that is not full is never evicted, so that
many keys do not let a sender exceed its rate.
"""


class Buckets:
    """Token buckets of size `burst`, refilled at `per_second`, for at most `max_keys` keys."""

    def __init__(self, *, per_second: float, burst: int, max_keys: int = 1 << 16) -> None:
        if per_second <= 0 or burst < 1 or max_keys < 1:
            raise ValueError("per_second must be above 0, burst and max_keys at least 1")
        self._per_ns = per_second / 1e9
        self._burst = float(burst)
        self._max_keys = max_keys
        self._left: dict[int, tuple[float, int]] = {}
        """Tokens and the time at which they were counted, least recently used key first."""

    def take(self, key: int, now_ns: int) -> bool:
        """Take one token; return False if none is left, or no room for the key. A clock that goes back adds none."""
        known = self._left.pop(key, None)
        if known is None:
            if len(self._left) >= self._max_keys and not self._make_room(now_ns):
                return False
            known = (self._burst, now_ns)
        tokens, since_ns = self._filled(known, now_ns), max(known[1], now_ns)
        taken = tokens >= 1
        self._left[key] = (tokens - 1 if taken else tokens, since_ns)
        return taken

    def __len__(self) -> int:
        return len(self._left)

    def _filled(self, known: tuple[float, int], now_ns: int) -> float:
        return min(self._burst, known[0] + max(0, now_ns - known[1]) * self._per_ns)

    def _make_room(self, now_ns: int) -> bool:
        oldest = next(iter(self._left))
        if self._filled(self._left[oldest], now_ns) < self._burst:
            return False
        del self._left[oldest]
        return True
