"""What the detector says: a condition of a port or of one of its queues was raised, or cleared."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The conditions, in the order of the detector's arrays."""

    CONGESTION = "congestion"  # packets of a queue are marked (ECN)
    PAUSING = "pausing"  # PFC frames come or go, or a queue stands still because of them
    STORM = "storm"  # a queue has been paused almost all the time for long
    DROP = "drop"  # packets were dropped
    SILENT = "silent"  # no fresh sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One condition that came or went.

    `priority` is None where the whole port is meant. `value` is what was measured and `threshold` what it passed: a
    share of packets (congestion), a share of time (pausing, storm; where a source counts only PFC frames, their rate
    scaled such that both thresholds fall together), packets (drop), or seconds since the last sample (silent). Times
    are Unix nanoseconds: `since` when the condition was raised, `sampled` the source's own time of the sample that
    decided. `stale`: the port is silent, so the condition is what was last known.
    """

    kind: Kind
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
        """Return the port, with its priority where one is meant."""
        return self.port if self.priority is None else f"{self.port} priority {self.priority}"
