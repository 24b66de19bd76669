"""PFC state machines of switch ports: when to pause a neighbour, and until when a neighbour has paused this port.

Pure functions of time. Arrays are indexed by place; the caller maps a place to port and priority. Times and durations
are integers in nanoseconds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """The pause frames to send now: places to pause (XOFF), to refresh, and to resume (XON)."""

    pause: list[int]
    refresh: list[int]
    resume: list[int]


class Backpressure:
    """Pauses neighbours by ingress occupancy, with hysteresis: XOFF above one threshold, XON below a lower one.

    The ingress occupancy of a port is the bytes in the switch that arrived at it.
    """

    def __init__(self, xoff_bytes: Longs, xon_bytes: Longs, refresh_ns: Longs) -> None:
        """Set each place's thresholds, and the time after which a pause that still holds is refreshed."""
        self._xoff, self._xon, self._refresh = xoff_bytes, xon_bytes, refresh_ns
        self.pausing: npt.NDArray[np.bool_] = np.zeros(len(xoff_bytes), np.bool_)
        self._sent_ns: Longs = np.zeros(len(xoff_bytes), np.int64)

    def signals(self, ingress_bytes: Longs, now_ns: int) -> Signals:
        """Return the frames to send for these ingress occupancies, and record them as sent."""
        begin = (ingress_bytes > self._xoff) & ~self.pausing
        if not begin.any() and not self.pausing.any():
            return NO_SIGNALS
        end = self.pausing & (ingress_bytes < self._xon)
        again = self.pausing & ~end & (now_ns - self._sent_ns >= self._refresh)
        self.pausing = (self.pausing | begin) & ~end
        self._sent_ns[begin | again] = now_ns
        return Signals(pause=_places(begin), refresh=_places(again), resume=_places(end))


class ReceivedPauses:
    """Until when each place is paused by its neighbour, and its total paused time."""

    def __init__(self, places: int) -> None:
        """Create the state with no place paused."""
        self._until_ns: Longs = np.zeros(places, np.int64)
        self._since_ns: Longs = np.zeros(places, np.int64)
        self._ended_ns: Longs = np.zeros(places, np.int64)

    @property
    def any_paused(self) -> bool:
        """Return whether any place is paused."""
        return bool(self._until_ns.any())

    @property
    def paused(self) -> Any:
        """Return for each place whether it is paused."""
        return self._until_ns > 0

    @property
    def since_ns(self) -> Longs:
        """Return for each place since when it is paused, -1 if it is not."""
        return np.where(self._until_ns > 0, self._since_ns, -1)

    def take(self, place: int, duration_ns: int, now_ns: int) -> bool | None:
        """Apply a received pause to a place; return True to pause it now, False to resume it, None for no change.

        A later frame replaces an earlier one, whether longer or shorter (IEEE 802.1Q, 36.1.2).
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
        """Return the places whose pause has expired, and mark them as not paused."""
        over = _places((self._until_ns > 0) & (self._until_ns <= now_ns))
        for place in over:
            self._end(place, int(self._until_ns[place]))
        return over

    def paused_ns(self, now_ns: int) -> Longs:
        """Return the total paused time of each place, including a pause that still holds."""
        lasting = np.where(self._until_ns > 0, np.minimum(now_ns, self._until_ns) - self._since_ns, 0)
        return self._ended_ns + np.maximum(lasting, 0)

    def _end(self, place: int, now_ns: int) -> bool:
        self._ended_ns[place] += max(0, now_ns - int(self._since_ns[place]))
        self._until_ns[place] = 0
        return False


def _places(mask: npt.NDArray[np.bool_]) -> list[int]:
    return [int(place) for place in np.nonzero(mask)[0]]


NO_SIGNALS = Signals(pause=[], refresh=[], resume=[])
