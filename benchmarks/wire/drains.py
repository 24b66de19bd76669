"""Drains of every device in turns, round by round: processor time a packet, and where each frame went.

Each device has a course of its own, so that all are there at once and none is started between two measurements.
"""

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.wire import drain, testpmd
from benchmarks.wire.course import Course
from benchmarks.wire.drain import DEVICE_CPU, GENERATOR_CPU, Drained, Generator, Ours, UnderTest, frames_of, slots_of
from benchmarks.wire.processor import DeviceClock

ROUNDS, WARM, TRIES = 61, 3, 10
BASE = "testpmd net_af_packet"
"""What others are compared with: DPDK on the same kind of ring as our fallback, doing nothing with the packets."""


@dataclass(frozen=True)
class Device:
    name: str
    kind: str
    """forward, encapsulate, gateway; or testpmd's kind of port."""
    backend: str = ""
    """Empty for testpmd."""
    most_frames: int = 1 << 20
    """That its ring holds."""
    longest: int = 9000
    """Bytes of a frame that it can forward."""

    @property
    def plain(self) -> str:
        """The device that forwards and does nothing else in the same way; its own name where it is that."""
        return f"heddle {self.backend} forward" if self.backend else self.name


OURS = tuple(
    Device(f"heddle {backend} {kind}", kind, backend)
    for backend in ("af-xdp", "af-packet")
    for kind in ("forward", "encapsulate", "gateway")
)
PEERS = (
    Device("testpmd net_af_packet", "net_af_packet"),
    Device("testpmd net_af_xdp", "net_af_xdp", most_frames=testpmd.AF_XDP_FRAMES, longest=testpmd.AF_XDP_BYTES),
)


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


def devices(length: int) -> tuple[Device, ...]:
    """Return all that can be had here for frames of a length."""
    every = (*PEERS, *OURS) if testpmd.program() else OURS
    return tuple(device for device in every if length <= device.longest)


def drained(length: int, which: Sequence[Device], rounds: int = ROUNDS) -> list[Row]:
    """Measure; raises RuntimeError where a frame is neither sent on nor counted as dropped."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {GENERATOR_CPU})
    repeated = dict.fromkeys(which, 0)
    found: dict[Device, list[Drained]] = {device: [] for device in which}
    try:
        with ExitStack() as stack:
            lanes = {device: stack.enter_context(_lane(device, length)) for device in which}
            for number in range(WARM + rounds):
                for device, lane in lanes.items():
                    one, tries = _sound(device, lane)
                    if number >= WARM:
                        found[device].append(one)
                        repeated[device] += tries
    finally:
        os.sched_setaffinity(0, own)
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
        demand_whole(device.name, one)
        if one.cost is not None:
            return one, tries
    raise RuntimeError(f"{device.name}: this machine does not let itself be measured, {TRIES} times in a row")


def demand_whole(name: str, one: Drained) -> None:
    """Raise RuntimeError where the books do not agree: sent, received, transmitted, dropped, arrived."""
    books = one.books
    if one.sent != books.received + books.missed:
        raise RuntimeError(f"{name}: what was sent was neither received nor missed: {one}")
    if books.received != books.transmitted + books.dropped:
        raise RuntimeError(f"{name}: what was received was neither sent on nor dropped: {one}")
    if one.sunk != books.transmitted:
        raise RuntimeError(f"{name}: what left did not arrive: {one}")
    if not books.transmitted:
        raise RuntimeError(f"{name}: no frame came through: {one}")


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
    """Let a device run on a course of its own."""
    with ExitStack() as stack:
        course = stack.enter_context(Course(max(1500, length + 100)))
        generator = Generator(course, length, tunnel=device.kind == "gateway")
        stack.callback(generator.close)
        under_test: Ours | testpmd.Testpmd
        if device.backend:
            under_test = Ours(course, device.kind, device.backend, slots_of(length))
        else:
            under_test = testpmd.Testpmd(course, device.kind, 2048 if length < 2000 else 8192, slots_of(length))
        stack.callback(under_test.close)
        clock = DeviceClock(under_test.pid, DEVICE_CPU)
        stack.callback(clock.close)
        yield _Lane(course, under_test, clock, generator, min(frames_of(length), device.most_frames))
