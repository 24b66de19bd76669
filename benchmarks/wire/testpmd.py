"""DPDK's testpmd in the same place: plain forwarding ("io" mode), with AF_PACKET rings or with AF_XDP.

Where `dpdk-testpmd` is not on the path, HEDDLE_TESTPMD may name it; without either its rows are left out, and said so.
"""

import os
import shutil
import signal
import subprocess
import time
from typing import Any

from benchmarks.wire.course import EGRESS, INGRESS, Course
from benchmarks.wire.drain import DEVICE_CPU, FRAMES, GENERATOR_CPU, SLOTS, Generator
from benchmarks.wire.processor import process_time_ns, soft_time_ns

QUIET_S = 0.1
START_S = 15.0


def program() -> str | None:
    """Return the program, None where there is none."""
    return os.environ.get("HEDDLE_TESTPMD") or shutil.which("dpdk-testpmd")


def _devices(kind: str, frame_bytes: int, slots: int) -> list[str]:
    if kind == "net_af_packet":
        tail = f",blocksz=262144,framesz={frame_bytes},framecnt={slots},qdisc_bypass=1"
        return [f"--vdev=net_af_packet{n},iface={name}{tail}" for n, name in enumerate((INGRESS, EGRESS))]
    return [f"--vdev=net_af_xdp{n},iface={name},force_copy=1" for n, name in enumerate((INGRESS, EGRESS))]


class Testpmd:
    """A testpmd at its prompt; `start` lets it forward."""

    def __init__(self, course: Course, kind: str, frame_bytes: int = 2048, slots: int = SLOTS) -> None:
        name = program()
        assert name is not None
        words = [
            name,
            "--no-huge",
            "-m",
            "1024",
            "--no-pci",
            "--no-telemetry",
            "--file-prefix",
            f"hb{os.getpid()}_{course.device.pid}",
        ]
        words += ["-l", f"{GENERATOR_CPU},{DEVICE_CPU}", "--main-lcore", str(GENERATOR_CPU)]
        words += [*_devices(kind, frame_bytes, slots), "--", "-i", "--forward-mode=io", "--nb-cores=1"]
        words += ["--no-flush-rx", "--burst=64"]  # what waits is what is measured
        words += ["--total-num-mbufs=65536", f"--mbuf-size={max(2176, frame_bytes + 128)}"]
        self._course = course
        self._child = subprocess.Popen(
            [*course.device.entrance, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self._await("testpmd> ")

    def say(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()

    def drained(self, generator: Generator, frames: int = FRAMES) -> dict[str, Any]:
        """Fill its ring, let it forward, and return what that cost: the whole process, until the last frame."""
        sent, before = generator.send(frames), self._course.received()
        self.say("start")
        figures = self._watch(before)
        self.say("stop")
        return {**figures, "sent": sent["sent"]}

    def _watch(self, before: int) -> dict[str, Any]:
        """Sample frames and processor time while frames come: from the first sample that has some to the last."""
        samples: list[tuple[int, int]] = []
        soft_ns, quiet_since = 0, time.perf_counter()
        while time.perf_counter() - quiet_since < QUIET_S or (not samples and time.perf_counter() - quiet_since < 5):
            frames, used = self._course.received() - before, process_time_ns(self._child.pid)
            if frames and (not samples or frames != samples[-1][0]):
                soft_ns = soft_ns or soft_time_ns(DEVICE_CPU)
                samples.append((frames, used))
                quiet_since = time.perf_counter()
        if len(samples) < 2:
            return {"frames": 0, "cpu_ns": 0, "sunk": samples[-1][0] if samples else 0}
        soft_ns = soft_time_ns(DEVICE_CPU) - soft_ns
        return {
            "frames": samples[-1][0] - samples[0][0], "cpu_ns": samples[-1][1] - samples[0][1] + soft_ns,
            "soft_ns": soft_ns, "sunk": samples[-1][0],
        }  # fmt: skip

    def close(self) -> None:
        self.say("quit")
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.send_signal(signal.SIGTERM)
            self._child.wait(10)

    def _await(self, prompt: str) -> None:
        """Read what it says until its prompt; raises RuntimeError with its last line where it ends instead."""
        assert self._child.stdout is not None
        said, deadline = "", time.monotonic() + START_S
        while prompt not in said:
            piece = self._child.stdout.read(1)
            if not piece or time.monotonic() > deadline:
                raise RuntimeError(f"testpmd: {said.strip().splitlines()[-1] if said.strip() else 'said nothing'}")
            said += piece
