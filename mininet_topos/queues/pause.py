"""When to pause a neighbour, and how long a neighbour has paused us: pure; the moment is always an argument.

Queues are numbered by their place in the arrays; what a place means (port and priority) is the caller's. Moments and
durations are integers in nanoseconds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What is to be sent now: places to pause, to pause further, and to let go on."""

    pause: list[int]
    refresh: list[int]
    resume: list[int]


class Backpressure:
    """Decides by the bytes inside of the switch that came in by each port, with a distance between on and off."""

    def __init__(self, xoff_bytes: Longs, xon_bytes: Longs, refresh_ns: Longs) -> None:
        """Take each place's thresholds, and after how long a pause that is still needed is sent again."""
        self._xoff, self._xon, self._refresh = xoff_bytes, xon_bytes, refresh_ns
        self.pausing: npt.NDArray[np.bool_] = np.zeros(len(xoff_bytes), np.bool_)
        self._sent_ns: Longs = np.zeros(len(xoff_bytes), np.int64)

    def signals(self, ingress_bytes: Longs, now_ns: int) -> Signals:
        """Return what to send for these occupancies, and take it as sent."""
        begin = (ingress_bytes > self._xoff) & ~self.pausing
        if not begin.any() and not self.pausing.any():
            return NO_SIGNALS
        end = self.pausing & (ingress_bytes < self._xon)
        again = self.pausing & ~end & (now_ns - self._sent_ns >= self._refresh)
        self.pausing = (self.pausing | begin) & ~end
        self._sent_ns[begin | again] = now_ns
        return Signals(pause=_places(begin), refresh=_places(again), resume=_places(end))


class ReceivedPauses:
    """Keeps until when each place is paused, and adds up for how long it has been."""

    def __init__(self, places: int) -> None:
        """Begin with nothing paused."""
        self._until_ns: Longs = np.zeros(places, np.int64)
        self._since_ns: Longs = np.zeros(places, np.int64)
        self._ended_ns: Longs = np.zeros(places, np.int64)

    @property
    def any_paused(self) -> bool:
        """Say whether any place is paused."""
        return bool(self._until_ns.any())

    @property
    def paused(self) -> Any:
        """Return for each place whether it is paused."""
        return self._until_ns > 0

    def take(self, place: int, duration_ns: int, now_ns: int) -> bool | None:
        """Take a frame's word for a place: True where its gate is to close now, False where to open, None for neither.

        A later frame replaces what an earlier one said (IEEE 802.1Q, 36.1.2), in either direction.
        """
        was_paused = self._until_ns[place] > 0
        if duration_ns == 0:
            return self._end(place, now_ns) if was_paused else None
        self._until_ns[place] = now_ns + duration_ns
        if was_paused:
            return None
        self._since_ns[place] = now_ns
        return True

    def expired(self, now_ns: int) -> list[int]:
        """Return the places whose time is over, and open them."""
        over = _places((self._until_ns > 0) & (self._until_ns <= now_ns))
        for place in over:
            self._end(place, int(self._until_ns[place]))
        return over

    def paused_ns(self, now_ns: int) -> Longs:
        """Return for how long each place has been paused altogether, a pause that lasts included."""
        lasting = np.where(self._until_ns > 0, np.minimum(now_ns, self._until_ns) - self._since_ns, 0)
        return self._ended_ns + np.maximum(lasting, 0)

    def _end(self, place: int, now_ns: int) -> bool:
        self._ended_ns[place] += max(0, now_ns - int(self._since_ns[place]))
        self._until_ns[place] = 0
        return False


def _places(mask: npt.NDArray[np.bool_]) -> list[int]:
    return [int(place) for place in np.nonzero(mask)[0]]


NO_SIGNALS = Signals(pause=[], refresh=[], resume=[])
