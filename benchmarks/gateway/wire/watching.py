"""Processor time a frame, seen from outside, the same for every device: how both grow while frames come.

A sample reads the device's clock, then the frames that the sink has had, then the clock again: how far the two clocks
are apart is what the sample does not know. One during which the watcher was held up is thrown away. What a frame costs
is the growth from the first sample that is left to the last, both taken while the device was at work: how it starts
and what it does without frames are no part of it.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MARKS = 8
"""Samples of a drain, evenly spread over its frames: each interrupts the device for some microseconds."""
MAX_UNSURE, LEAST_SEEN = 0.05, 0.5
"""Of the processor time what may be unknown, and of the frames what has to be seen; else the drain tells nothing."""
QUIET_S, START_S = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    before_ns: int
    frames: int
    after_ns: int
    frames_later: int
    """Read once more behind the second clock."""

    @property
    def apart_ns(self) -> int:
        return self.after_ns - self.before_ns

    @property
    def middle_ns(self) -> float:
        return (self.before_ns + self.after_ns) / 2


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one drain."""

    ns: float
    """Processor time a frame."""
    frames: int
    """Of how many it was found."""
    unsure: float
    """The share of it that the samples did not know."""


def cost(samples: Sequence[Sample], frames: int) -> Cost | None:
    """Return what a frame cost, None where the samples do not say it well enough.

    Args:
        samples: in the order in which they were taken.
        frames: that there were in the end.
    """
    working = [one for one in samples if one.frames > 0 and one.frames_later < frames]
    if len(working) < 2:
        return None
    usual = statistics.median(one.apart_ns for one in working)
    kept = [one for one in working if one.apart_ns <= 2 * usual]
    first, last = kept[0], kept[-1]
    seen, took = last.frames - first.frames, last.middle_ns - first.middle_ns
    if seen < LEAST_SEEN * frames or took <= 0:
        return None
    unsure = (first.apart_ns + last.apart_ns) / 2 / took
    return Cost(took / seen, seen, unsure) if unsure <= MAX_UNSURE else None


def watch(received: Callable[[], int], clock: Callable[[], int], expected: int) -> tuple[list[Sample], int]:
    """Sample until all that is expected has come, or nothing more does; return the samples and how many came."""
    samples: list[Sample] = []
    step = max(1, expected // MARKS)
    mark, last, since = step, 0, time.monotonic()
    while True:
        frames = received()
        if frames >= mark:
            before = clock()
            frames = received()
            after = clock()
            samples.append(Sample(before, frames, after, received()))
            mark = frames + step
        now = time.monotonic()
        if frames != last:
            last, since = frames, now
        if frames >= expected or now - since > (QUIET_S if last else START_S):
            return samples, received()
