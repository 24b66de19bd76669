"""Compute the delays between attempts to connect or to start, and the pauses between decisions: exponential backoff.

Pure: time and randomness are arguments.
"""

from dataclasses import dataclass

_MAX_DOUBLINGS = 64
_MAX_PAUSE_DOUBLINGS = 6


def doubled_ms(first_ms: int, earlier: int) -> int:
    """Return the pause that follows `earlier` pauses: `first_ms`, doubled by each of them up to 64 times its length."""
    return first_ms << min(max(earlier, 0), _MAX_PAUSE_DOUBLINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Limits of the delays, in seconds.

    The delay doubles from `first_s` up to `max_s`. A connection or process that lasted for `steady_s` was sound: the
    next delay is `first_s` again. One that ends sooner (for example two clients with one id) goes on slowing down.
    """

    first_s: float = 0.1
    max_s: float = 2.0
    steady_s: float = 5.0

    def delay_s(self, attempt: int, jitter: float) -> float:
        """Return the delay before attempt 1, 2, …; `jitter` in [0, 1] selects from the upper half, 1 its maximum.

        Clients with random jitter do not reconnect at the same moment.
        """
        doublings = min(max(attempt, 1) - 1, _MAX_DOUBLINGS)
        return min(self.max_s, self.first_s * 2.0**doublings) * (0.5 + 0.5 * jitter)

    def next_attempt(self, attempt: int, held_s: float) -> int:
        """Return the number of the attempt after one that lasted for `held_s` (0: it failed)."""
        return 1 if held_s >= self.steady_s else attempt + 1
