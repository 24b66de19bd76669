"""The drain: a device's ring is filled while it looks away; then it forwards what waits, and its processor time counts.

It measures the device alone: the generator is done before it begins, and what else the machine does costs it no
processor time of its own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.gateway.wire.course import Course, pinned
from benchmarks.gateway.wire.processor import DeviceClock
from benchmarks.gateway.wire.watching import QUIET_S, cost, watch

GENERATOR_CPU, DEVICE_CPU = 0, 1


class Child:
    """A module of ours as a process on one core: a line in, a JSON line out."""

    def __init__(self, entrance: Sequence[str], module: str, *words: str, cpu: int) -> None:
        command = [*entrance, *pinned(cpu, [sys.executable, "-m", module, *words])]
        self._name = " ".join((module, *words))
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        if self._child.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self._name} did not come up")

    @property
    def pid(self) -> int:
        return self._child.pid

    def tell(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()

    def answer(self) -> dict[str, Any]:
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
    """The sender of one length of frame."""

    def __init__(self, course: Course, length: int, form: str) -> None:
        super().__init__(
            course.generator.entrance, "benchmarks.gateway.wire.traffic", "g0", str(length), form, cpu=GENERATOR_CPU
        )

    def send(self, count: int, rate: float = 0.0) -> dict[str, Any]:
        """Send, and wait until all has left."""
        self.tell(f"{count} {rate}")
        return self.answer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Where frames went, as the device itself counted."""

    received: int
    missed: int
    """It had no room for them, and says so."""
    transmitted: int
    dropped: int
    """And counted, by itself."""
    why: dict[str, int] = field(default_factory=dict)


def demand_whole(name: str, sent: int, sunk: int, books: Books) -> None:
    """Raise RuntimeError where the books do not agree: sent, received, transmitted, dropped, arrived at the sink."""
    if sent != books.received + books.missed:
        raise RuntimeError(f"{name}: of {sent} sent some were neither received nor missed: {books}")
    if books.received != books.transmitted + books.dropped:
        raise RuntimeError(f"{name}: what was received was neither sent on nor dropped: {books}")
    if sunk != books.transmitted:
        raise RuntimeError(f"{name}: {sunk} came to the sink, which is not what left: {books}")
    if not books.transmitted:
        raise RuntimeError(f"{name}: no frame came through: {books}")


class UnderTest(Protocol):
    """A device in user space; all but Open vSwitch can have their rings filled while they do not forward."""

    @property
    def pid(self) -> int:
        """The process whose time counts."""

    def begin(self) -> None:
        """Forward."""

    def end(self) -> Books:
        """Forward no longer, and tell the books since `begin`."""

    def close(self) -> None:
        """End."""


class Ours(Child):
    """Our own device of one kind."""

    def __init__(self, course: Course, kind: str, backend: str, slots: int) -> None:
        super().__init__(
            course.device.entrance, "benchmarks.gateway.wire.ours", kind, backend, str(slots), cpu=DEVICE_CPU
        )

    def begin(self) -> None:
        self.tell("go")

    def end(self) -> Books:
        self.tell("stop")
        return Books(**self.answer())


@dataclass(frozen=True, slots=True)
class Measured:
    """So many frames at once."""

    own_ns: float | None
    """What a frame cost the device; None where the watcher was held up too often to say."""
    delivery_ns: float
    """What it cost the generator's core: to send it, and to copy_in it as far as the device's ring."""
    soft_share: float
    """Of the device's processor time, what was spent in the thread for soft interrupts."""
    sent: int
    sunk: int
    books: Books | None


@dataclass(frozen=True, slots=True)
class Lane:
    """A device on its course, with what is needed to measure it."""

    course: Course
    device: UnderTest | None
    clock: DeviceClock | None
    """Neither is there where the kernel forwards."""
    generator: Generator
    generator_clock: DeviceClock

    def drained(self, frames: int) -> Measured:
        """Fill the device's ring, let it forward, and watch."""
        assert self.device is not None
        assert self.clock is not None
        before = self.course.received()
        sent, delivery_ns = self._send(frames)
        own, soft = self.clock.own_ns(), self.clock.soft_ns()
        self.device.begin()
        samples, sunk = watch(lambda: self.course.received() - before, self.clock, sent)
        own, soft = self.clock.own_ns() - own, self.clock.soft_ns() - soft
        books, found = self.device.end(), cost(samples, sunk)
        sunk = self.course.received() - before
        return Measured(found.ns if found else None, delivery_ns, soft / max(own + soft, 1), sent, sunk, books)

    def flooded(self, frames: int) -> Measured:
        """Send to a device that sleeps where there is nothing to do, and ask what all of it cost in the end."""
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
        """Send through the kernel, which has forwarded when it has been sent."""
        before = self.course.received()
        sent, delivery_ns = self._send(frames)
        return Measured(0.0, delivery_ns, 0.0, sent, self.course.received() - before, None)

    def _send(self, frames: int) -> tuple[int, float]:
        """Send so many; return how many left, and the nanoseconds of the generator's core that each cost."""
        used = self.generator_clock()
        sent = int(self.generator.send(frames)["sent"])
        return sent, (self.generator_clock() - used) / max(sent, 1)
