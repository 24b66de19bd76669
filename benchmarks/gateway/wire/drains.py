"""All devices in turns, round by round: processor time a packet, and where each frame went.

Each device has a course of its own, so that all are there at once and none is started between two measurements.
Where a ring can be filled beforehand the device is drained; Open vSwitch, whose sockets hold little, is given more
than it can forward; the kernel's VXLAN does its work while the generator sends.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.gateway.wire.course import on_core
from benchmarks.gateway.wire.devices import NET_AF_PACKET, NOTHING, Device, Way, frames_of, opened, slots_of
from benchmarks.gateway.wire.drain import DEVICE_CPU, GENERATOR_CPU, Generator, Lane, Measured, demand_whole
from benchmarks.gateway.wire.processor import DeviceClock

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
    """Microseconds of processor time a packet."""

    device: str
    length: int
    us: float | None
    """Of the device itself: the median of the rounds, and the best. None where it has no process of its own."""
    best_us: float | None
    mpps: float | None
    """Million packets a second that one core could forward at that."""
    to_base: Ratio | None
    """Of the device itself, to BASE."""
    to_plain: Ratio | None
    """To plain forwarding on the same kind of port."""
    whole_us: float | None
    """With what the sender's core needed to copy_in the packet to the device, more than for one that is thrown away."""
    whole_to_base: Ratio | None
    soft_share: float
    """Of the device's time, what was spent in the kernel's thread for soft interrupts."""
    rounds: int
    repeated: int
    """Measurements that told nothing and were done again."""
    sent: int
    """By the generator in all measured rounds."""


def measured(length: int, which: Sequence[Device], rounds: int = ROUNDS) -> list[Row]:
    """Measure; raises RuntimeError where a frame is neither sent on nor counted as dropped."""
    every = (NOTHING, *which)
    repeated = dict.fromkeys(every, 0)
    found: dict[Device, list[Measured]] = {device: [] for device in every}
    with on_core(GENERATOR_CPU), ExitStack() as stack:
        lanes = {device: stack.enter_context(_lane(device, length)) for device in every}
        for number in range(WARM + rounds):
            for device, lane in lanes.items():
                one, tries = _sound(device, lane, min(frames_of(length), device.most_frames))
                if number >= WARM:
                    found[device].append(one)
                    repeated[device] += tries
    return rows(length, found, repeated)


def _sound(device: Device, lane: Lane, frames: int) -> tuple[Measured, int]:
    """Measure until it tells something; return it and how often it did not."""
    for tries in range(TRIES):
        if device.way is Way.DRAIN:
            one = lane.drained(frames)
            assert one.books is not None
            demand_whole(device.name, one.sent, one.sunk, one.books)
        else:
            one = lane.flooded(frames) if device.way is Way.FLOOD else lane.passed(frames)
        if one.own_ns is not None and (device.way is not Way.PASS or one.sunk == one.sent or device == NOTHING):
            return one, tries
    raise RuntimeError(f"{device.name}: this machine does not let itself be measured, {TRIES} times in a row")


def rows(length: int, found: dict[Device, list[Measured]], repeated: dict[Device, int]) -> list[Row]:
    """Return a row for each device but NOTHING, whose rounds say what it costs to throw a frame away."""
    nothing = [one.delivery_ns for one in found[NOTHING]]
    own = {device.name: [(one.own_ns or 0.0) / 1e3 for one in each] for device, each in found.items()}
    whole = {
        device.name: [
            mine + (one.delivery_ns - drop) / 1e3
            for mine, one, drop in zip(own[device.name], each, nothing, strict=True)
        ]
        for device, each in found.items()
    }
    return [_row(device, length, own, whole, found[device], repeated[device]) for device in found if device != NOTHING]


def _row(
    device: Device, length: int, own: dict[str, list[float]], whole: dict[str, list[float]], found: Sequence[Measured],
    repeated: int,
) -> Row:  # fmt: skip
    mine, has_own = own[device.name], device.way is not Way.PASS
    return Row(
        device=device.name, length=length,
        us=statistics.median(mine) if has_own else None, best_us=min(mine) if has_own else None,
        mpps=1 / statistics.median(mine) if has_own else None,
        to_base=ratio(mine, own.get(BASE)) if has_own else None,
        to_plain=ratio(mine, own.get(device.plain)) if device.plain else None,
        whole_us=statistics.median(whole[device.name]), whole_to_base=ratio(whole[device.name], whole.get(BASE)),
        soft_share=statistics.mean(one.soft_share for one in found), rounds=len(found), repeated=repeated,
        sent=sum(one.sent for one in found),
    )  # fmt: skip


def ratio(mine: Sequence[float], others: Sequence[float] | None) -> Ratio | None:
    """Return what the rounds' ratios are, None where there is nothing to compare with."""
    if others is None or others is mine:
        return None
    each = sorted(one / other for one, other in zip(mine, others, strict=True))
    outside = max(0, int((len(each) - 1.96 * len(each) ** 0.5) / 2))  # binomial: as many lie under the median as over
    return Ratio(statistics.median(each), each[outside], each[-1 - outside])


@contextmanager
def _lane(device: Device, length: int) -> Iterator[Lane]:
    with ExitStack() as stack:
        course, under_test = stack.enter_context(opened(device, length, slots_of(length)))
        generator = Generator(course, length, device.form)
        stack.callback(generator.close)
        clock = DeviceClock(under_test.pid, DEVICE_CPU) if under_test is not None else None
        generator_clock = DeviceClock(generator.pid, GENERATOR_CPU)
        for each in (clock, generator_clock):
            if each is not None:
                stack.callback(each.close)
        yield Lane(course, under_test, clock, generator, generator_clock)
