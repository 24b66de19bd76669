"""Measure all devices in rounds: processor time per packet, and the accounting of every frame.

Each device has a test topology of its own, so that no device starts between two measurements. Devices whose ring can be
filled are drained. Open vSwitch, whose sockets hold few frames, gets more than it can forward. The kernel's VXLAN works
while the generator sends.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from heddle.benchmarks.gateway.wire.course import on_core
from heddle.benchmarks.gateway.wire.devices import NET_AF_PACKET, NOTHING, Device, Mode, frames_of, opened, slots_of
from heddle.benchmarks.gateway.wire.drain import DEVICE_CPU, GENERATOR_CPU, Generator, Lane, Measured, check_accounting
from heddle.benchmarks.gateway.wire.processor import DeviceClock

ROUNDS, WARM, TRIES = 61, 3, 10
BASE = NET_AF_PACKET.name
"""The baseline: DPDK on the same kind of ring as our fallback, forwarding packets unchanged."""


@dataclass(frozen=True)
class Ratio:
    """The ratio to another device of the same rounds: median and its 95 % confidence interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """Microseconds of processor time per packet."""

    device: str
    length: int
    us: float | None
    """The device's own median over the rounds; None if it has no process."""
    best_us: float | None
    mpps: float | None
    """Million packets per second of one core at that time per packet."""
    to_base: Ratio | None
    """Ratio of the device's own time to BASE."""
    to_plain: Ratio | None
    """Ratio to plain forwarding on the same kind of port."""
    whole_us: float | None
    """Own time plus the sender's time to deliver the packet, beyond that of a discarded one."""
    whole_to_base: Ratio | None
    soft_share: float
    """The share of the device's time spent in ksoftirqd."""
    rounds: int
    repeated: int
    """Measurements that were disturbed and repeated."""
    sent: int
    """Frames sent in all measured rounds."""


def measured(length: int, which: Sequence[Device], rounds: int = ROUNDS) -> list[Row]:
    """Measure the devices; raises RuntimeError if a frame is neither forwarded nor counted as dropped."""
    every = (NOTHING, *which)
    repeated = dict.fromkeys(every, 0)
    found: dict[Device, list[Measured]] = {device: [] for device in every}
    with on_core(GENERATOR_CPU), ExitStack() as stack:
        lanes = {device: stack.enter_context(_lane(device, length)) for device in every}
        for number in range(WARM + rounds):
            for device, lane in lanes.items():
                one, tries = _sound(device, lane, min(frames_of(length), device.max_frames))
                if number >= WARM:
                    found[device].append(one)
                    repeated[device] += tries
    return rows(length, found, repeated)


def _sound(device: Device, lane: Lane, frames: int) -> tuple[Measured, int]:
    """Measure until a result is valid; return it and the number of repetitions."""
    for tries in range(TRIES):
        if device.mode is Mode.DRAIN:
            one = lane.drained(frames)
            assert one.accounting is not None
            check_accounting(device.name, one.sent, one.sunk, one.accounting)
        else:
            one = lane.flooded(frames) if device.mode is Mode.FLOOD else lane.passed(frames)
        if one.own_ns is not None and (device.mode is not Mode.PASS or one.sunk == one.sent or device == NOTHING):
            return one, tries
    raise RuntimeError(f"{device.name}: {TRIES} measurements in a row were disturbed")


def rows(length: int, found: dict[Device, list[Measured]], repeated: dict[Device, int]) -> list[Row]:
    """Return a row for each device except NOTHING, which measures the cost of a discarded frame."""
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
    mine, has_own = own[device.name], device.mode is not Mode.PASS
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
    """Return the ratio over the rounds; None without another device."""
    if others is None or others is mine:
        return None
    each = sorted(one / other for one, other in zip(mine, others, strict=True))
    outside = max(0, int((len(each) - 1.96 * len(each) ** 0.5) / 2))  # binomial, p = 0.5
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
