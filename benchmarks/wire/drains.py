"""Drains of every device in turns, round by round: processor time a packet, and where each frame went.

Each device has a course of its own, so that all are there at once and none is started between two measurements.
"""

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.wire import testpmd
from benchmarks.wire.course import Course
from benchmarks.wire.drain import FRAMES, GENERATOR_CPU, SLOTS, Generator, Ours

ROUNDS, WARM = 31, 3
BASE = "testpmd net_af_packet"
"""What others are compared with: DPDK on the same kind of ring as our fallback, doing nothing with the packets."""


@dataclass(frozen=True)
class Device:
    name: str
    kind: str
    """forward, encapsulate, gateway; or testpmd's kind of port."""
    backend: str = ""
    """Empty for testpmd."""


OURS = tuple(
    Device(f"heddle {backend} {kind}", kind, backend)
    for backend in ("af-xdp", "af-packet")
    for kind in ("forward", "encapsulate", "gateway")
)
PEERS = (Device("testpmd net_af_packet", "net_af_packet"),)


@dataclass(frozen=True)
class Drained:
    device: str
    length: int
    us: float
    """Microseconds of processor time a packet: the median of the rounds, and the best."""
    best_us: float
    ratio: float | None
    """The median of each round's ratio to BASE in the same round."""
    best_ratio: float | None
    """That of the best rounds of both."""
    soft_share: float
    """Of that time, what was spent in the kernel's thread for soft interrupts."""
    frames: int
    sent: int
    """By the generator in all measured rounds."""


def devices() -> tuple[Device, ...]:
    """Return all that can be had here."""
    return (*PEERS, *OURS) if testpmd.program() else OURS


def drained(length: int, which: Sequence[Device], rounds: int = ROUNDS) -> list[Drained]:
    """Measure; raises RuntimeError where a frame of ours is neither sent on nor counted as dropped."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {GENERATOR_CPU})
    try:
        with ExitStack() as stack:
            running = {device: stack.enter_context(_running(device, length, SLOTS)) for device in which}
            found: dict[Device, list[dict[str, Any]]] = {device: [] for device in which}
            for number in range(WARM + rounds):
                for device, (under_test, generator) in running.items():
                    figures = under_test.drained(generator, FRAMES)
                    demand_whole(device, figures)
                    if number >= WARM:
                        found[device].append(figures)
    finally:
        os.sched_setaffinity(0, own)
    return [_summed_up(device, length, found) for device in which]


def demand_whole(device: Device, figures: dict[str, Any]) -> None:
    """Raise RuntimeError where the books do not agree."""
    if device.backend and figures["frames"] != figures["tx"] + figures["dropped"]:
        raise RuntimeError(f"{device.name}: {figures}: received is not sent and dropped")
    if device.backend and figures["sent"] != figures["frames"] + figures["missed"]:
        raise RuntimeError(f"{device.name}: {figures}: what was sent was neither received nor missed")
    if device.backend and figures["sunk"] != figures["tx"]:
        raise RuntimeError(f"{device.name}: {figures}: what left did not arrive")
    if not figures["frames"]:
        raise RuntimeError(f"{device.name}: no frame came through")


def _summed_up(device: Device, length: int, found: dict[Device, list[dict[str, Any]]]) -> Drained:
    costs = [figures["cpu_ns"] / figures["frames"] / 1e3 for figures in found[device]]
    ratio = best_ratio = None
    for other in found:
        if other.name == BASE:
            base = [figures["cpu_ns"] / figures["frames"] / 1e3 for figures in found[other]]
            ratio = statistics.median(cost / of for cost, of in zip(costs, base, strict=True))
            best_ratio = min(costs) / min(base)
    return Drained(
        device=device.name, length=length, us=statistics.median(costs), best_us=min(costs), ratio=ratio,
        best_ratio=best_ratio,
        soft_share=sum(each["soft_ns"] for each in found[device]) / sum(each["cpu_ns"] for each in found[device]),
        frames=sum(figures["frames"] for figures in found[device]),
        sent=sum(figures["sent"] for figures in found[device]),
    )  # fmt: skip


@contextmanager
def _running(device: Device, length: int, slots: int) -> Iterator[tuple[Ours | testpmd.Testpmd, Generator]]:
    """Let a device run on a course of its own."""
    with ExitStack() as stack:
        course = stack.enter_context(Course(max(1500, length + 200)))
        generator = Generator(course, length, tunnel=device.kind == "gateway")
        stack.callback(generator.close)
        under_test: Ours | testpmd.Testpmd
        if device.backend:
            under_test = Ours(course, device.kind, device.backend, slots)
        else:
            room = 2048 if length < 2000 else 8192
            under_test = testpmd.Testpmd(course, device.kind, room, slots)
        stack.callback(under_test.close)
        yield under_test, generator
