"""All thresholds of the queue model, and their scale.

Scale: a lab link of 20 Mbit/s stands for one of 100 Gbit/s, 1:5,000 in rate. Frames are full-size (4,096 bytes of
payload), so queue sizes in bytes and frames are those of the real fabric; time is stretched by 5,000. One microsecond
of the fabric is 5 ms here, and the pause loop's 1 to 4 ms stand for 0.2 to 0.8 microseconds. The latency of an ASIC is
not modelled.

Thresholds are given for `REFERENCE_RATE_BPS` and scale with the link's rate, so that a threshold is the same *time* on
every link. None is less than a few full frames, because shorter queues are only jitter.
"""

from dataclasses import dataclass

from heddle.controller.model.queueing import (
    KMAX_BYTES,
    KMIN_BYTES,
    PMAX,
    WATCHDOG_DETECTION_MS,
    WATCHDOG_RESTORATION_MS,
    XON_BYTES,
)
from heddle.foundation.traffic_class import CLASSES, TrafficClass
from heddle.mininet_topos.wire.pause_frame import PRIORITIES
from heddle.mininet_topos.wire.shaping import FULL_FRAME_BYTES

REFERENCE_RATE_BPS = 20_000_000
MAX_FRAME_BYTES = 9_014
PAUSABLE_FRAME_BYTES = 4_300
"""The size of a paused priority's token bucket: the one full frame that still leaves when a pause begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLimits:
    """The thresholds of one port's queues, in bytes."""

    kmin_bytes: int
    kmax_bytes: int
    xoff_bytes: int
    xon_bytes: int
    headroom_bytes: int
    buffer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The queueing of the lab's switch ports. Byte values hold at 20 Mbit/s and scale with the rate of each link.

    - ECN: marking begins at `kmin_bytes` (five frames: below, a queue is only the jitter of two senders), reaches
      probability `pmax` at `kmax_bytes` and is certain above. It begins well before XOFF of two ingress ports, so that
      NICs slow down first and pauses stay the exception.
    - PFC: an ingress occupancy above `xoff_bytes` pauses the neighbour, below `xon_bytes` resumes it. XOFF is twice
      kmin: a stream that enters by one port alone is marked before it is paused.
    - `headroom_bytes` hold what still arrives after XOFF: the daemon's tick and scheduling delay at line rate
      (measured: up to 10 ms, 80 ms when many processes start at once, which is 200 KB) and the frames in flight.
    - `buffer_bytes` bound a queue without PFC: about 160 ms, some hundred frames.
    - The PFC watchdog discards a lossless queue that has been paused for `watchdog_detection_ms` without sending a
      packet, and restores it when no pause was in force for `watchdog_restoration_ms`. Both are SONiC's defaults and
      not scaled, since a NIC of the lab pauses only on command. Between switches pauses are back-pressure, which the
      scale stretches: an incast of 31 to 1 at 10 Mbit/s stops a queue for up to 1 s without any fault, which stands
      for 0.2 ms. There the detection time is `watchdog_fabric_detection_ms`, three times as long. So the port that
      faces a storm trips first, and the back-pressure behind it ends before another port trips.
    """

    ecn: bool = True
    pfc: bool = True
    kmin_bytes: int = KMIN_BYTES
    kmax_bytes: int = KMAX_BYTES
    pmax: float = PMAX
    xoff_bytes: int = 40_000
    xon_bytes: int = XON_BYTES
    headroom_bytes: int = 220_000
    buffer_bytes: int = 400_000
    tick_ms: int = 1
    """The period at which occupancies are checked; 1.1 ms with kernel timers. Shorter costs much and gains little."""
    page_period_ms: int = 10
    """The period at which the counter page is written: well under the fastest telemetry period, 100 ms."""
    watchdog: bool = True
    watchdog_detection_ms: int = WATCHDOG_DETECTION_MS
    watchdog_fabric_detection_ms: int = 3000
    watchdog_restoration_ms: int = WATCHDOG_RESTORATION_MS
    classes: tuple[TrafficClass, ...] = CLASSES
    """Other DSCPs, and frames that are not IPv4, have priority 0. A strict class may take the whole link."""

    def __post_init__(self) -> None:
        """Raise ValueError with the name of the setting if a value is out of range or inconsistent."""
        for valid, message in (
            (0 < self.kmin_bytes < self.kmax_bytes, "kmin_bytes must be positive and below kmax_bytes"),
            (0 < self.pmax <= 1, "pmax must be above 0 and at most 1"),
            (0 < self.xon_bytes < self.xoff_bytes, "xon_bytes must be positive and below xoff_bytes"),
            (self.headroom_bytes >= FULL_FRAME_BYTES, "headroom_bytes must hold at least one full frame"),
            (self.buffer_bytes >= 2 * FULL_FRAME_BYTES, "buffer_bytes must hold at least two full frames"),
            (1 <= self.tick_ms <= 100, "tick_ms must be from 1 to 100"),
            (self.tick_ms <= self.page_period_ms <= 1000, "page_period_ms must be from tick_ms to 1000"),
            (100 <= self.watchdog_detection_ms <= 5000, "watchdog_detection_ms must be from 100 to 5000"),
            (
                self.watchdog_detection_ms <= self.watchdog_fabric_detection_ms <= 5000,
                "watchdog_fabric_detection_ms must be from watchdog_detection_ms to 5000",
            ),
            (100 <= self.watchdog_restoration_ms <= 60_000, "watchdog_restoration_ms must be from 100 to 60000"),
            (all(0 <= each.dscp < 64 for each in self.classes), "classes: a DSCP is from 0 to 63"),
            (all(0 <= each.priority < PRIORITIES for each in self.classes), "classes: a priority is from 0 to 7"),
            (len(self.by_priority) == len(self.classes), "classes: each has a priority of its own"),
            (not any(each.lossless and each.strict for each in self.classes), "classes: lossless or strict, not both"),
            (
                any(each.priority == 0 and not each.lossless for each in self.classes),
                "classes: priority 0 holds all that is not classified and cannot be lossless",
            ),
        ):
            if not valid:
                raise ValueError(f"queue settings: {message}")

    @property
    def by_priority(self) -> dict[int, TrafficClass]:
        """Return each class under its priority."""
        return {each.priority: each for each in self.classes}

    @property
    def used(self) -> tuple[int, ...]:
        """Return the priorities that frames can have, in order."""
        return tuple(sorted(self.by_priority))

    @property
    def pausable(self) -> tuple[int, ...]:
        """Return the priorities that PFC can pause, in order."""
        return tuple(priority for priority in self.used if self.pfc and self.by_priority[priority].lossless)

    @property
    def marked(self) -> frozenset[int]:
        """Return the priorities that ECN marks."""
        return frozenset(each.priority for each in self.classes if self.ecn and each.ecn)

    def at(self, rate_bps: int) -> PortLimits:
        """Return the thresholds of a port's queues at its rate."""

        def scaled(value_bytes: int, min_frames: int) -> int:
            return max(value_bytes * rate_bps // REFERENCE_RATE_BPS, min_frames * FULL_FRAME_BYTES)

        kmin, xon = scaled(self.kmin_bytes, 4), scaled(self.xon_bytes, 4)
        return PortLimits(
            kmin_bytes=kmin,
            kmax_bytes=max(scaled(self.kmax_bytes, 12), kmin + FULL_FRAME_BYTES),
            xon_bytes=xon,
            xoff_bytes=max(scaled(self.xoff_bytes, 6), xon + FULL_FRAME_BYTES),
            headroom_bytes=scaled(self.headroom_bytes, 16),
            buffer_bytes=scaled(self.buffer_bytes, 32),
        )
