"""Detect a data process that hangs or is stuck, from a counter that it increments in every turn of its loop. Pure.

The process hangs if the counter did not change over HUNG_SAMPLES consecutive samples taken in time. A late sample does
not count: its taker was not scheduled either, so a machine that is suspended or overloaded causes no alarm. The process
is stuck if the counter did not change over STUCK_SAMPLES samples, late ones included.
"""

from typing import Final

HUNG_SAMPLES: Final = 7
"""With 50 ms a sample, the partner has taken over before TCP's second retransmission, after 600 ms."""
STUCK_SAMPLES: Final = 80
LATE: Final = 2
"""A sample is late if it comes after more than this many intervals."""


class Liveness:
    """Samples of one data process, from its start to its end."""

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._sampled_s = now_s
        self._count = -1
        self._still = self._in_time = 0

    def sample(self, count: int, now_s: float) -> None:
        """Record the counter's value at a time."""
        late = now_s - self._sampled_s > LATE * self._interval_s
        self._sampled_s = now_s
        moved, self._count = count != self._count, count
        self._still = 0 if moved else self._still + 1
        self._in_time = 0 if moved or late else self._in_time + 1

    @property
    def hangs(self) -> bool:
        """Whether the partner should take over; the process may resume by itself."""
        return self._in_time >= HUNG_SAMPLES

    @property
    def is_stuck(self) -> bool:
        """Whether the process should be killed."""
        return self._still >= STUCK_SAMPLES
