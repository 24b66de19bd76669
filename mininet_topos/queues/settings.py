"""Every threshold of the queue model in one place, and what it stands for.

The scale. A lab's link of 20 Mbit/s stands for one of 100 Gbit/s: 1 : 5,000 in rate. Frames are full-size (4,096 bytes
of payload), so bytes are bytes and a queue of ten frames is ten frames; what stretches is time, by the same 5,000: one
microsecond of the fabric is 5 ms here, and the pause loop's 1 to 4 ms stand for 0.2 to 0.8 microseconds. Nothing here
claims the latency of an ASIC.

Thresholds are given for `REFERENCE_RATE_BPS` and grow with the link's rate, so that a threshold is the same *time* of
the link everywhere; none falls below a few full frames, for a queue of less than that says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.model.plan import DATA_DSCP

REFERENCE_RATE_BPS = 20_000_000
FULL_FRAME_BYTES = 4170
PRIORITIES = 8
CNP_DSCP = 48
DATA_PRIORITY, CNP_PRIORITY = 3, 6
PRIORITY_OF_DSCP = {DATA_DSCP: DATA_PRIORITY, CNP_DSCP: CNP_PRIORITY}
MAX_FRAME_BYTES = 9_014
PAUSABLE_FRAME_BYTES = 4_300
"""What a gate's bucket holds: one full frame, which is what slips through when a pause begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLimits:
    """What holds for the queues of one port, in bytes."""

    kmin_bytes: int
    kmax_bytes: int
    xoff_bytes: int
    xon_bytes: int
    headroom_bytes: int
    buffer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How the lab's switch ports queue. Byte values hold at 20 Mbit/s and scale with the rate of each link.

    - ECN: marking begins at `kmin_bytes` (five frames: below, a queue is only the jitter of two senders), reaches
      `pmax` at `kmax_bytes` and is certain above. It begins well before XOFF of two ingress ports, so that the NICs'
      reaction comes first and pauses stay the exception.
    - PFC: `xoff_bytes` of one ingress port inside of the switch ask the neighbour to pause, `xon_bytes` let it go on.
      XOFF is twice kmin: a stream that enters by one port alone is marked before it is paused.
    - `headroom_bytes` take in what still arrives after XOFF: the daemon's tick and scheduling delay at line rate
      (measured: up to 10 ms, 80 ms when many processes start at once, which is 200 KB) and the frames under way.
    - `buffer_bytes` bound a queue that no pause protects: about 160 ms, some hundred frames.
    """

    ecn: bool = True
    pfc: bool = True
    kmin_bytes: int = 20_000
    kmax_bytes: int = 80_000
    pmax: float = 0.2
    xoff_bytes: int = 40_000
    xon_bytes: int = 24_000
    headroom_bytes: int = 220_000
    buffer_bytes: int = 400_000
    tick_ms: int = 1
    """How often occupancies are looked at. The kernel's timers make it 1.1 ms; shorter costs much and gains little."""
    page_period_ms: int = 10
    """How often the counter page is written: well under the 100 ms of the fastest telemetry period."""
    priority_of_dscp: Mapping[int, int] = field(default_factory=lambda: dict(PRIORITY_OF_DSCP))
    """What is not named has priority 0, as has what is not IPv4."""
    lossless: frozenset[int] = frozenset({DATA_PRIORITY})
    strict: frozenset[int] = frozenset({CNP_PRIORITY})
    """Served before the others; may use the whole link. Only for what is little, such as CNPs."""

    def __post_init__(self) -> None:
        """Raise ValueError, naming the setting, where one makes no sense."""
        for right, message in (
            (0 < self.kmin_bytes < self.kmax_bytes, "kmin_bytes must be positive and below kmax_bytes"),
            (0 < self.pmax <= 1, "pmax must be above 0 and at most 1"),
            (0 < self.xon_bytes < self.xoff_bytes, "xon_bytes must be positive and below xoff_bytes"),
            (self.headroom_bytes >= FULL_FRAME_BYTES, "headroom_bytes must hold at least one full frame"),
            (self.buffer_bytes >= 2 * FULL_FRAME_BYTES, "buffer_bytes must hold at least two full frames"),
            (1 <= self.tick_ms <= 100, "tick_ms must be from 1 to 100"),
            (self.tick_ms <= self.page_period_ms <= 1000, "page_period_ms must be from tick_ms to 1000"),
            (all(0 <= dscp < 64 for dscp in self.priority_of_dscp), "priority_of_dscp: a DSCP is from 0 to 63"),
            (self._priorities <= frozenset(range(PRIORITIES)), "a priority is from 0 to 7"),
            (not self.lossless & self.strict, "a priority is lossless or strict, not both"),
            (not self.lossless & {0}, "priority 0 holds all that is not classified and cannot be lossless"),
        ):
            if not right:
                raise ValueError(f"queue settings: {message}")

    @property
    def used(self) -> tuple[int, ...]:
        """Return the priorities that frames can have, in order."""
        return tuple(sorted({0, *self.priority_of_dscp.values()}))

    @property
    def pausable(self) -> tuple[int, ...]:
        """Return the priorities that can be paused, in order."""
        return tuple(sorted(self.lossless & set(self.used))) if self.pfc else ()

    def at(self, rate_bps: int) -> PortLimits:
        """Return the limits of a port's queues at its rate."""

        def scaled(value_bytes: int, least_frames: int) -> int:
            return max(value_bytes * rate_bps // REFERENCE_RATE_BPS, least_frames * FULL_FRAME_BYTES)

        kmin, xon = scaled(self.kmin_bytes, 4), scaled(self.xon_bytes, 4)
        return PortLimits(
            kmin_bytes=kmin,
            kmax_bytes=max(scaled(self.kmax_bytes, 12), kmin + FULL_FRAME_BYTES),
            xon_bytes=xon,
            xoff_bytes=max(scaled(self.xoff_bytes, 6), xon + FULL_FRAME_BYTES),
            headroom_bytes=scaled(self.headroom_bytes, 16),
            buffer_bytes=scaled(self.buffer_bytes, 32),
        )

    @property
    def _priorities(self) -> frozenset[int]:
        return frozenset(self.priority_of_dscp.values()) | self.lossless | self.strict
