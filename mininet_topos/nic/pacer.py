"""When the next frame of a queue pair may leave.

A process that was not run for a while may catch up, but only so much: what it missed beyond `catch_up_ns` is lost, in
whole frames. So each sender keeps its place among the others: if all began anew at the moment a stalled machine goes
on, they would stand in line together from then on. The sum of the rates through a link being at most its capacity, all
senders together can burst at most `catch_up_ns` of line rate and a frame each into its queue; the lab takes a quarter
of the queue for that (`catch_up_time_ns`).
"""

MAX_CATCH_UP_NS = 50_000_000


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
        """Note that a frame of so many bits has left; time before `not_before_ns` is not made up for at all."""
        gap_ns = bits * self._ns_per_bit
        missed_ns = max(0, now_ns - self._catch_up_ns - self.next_ns)
        self._begun_ns = max(self.next_ns + missed_ns // gap_ns * gap_ns, not_before_ns)
        self._bits = bits
        self.next_ns = self._begun_ns + gap_ns

    def delay(self, time_ns: int) -> None:
        """Move everything later."""
        self._begun_ns += time_ns
        self.next_ns += time_ns

    def set_rate(self, rate_bps: float) -> None:
        """Pace at another rate, the gap after the last frame included: it is cut short or stretched."""
        self._ns_per_bit = 1e9 / rate_bps
        self.next_ns = self._begun_ns + self._bits * self._ns_per_bit

    def duration_ns(self, bits: int) -> float:
        """Return how long a frame of so many bits takes at the present rate."""
        return bits * self._ns_per_bit


def catch_up_time_ns(queue_bytes: int, fastest_bps: int) -> int:
    """Return how long a pause senders may make up for: a quarter of the queue at the fastest link's rate."""
    return min(MAX_CATCH_UP_NS, queue_bytes * 8 * 10**9 // (4 * fastest_bps))
