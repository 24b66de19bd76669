"""Drains of every device in turns, round by round: processor time a packet, and where each frame went.

Each device has a course of its own, so that all are there at once and none is started between two measurements.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.wire import drain
from benchmarks.wire.course import Course, on_core
from benchmarks.wire.devices import NET_AF_PACKET, Device, frames_of, opened, slots_of
from benchmarks.wire.drain import DEVICE_CPU, GENERATOR_CPU, Drained, Generator, UnderTest, demand_whole
from benchmarks.wire.processor import DeviceClock

ROUNDS, WARM, TRIES = 61, 3, 10
BASE = NET_AF_PACKET.name
"""What others are compared with: DPDK on the same kind of ring as our fallback, doing nothing with the packets."""


@dataclass(frozen=True)
class Ratio:
    """To another device, of the same round each: the median, and between what it lies with a confidence of 95 %."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    device: str
    length: int
    us: float
    """Microseconds of processor time a packet: the median of the rounds, and the best."""
    best_us: float
    mpps: float
    """Million packets a second that one core could forward at that."""
    to_base: Ratio | None
    """To BASE."""
    to_plain: Ratio | None
    """To plain forwarding on the same kind of port."""
    soft_share: float
    """Of that time, what was spent in the kernel's thread for soft interrupts."""
    rounds: int
    repeated: int
    """Drains that told nothing and were done again."""
    sent: int
    """By the generator in all measured rounds; all of it was accounted for."""


def drained(length: int, which: Sequence[Device], rounds: int = ROUNDS) -> list[Row]:
    """Measure; raises RuntimeError where a frame is neither sent on nor counted as dropped."""
    repeated = dict.fromkeys(which, 0)
    found: dict[Device, list[Drained]] = {device: [] for device in which}
    with on_core(GENERATOR_CPU), ExitStack() as stack:
        lanes = {device: stack.enter_context(_lane(device, length)) for device in which}
        for number in range(WARM + rounds):
            for device, lane in lanes.items():
                one, tries = _sound(device, lane)
                if number >= WARM:
                    found[device].append(one)
                    repeated[device] += tries
    costs = {device.name: [_us(one) for one in found[device]] for device in which}
    return [_summed_up(device, length, costs, found[device], repeated[device]) for device in which]


@dataclass(frozen=True, slots=True)
class _Lane:
    course: Course
    device: UnderTest
    clock: DeviceClock
    generator: Generator
    frames: int


def _sound(device: Device, lane: _Lane) -> tuple[Drained, int]:
    """Drain until it tells something; return it and how often it did not."""
    for tries in range(TRIES):
        one = drain.drained(lane.course, lane.device, lane.clock, lane.generator, lane.frames)
        demand_whole(device.name, one.sent, one.sunk, one.books)
        if one.cost is not None:
            return one, tries
    raise RuntimeError(f"{device.name}: this machine does not let itself be measured, {TRIES} times in a row")


def _us(one: Drained) -> float:
    assert one.cost is not None
    return one.cost.ns / 1e3


def _summed_up(
    device: Device, length: int, costs: dict[str, list[float]], found: Sequence[Drained], repeated: int
) -> Row:
    mine = costs[device.name]
    return Row(
        device=device.name, length=length, us=statistics.median(mine), best_us=min(mine),
        mpps=1 / statistics.median(mine), to_base=ratio(mine, costs.get(BASE)),
        to_plain=ratio(mine, costs.get(device.plain)),
        soft_share=statistics.mean(one.soft_share for one in found), rounds=len(mine), repeated=repeated,
        sent=sum(one.sent for one in found),
    )  # fmt: skip


def ratio(mine: Sequence[float], others: Sequence[float] | None) -> Ratio | None:
    """Return what the rounds' ratios are, None where there is nothing to compare with."""
    if others is None:
        return None
    each = sorted(one / other for one, other in zip(mine, others, strict=True))
    outside = max(0, int((len(each) - 1.96 * len(each) ** 0.5) / 2))  # binomial: as many lie under the median as over
    return Ratio(statistics.median(each), each[outside], each[-1 - outside])


@contextmanager
def _lane(device: Device, length: int) -> Iterator[_Lane]:
    with ExitStack() as stack:
        course, under_test = stack.enter_context(opened(device, length, slots_of(length)))
        generator = Generator(course, length, tunnel=device.takes_tunnels)
        stack.callback(generator.close)
        clock = DeviceClock(under_test.pid, DEVICE_CPU)
        stack.callback(clock.close)
        yield _Lane(course, under_test, clock, generator, min(frames_of(length), device.most_frames))
