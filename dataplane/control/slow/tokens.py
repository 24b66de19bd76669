"""Token buckets by key: how often one VPC may have the slow path work for it.

A bucket that has filled up again is as good as none and gives way to another key; one that has not is never forgotten,
so that no number of keys lets anyone have more than its share.
"""


class Buckets:
    """As many tokens as `burst` at once and `per_second` in the long run, for each of at most `most` keys."""

    def __init__(self, *, per_second: float, burst: int, most: int = 1 << 16) -> None:
        if per_second <= 0 or burst < 1 or most < 1:
            raise ValueError("a bucket holds a token at least and gets some")
        self._per_ns = per_second / 1e9
        self._burst = float(burst)
        self._most = most
        self._left: dict[int, tuple[float, int]] = {}
        """Tokens and when they were counted; the key that was used last is the last."""

    def take(self, key: int, now_ns: int) -> bool:
        """Take one token; False where there is none left, or no room for the key. Time that goes back adds nothing."""
        known = self._left.pop(key, None)
        if known is None:
            if len(self._left) >= self._most and not self._make_room(now_ns):
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
