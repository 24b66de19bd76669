"""The drain measurement: fill a device's ring while it does not forward, then let it forward and take its CPU time.

This measures the device alone: the generator has finished before it starts, and other load of the machine is not part
of its processor time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from heddle.benchmarks.gateway.wire.course import Course, pinned
from heddle.benchmarks.gateway.wire.processor import DeviceClock
from heddle.benchmarks.gateway.wire.watching import QUIET_S, cost, watch

GENERATOR_CPU, DEVICE_CPU = 0, 1


class Child:
    """A Python module as a process on one core; it reads lines and replies with JSON lines."""

    def __init__(self, entrance: Sequence[str], module: str, *words: str, cpu: int) -> None:
        command = [*entrance, *pinned(cpu, [sys.executable, "-m", module, *words])]
        self._name = " ".join((module, *words))
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        if self._child.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self._name} did not start")

    @property
    def pid(self) -> int:
        return self._child.pid

    def send_line(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()

    def reply(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.terminate()
            self._child.wait(10)


class Generator(Child):
    """The process that sends frames of one length."""

    def __init__(self, course: Course, length: int, form: str) -> None:
        super().__init__(
            course.generator.entrance,
            "heddle.benchmarks.gateway.wire.traffic",
            "g0",
            str(length),
            form,
            cpu=GENERATOR_CPU,
        )

    def send(self, count: int, rate: float = 0.0) -> dict[str, Any]:
        """Send frames and wait until all have left."""
        self.send_line(f"{count} {rate}")
        return self.reply()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """The device's own counts of frames."""

    received: int
    missed: int
    """Frames that found its ring full."""
    transmitted: int
    dropped: int
    """Frames that it dropped and counted."""
    why: dict[str, int] = field(default_factory=dict)


def check_accounting(name: str, sent: int, sunk: int, accounting: Accounting) -> None:
    """Raise RuntimeError unless every sent frame was missed, dropped, or transmitted and received by the sink."""
    if sent != accounting.received + accounting.missed:
        raise RuntimeError(f"{name}: of {sent} sent frames some are neither received nor missed: {accounting}")
    if accounting.received != accounting.transmitted + accounting.dropped:
        raise RuntimeError(f"{name}: received frames are neither transmitted nor dropped: {accounting}")
    if sunk != accounting.transmitted:
        raise RuntimeError(f"{name}: the sink received {sunk}, not the transmitted number: {accounting}")
    if not accounting.transmitted:
        raise RuntimeError(f"{name}: no frame was forwarded: {accounting}")


class UnderTest(Protocol):
    """A user-space device; the rings of all but Open vSwitch can be filled while they do not forward."""

    @property
    def pid(self) -> int:
        """The process whose CPU time is measured."""

    def begin(self) -> None:
        """Start forwarding."""

    def end(self) -> Accounting:
        """Stop forwarding and return the counts since `begin`."""

    def close(self) -> None:
        """End the process."""


class Ours(Child):
    """Our own device."""

    def __init__(self, course: Course, kind: str, backend: str, slots: int) -> None:
        super().__init__(
            course.device.entrance, "heddle.benchmarks.gateway.wire.ours", kind, backend, str(slots), cpu=DEVICE_CPU
        )

    def begin(self) -> None:
        self.send_line("go")

    def end(self) -> Accounting:
        self.send_line("stop")
        return Accounting(**self.reply())


@dataclass(frozen=True, slots=True)
class Measured:
    """The result for one batch of frames."""

    own_ns: float | None
    """CPU time of the device per frame; None if the samples were disturbed too often."""
    delivery_ns: float
    """CPU time of the generator's core per frame: sending it, and delivery into the device's ring."""
    soft_share: float
    """The share of the device's CPU time that was spent in ksoftirqd."""
    sent: int
    sunk: int
    accounting: Accounting | None


@dataclass(frozen=True, slots=True)
class Lane:
    """A device on its test topology, with generator and clocks."""

    course: Course
    device: UnderTest | None
    clock: DeviceClock | None
    """Device and clock are None where the kernel forwards."""
    generator: Generator
    generator_clock: DeviceClock

    def drained(self, frames: int) -> Measured:
        """Fill the device's ring, start forwarding, and sample."""
        assert self.device is not None
        assert self.clock is not None
        before = self.course.received()
        sent, delivery_ns = self._send(frames)
        own, soft = self.clock.own_ns(), self.clock.soft_ns()
        self.device.begin()
        samples, sunk = watch(lambda: self.course.received() - before, self.clock, sent)
        own, soft = self.clock.own_ns() - own, self.clock.soft_ns() - soft
        accounting, found = self.device.end(), cost(samples, sunk)
        sunk = self.course.received() - before
        return Measured(found.ns if found else None, delivery_ns, soft / max(own + soft, 1), sent, sunk, accounting)

    def flooded(self, frames: int) -> Measured:
        """Send to a device that sleeps where there is nothing to do, and read its total cost at the end."""
        assert self.clock is not None
        before, own, soft = self.course.received(), self.clock.own_ns(), self.clock.soft_ns()
        sent, delivery_ns = self._send(frames)
        sunk, last = self.course.received() - before, -1
        while sunk != last:
            time.sleep(QUIET_S)
            last, sunk = sunk, self.course.received() - before
        own, soft = self.clock.own_ns() - own, self.clock.soft_ns() - soft
        each = (own + soft) / sunk if sunk else None
        return Measured(each, delivery_ns, soft / max(own + soft, 1), sent, sunk, None)

    def passed(self, frames: int) -> Measured:
        """Send through the kernel, which forwards within the send call."""
        before = self.course.received()
        sent, delivery_ns = self._send(frames)
        return Measured(0.0, delivery_ns, 0.0, sent, self.course.received() - before, None)

    def _send(self, frames: int) -> tuple[int, float]:
        """Send frames; return the number sent, and the generator's CPU time for each in nanoseconds."""
        used = self.generator_clock()
        sent = int(self.generator.send(frames)["sent"])
        return sent, (self.generator_clock() - used) / max(sent, 1)
