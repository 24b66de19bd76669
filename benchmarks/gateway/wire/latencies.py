"""How long a frame takes through a device: one at a time, a thousand a second.

Ours busy-polling, as a gateway for RDMA would be run, and asleep between packets.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.gateway.wire import testpmd
from benchmarks.gateway.wire.course import Course, on_core
from benchmarks.gateway.wire.devices import BACKENDS, NET_AF_PACKET, Device, opened, slots_of
from benchmarks.gateway.wire.drain import GENERATOR_CPU, Child, UnderTest, demand_whole
from benchmarks.gateway.wire.traffic import FLOWS

RATE, SECONDS, RUNS = 1000.0, 5.0, 3
SETTLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Run:
    sent: int
    lost: int
    """And counted by the device."""
    p50_us: float
    p99_us: float
    max_us: float


@dataclass(frozen=True, slots=True)
class Latency:
    device: str
    length: int
    runs: list[Run]
    """All of them: whatever else happens on this machine is in some more than in others."""

    @property
    def best(self) -> Run:
        return min(self.runs, key=lambda run: run.p99_us)


class Prober(Child):
    """The process that sends a frame and waits for it."""

    def __init__(self, course: Course, length: int, form: str) -> None:
        words = (course.generator.path, course.sink.path, str(length), form)
        super().__init__((), "benchmarks.gateway.wire.prober", *words, cpu=GENERATOR_CPU)

    def probe(self, count: int, rate: float) -> list[int]:
        """Return the nanoseconds of each that came, sorted."""
        self.tell(f"{count} {rate}")
        return list(self.answer()["took_ns"])


def latencies(length: int, seconds: float = SECONDS) -> Iterator[Latency]:
    """Measure one device after the other; raises RuntimeError where a frame that is lost is in nobody's books."""
    peers = (NET_AF_PACKET,) if testpmd.program() else ()
    ours = [
        Device(f"heddle {backend} gateway, {how}", backend, kind)
        for backend in BACKENDS
        for kind, how in (("gateway", "busy-polling"), ("gateway-sleeping", "sleeping"))
    ]
    for device in (*peers, *ours):
        with on_core(GENERATOR_CPU), opened(device, length, slots_of(length)) as (course, under_test):
            assert under_test is not None
            prober = Prober(course, length, device.form)
            try:
                yield _measured(device, course, under_test, prober, length, round(seconds * RATE))
            finally:
                prober.close()


def _measured(
    device: Device, course: Course, under_test: UnderTest, prober: Prober, length: int, count: int
) -> Latency:  # fmt: skip
    before = course.received()
    under_test.begin()
    prober.probe(FLOWS, 0.0)  # each flow's first packet, and what is loaded on first use
    every = [prober.probe(count, RATE) for _ in range(RUNS)]
    time.sleep(SETTLE_S)
    books = under_test.end()
    demand_whole(device.name, FLOWS + RUNS * count, course.received() - before, books)
    return Latency(device.name, length, [_summed_up(took, count) for took in every])


def _summed_up(took: Sequence[int], count: int) -> Run:
    return Run(count, count - len(took), share(took, 0.5) / 1e3, share(took, 0.99) / 1e3, took[-1] / 1e3)


def share(values: Sequence[int], of: float) -> int:
    """Return the smallest of sorted values that so large a share of them does not exceed."""
    return values[max(0, math.ceil(of * len(values)) - 1)]
