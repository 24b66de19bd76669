"""The detector's output: a condition of a port or of one of its queues was raised or cleared."""

from dataclasses import dataclass
from enum import StrEnum


class SignalKind(StrEnum):
    """The conditions, in the order of the detector's arrays."""

    CONGESTION = "congestion"  # packets of a queue are marked (ECN)
    PAUSING = "pausing"  # PFC frames are sent or received, or a queue is paused by them
    STORM = "storm"  # a queue has been paused almost continuously for long, or the switch's PFC watchdog discards it
    DROP = "drop"  # packets were dropped
    SILENT = "silent"  # no fresh sample
    LOSS = "loss"  # frames are lost on the cable, on their way into the port
    SLOW = "slow"  # the link has less than the fabric file's rate: a lower speed, or fewer lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A condition that was raised or cleared.

    `priority` is None for a condition of the whole port. `value` is the measurement and `threshold` the limit that it
    crossed: a share of packets (congestion), a share of time (pausing, storm; of a source that counts only PFC frames,
    their rate scaled to the same thresholds), packets (drop), seconds since the last sample (silent), a share of frames
    (loss), or of the port's rate (slow). Times are Unix nanoseconds: `since` when the condition was raised, `sampled`
    the source's own time of the deciding sample.
    `stale`: the port is silent, so the condition is the last known one.
    """

    kind: SignalKind
    port: str
    priority: int | None
    raised: bool
    value: float
    threshold: float
    since_unix_ns: int
    sampled_unix_ns: int
    stale: bool = False

    @property
    def subject(self) -> str:
        """Return the port, with the priority if there is one."""
        return self.port if self.priority is None else f"{self.port} priority {self.priority}"
