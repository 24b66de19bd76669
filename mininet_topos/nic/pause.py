"""Priority flow control at a NIC: which priorities are paused and until when, and pauses sent without end. Pure.

A frame pauses a priority for a number of quanta of 512 bit times of the link, 25.6 us each at 20 Mbit/s; zero resumes
it (XON). A new frame replaces an earlier one. `queues.pause_frame` defines the frame format.
"""

from collections.abc import Mapping

from heddle.mininet_topos.wire.pause_frame import MAX_QUANTA, PRIORITIES, quanta_ns

STORM_PERIOD_NS = 20_000_000
"""The period of a storm's frames: a small part of the longest pause, so that a stall of the machine ends no storm."""


class PfcState:
    """The pauses of all priorities of one port, and their counters.

    `until_ns[priority]` is the end of the latest pause; `frames` counts received pauses, `transitions` changes from
    not paused to paused.
    """

    __slots__ = ("_line_rate_bps", "_paused_ns", "_since_ns", "frames", "transitions", "until_ns")

    def __init__(self, line_rate_bps: int) -> None:
        """Create the state of a link of this rate, with no priority paused."""
        self._line_rate_bps = line_rate_bps
        self.until_ns = [0] * PRIORITIES
        self.frames, self.transitions = [0] * PRIORITIES, [0] * PRIORITIES
        self._paused_ns = [0] * PRIORITIES
        self._since_ns: list[int | None] = [None] * PRIORITIES

    def on_pause(self, quanta: Mapping[int, int], now_ns: int) -> None:
        """Apply the quanta of each priority that a received frame enables."""
        for priority, time in quanta.items():
            self.frames[priority] += 1
            self._set(priority, now_ns + quanta_ns(time, self._line_rate_bps), now_ns)

    def paused_ns(self, priority: int, now_ns: int) -> int:
        """Return the total paused time of a priority up to now."""
        since = self._since_ns[priority]
        current = 0 if since is None else min(now_ns, self.until_ns[priority]) - since
        return self._paused_ns[priority] + current

    def _set(self, priority: int, until_ns: int, now_ns: int) -> None:
        was_paused = now_ns < self.until_ns[priority]
        if not was_paused:
            self._paused_ns[priority] = self.paused_ns(priority, now_ns)
            self._since_ns[priority] = now_ns if until_ns > now_ns else None
            self.transitions[priority] += until_ns > now_ns
        elif until_ns <= now_ns:
            self._paused_ns[priority] = self.paused_ns(priority, now_ns)
            self._since_ns[priority] = None
        if was_paused or until_ns > now_ns:
            self.until_ns[priority] = until_ns


class PauseStorm:
    """The pauses of a defective NIC, which pauses priorities of its switch port without end."""

    __slots__ = ("_due_ns", "_priorities")

    def __init__(self) -> None:
        """Create the state with no storm."""
        self._priorities: frozenset[int] = frozenset()
        self._due_ns = 0

    def change(self, priority: int, running: bool) -> dict[int, int]:
        """Start or stop the storm of a priority; return the quanta of the frame to send now, by priority."""
        self._priorities = self._priorities | {priority} if running else self._priorities - {priority}
        return {priority: MAX_QUANTA if running else 0}

    def due(self, now_ns: int) -> dict[int, int]:
        """Return the quanta of the frame that is due by priority, empty if none is, and count it as sent."""
        if not self._priorities or now_ns < self._due_ns:
            return {}
        self._due_ns = now_ns + STORM_PERIOD_NS
        return dict.fromkeys(sorted(self._priorities), MAX_QUANTA)

    @property
    def wake_ns(self) -> float:
        """Return when the next frame is due."""
        return self._due_ns if self._priorities else float("inf")
