"""How late a NIC's process wakes up: what the machine has taken from it, beside what it asked for. Pure.

A NIC sleeps until its next frame is due. Where its process then gets no processor, it wakes up late, and its frames
leave late and in a burst, which fills queues and looks like congestion. A delay of less than `MIN_LATE_NS` is that of
a timer and counts for nothing.
"""

MIN_LATE_NS = 2_000_000


class Lateness:
    """The sum and the maximum of the delays since the last reset, in nanoseconds."""

    def __init__(self) -> None:
        """Start with none."""
        self.total_ns = self.max_ns = 0

    def reset(self) -> None:
        """Forget all delays."""
        self.total_ns = self.max_ns = 0

    def woke(self, due_ns: float, now_ns: int) -> None:
        """Record that the process runs at `now_ns`, and had asked for `due_ns` or for the next frame before that."""
        late_ns = now_ns - due_ns
        if late_ns >= MIN_LATE_NS:
            self.total_ns += int(late_ns)
            self.max_ns = max(self.max_ns, int(late_ns))
