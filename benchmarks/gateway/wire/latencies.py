"""Measure the latency of devices: one frame at a time, 1,000 per second.

Our gateway runs busy-polling, as for RDMA, and sleeping between packets.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heddle.benchmarks.gateway.wire import testpmd
from heddle.benchmarks.gateway.wire.course import Course, on_core
from heddle.benchmarks.gateway.wire.devices import BACKENDS, NET_AF_PACKET, Device, opened, slots_of
from heddle.benchmarks.gateway.wire.drain import GENERATOR_CPU, Child, UnderTest, check_accounting
from heddle.benchmarks.gateway.wire.traffic import FLOWS

RATE, SECONDS, RUNS = 1000.0, 5.0, 3
SETTLE_S = 0.2


@dataclass(frozen=True, slots=True)
class Run:
    sent: int
    lost: int
    """Frames lost and counted by the device."""
    p50_us: float
    p99_us: float
    max_us: float


@dataclass(frozen=True, slots=True)
class Latency:
    device: str
    length: int
    runs: list[Run]
    """All runs: other load of the machine affects some more than others."""

    @property
    def best(self) -> Run:
        return min(self.runs, key=lambda run: run.p99_us)


class Prober(Child):
    """The process that sends a frame and waits for its reception."""

    def __init__(self, course: Course, length: int, form: str) -> None:
        words = (course.generator.path, course.sink.path, str(length), form)
        super().__init__((), "heddle.benchmarks.gateway.wire.prober", *words, cpu=GENERATOR_CPU)

    def probe(self, count: int, rate: float) -> list[int]:
        """Return the latencies of received frames in nanoseconds, sorted."""
        self.send_line(f"{count} {rate}")
        return list(self.reply()["took_ns"])


def latencies(length: int, seconds: float = SECONDS) -> Iterator[Latency]:
    """Measure one device after the other; raises RuntimeError if a lost frame is not accounted for."""
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
    prober.probe(FLOWS, 0.0)  # each flow's first packet, and loading on first use
    every = [prober.probe(count, RATE) for _ in range(RUNS)]
    time.sleep(SETTLE_S)
    accounting = under_test.end()
    check_accounting(device.name, FLOWS + RUNS * count, course.received() - before, accounting)
    return Latency(device.name, length, [_summary(took, count) for took in every])


def _summary(took: Sequence[int], count: int) -> Run:
    return Run(count, count - len(took), quantile(took, 0.5) / 1e3, quantile(took, 0.99) / 1e3, took[-1] / 1e3)


def quantile(values: Sequence[int], fraction: float) -> int:
    """Return the smallest of sorted values that at least `fraction` of them do not exceed."""
    return values[max(0, math.ceil(fraction * len(values)) - 1)]
