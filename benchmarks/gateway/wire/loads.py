"""Measure a gateway's capacity under overload, and its losses at 80 % of that."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heddle.benchmarks.gateway.wire.course import Course, on_core
from heddle.benchmarks.gateway.wire.devices import BACKENDS, opened, ours
from heddle.benchmarks.gateway.wire.drain import GENERATOR_CPU, Accounting, Generator, UnderTest, check_accounting
from heddle.benchmarks.gateway.wire.traffic import TUNNEL

SLOTS = 16_384
"""About 20 ms of frames: the length of occasional stalls of virtual machines."""
RATED_S, RATINGS, SHARE, RUNS = 1.0, 9, 0.8, 3
SETTLE_S = 0.2
FIRST_FRAMES = 300_000


@dataclass(frozen=True, slots=True)
class Load:
    """One run."""

    device: str
    length: int
    wanted_pps: float
    """0: the generator's full speed."""
    seconds: float
    sent: int
    sunk: int
    missed: int
    """Frames that found the device's ring full."""
    dropped: int
    why: dict[str, int]

    @property
    def lost(self) -> int:
        return self.sent - self.sunk

    @property
    def forwarded_pps(self) -> float:
        return self.sunk / self.seconds


@dataclass(frozen=True, slots=True)
class Loaded:
    """A device's capacity and its runs at 80 % of it."""

    ratings: list[Load]
    """Runs at the generator's full speed."""
    runs: list[Load]
    """Runs at 80 % of the capacity, up to the first one without loss."""

    @property
    def capacity_pps(self) -> float:
        """The median rate of the ratings: the least one says how long the machine stalled."""
        return statistics.median(one.forwarded_pps for one in self.ratings)

    @property
    def is_bound_by_generator(self) -> bool:
        """Whether most ratings had no loss: the device could have forwarded more."""
        return statistics.median(one.lost for one in self.ratings) == 0


def loads(length: int, seconds: float, backends: Sequence[str] = BACKENDS) -> Iterator[Loaded]:
    """Measure the gateway on each kind of port; raises RuntimeError if a frame is not accounted for."""
    for backend in backends:
        device = ours("gateway", backend)
        with on_core(GENERATOR_CPU), opened(device, length, SLOTS) as (course, under_test):
            assert under_test is not None
            generator = Generator(course, length, TUNNEL)
            try:
                lane = (device.name, length, course, under_test, generator)
                first = _run(*lane, count=FIRST_FRAMES, rate=0.0)  # includes each flow's first packet
                count = round(first.sent / first.seconds * RATED_S)
                found = Loaded([_run(*lane, count=count, rate=0.0) for _ in range(RATINGS)], [])
                rate = SHARE * found.capacity_pps
                while len(found.runs) < RUNS and (not found.runs or found.runs[-1].lost):
                    found.runs.append(_run(*lane, count=round(rate * seconds), rate=rate))
                yield found
            finally:
                generator.close()


def _run(
    name: str, length: int, course: Course, device: UnderTest, generator: Generator, *, count: int, rate: float
) -> Load:  # fmt: skip
    before = course.received()
    device.begin()
    found = generator.send(count, rate)
    time.sleep(SETTLE_S)
    accounting: Accounting = device.end()
    sunk = course.received() - before
    check_accounting(name, int(found["sent"]), sunk, accounting)
    return Load(
        device=name, length=length, wanted_pps=rate, seconds=found["ns"] / 1e9, sent=int(found["sent"]), sunk=sunk,
        missed=accounting.missed, dropped=accounting.dropped, why=accounting.why,
    )  # fmt: skip
