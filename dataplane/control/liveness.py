"""Whether a data process is at work, by a count that it raises whenever its loop returns. Pure.

It hangs where the count stood still for so many looks in a row that came in time: whoever looks late did not get to
run itself, and knows nothing of others. A machine that stops as a whole, or has no time for anybody, so looks well.
It is stuck where the count stood still for very many looks, late ones as well.
"""

from typing import Final

HUNG_LOOKS: Final = 7
"""Of 50 ms: with what the partner takes for it, a takeover is done before TCP's second retransmission, after 600 ms."""
STUCK_LOOKS: Final = 80
LATE: Final = 2
"""A look that comes after so many times its interval is late."""


class Liveness:
    """One life of a data process, as seen at every interval."""

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._looked_s = now_s
        self._count = -1
        self._still = self._in_time = 0

    def look(self, count: int, now_s: float) -> None:
        """Take a look at the count."""
        late = now_s - self._looked_s > LATE * self._interval_s
        self._looked_s = now_s
        moved, self._count = count != self._count, count
        self._still = 0 if moved else self._still + 1
        self._in_time = 0 if moved or late else self._in_time + 1

    @property
    def hangs(self) -> bool:
        """Whether another should do its work for now; it may go on by itself."""
        return self._in_time >= HUNG_LOOKS

    @property
    def is_stuck(self) -> bool:
        """Whether it should be ended."""
        return self._still >= STUCK_LOOKS
