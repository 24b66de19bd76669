"""The drain: a device's ring is filled while it looks away; then it forwards what waits, and its processor time counts.

It measures the device alone: the generator is done before it begins, and what else the machine does costs it no
processor time of its own.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.wire.course import Course, pinned

GENERATOR_CPU, DEVICE_CPU = 0, 1
FRAMES, SLOTS = 4_000, 8_192
"""What waits for a drain, and the room for it: AF_XDP needs two descriptors for each frame of 4,200 bytes."""


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

    def __init__(self, course: Course, length: int, *, tunnel: bool = False) -> None:
        words = ["g0", str(length), *(["tunnel"] if tunnel else [])]
        super().__init__(course.generator.entrance, "benchmarks.wire.traffic", *words, cpu=GENERATOR_CPU)

    def send(self, count: int, rate: float = 0.0) -> dict[str, Any]:
        """Send, and wait until all has left."""
        self.tell(f"{count} {rate}")
        return self.answer()


class Ours(Child):
    """Our own device of one kind."""

    def __init__(self, course: Course, kind: str, backend: str, slots: int = SLOTS) -> None:
        super().__init__(course.device.entrance, "benchmarks.wire.ours", kind, backend, str(slots), cpu=DEVICE_CPU)
        self._course = course

    def drained(self, generator: Generator, frames: int = FRAMES) -> dict[str, Any]:
        """Return what it needed for so many frames."""
        before = self._course.received()
        sent = generator.send(frames)
        self.tell("go")
        found = self.answer()
        return {**found, "sunk": self._course.received() - before, "sent": sent["sent"]}
