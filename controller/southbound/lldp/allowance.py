"""Limit a rate by a token bucket; time is an argument."""


class Allowance:
    """So many events a second on average, and at most `burst` at once."""

    __slots__ = ("_burst", "_per_s", "_tokens", "_updated_s")

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s, self._burst = per_s, burst
        self._tokens, self._updated_s = burst, now_s

    def take(self, now_s: float) -> bool:
        """Take one event of the allowance; False, and nothing taken, where none is left."""
        grown = self._tokens + max(0.0, now_s - self._updated_s) * self._per_s
        self._tokens, self._updated_s = min(self._burst, grown), now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
