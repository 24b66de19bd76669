"""Measure processor time per frame from outside, equally for every device, by sampling CPU time and received frames.

A sample reads the device's CPU clock, then the sink's frame count, then the clock again; the distance of the two clock
values is its uncertainty. Samples during which the watcher stalled are discarded. The cost per frame is the growth from
the first remaining sample to the last, both taken while the device works: its start and its idle time are excluded.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MARKS = 8
"""Samples per drain, evenly spread over its frames; each interrupts the device for some microseconds."""
MAX_UNCERTAINTY, MIN_SEEN = 0.05, 0.5
"""Maximum uncertain share of the CPU time, and minimum share of frames between samples, of a valid drain."""
QUIET_S, STALL_S, START_S = 0.1, 1.0, 5.0
"""Time without further frames: until a flooded device has settled, of a stall of a busy machine, and at the start."""


@dataclass(frozen=True, slots=True)
class Sample:
    before_ns: int
    frames: int
    after_ns: int
    frames_later: int
    """Frame count read again after the second clock."""

    @property
    def apart_ns(self) -> int:
        return self.after_ns - self.before_ns

    @property
    def middle_ns(self) -> float:
        return (self.before_ns + self.after_ns) / 2


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost per frame of one drain."""

    ns: float
    """Processor time per frame."""
    frames: int
    """Number of frames between the samples used."""
    uncertainty: float
    """The uncertain share of the time."""


def cost(samples: Sequence[Sample], frames: int) -> Cost | None:
    """Return the cost per frame, None if the samples are too few or too uncertain.

    Args:
        samples: in order of time.
        frames: the final frame count.
    """
    working = [one for one in samples if one.frames > 0 and one.frames_later < frames]
    if len(working) < 2:
        return None
    usual = statistics.median(one.apart_ns for one in working)
    kept = [one for one in working if one.apart_ns <= 2 * usual]
    first, last = kept[0], kept[-1]
    seen, took = last.frames - first.frames, last.middle_ns - first.middle_ns
    if seen < MIN_SEEN * frames or took <= 0:
        return None
    uncertainty = (first.apart_ns + last.apart_ns) / 2 / took
    return Cost(took / seen, seen, uncertainty) if uncertainty <= MAX_UNCERTAINTY else None


def watch(received: Callable[[], int], clock: Callable[[], int], expected: int) -> tuple[list[Sample], int]:
    """Sample until all expected frames have arrived, or no more do; return the samples and the final count."""
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
        if frames >= expected or now - since > (STALL_S if last else START_S):
            return samples, received()
