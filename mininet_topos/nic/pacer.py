"""Packet pacing: the time at which the next frame of a queue pair may leave.

A process that was not scheduled for a while may catch up, but only by `catch_up_ns`; time missed beyond that is lost,
in whole frames. So each sender keeps its phase relative to the others: if all restarted at the moment when a stalled
machine continues, their frames would queue up together from then on. The rates through a link sum up to at most its
capacity, so all senders together burst at most `catch_up_ns` of line rate and a frame each into its queue. The lab
reserves a quarter of the queue for that (`catch_up_time_ns` of `wire/shaping.py`).
"""


class Pacer:
    """Paces one queue pair, or a whole port, at `rate_bps` bits of frame per second from `start_ns` on."""

    __slots__ = ("_begun_ns", "_bits", "_catch_up_ns", "_ns_per_bit", "next_ns")

    def __init__(self, *, rate_bps: float, start_ns: int, catch_up_ns: int) -> None:
        """Allow the first frame at `start_ns`."""
        self._ns_per_bit = 1e9 / rate_bps
        self._catch_up_ns = catch_up_ns
        self._begun_ns: float = start_ns
        self._bits = 0
        self.next_ns: float = start_ns

    def sent(self, bits: int, now_ns: int, not_before_ns: float = 0) -> None:
        """Record that a frame of `bits` has left; time before `not_before_ns` is never caught up."""
        gap_ns = bits * self._ns_per_bit
        missed_ns = max(0, now_ns - self._catch_up_ns - self.next_ns)
        self._begun_ns = max(self.next_ns + missed_ns // gap_ns * gap_ns, not_before_ns)
        self._bits = bits
        self.next_ns = self._begun_ns + gap_ns

    def delay(self, time_ns: int) -> None:
        """Delay the schedule by `time_ns`."""
        self._begun_ns += time_ns
        self.next_ns += time_ns

    def set_rate(self, rate_bps: float) -> None:
        """Change the rate; the gap after the last frame is shortened or stretched accordingly."""
        self._ns_per_bit = 1e9 / rate_bps
        self.next_ns = self._begun_ns + self._bits * self._ns_per_bit

    def duration_ns(self, bits: int) -> float:
        """Return the duration of a frame of `bits` at the present rate."""
        return bits * self._ns_per_bit
