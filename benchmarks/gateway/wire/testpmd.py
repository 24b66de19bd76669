"""DPDK's testpmd in the same place: plain forwarding ("io" mode), with AF_PACKET rings or with AF_XDP.

Where `dpdk-testpmd` is not on the path, HEDDLE_TESTPMD may name it; without either its rows are left out, and said so.
"""

import os
import re
import select
import shutil
import subprocess
import time

from benchmarks.gateway.wire.course import EGRESS, INGRESS, Course
from benchmarks.gateway.wire.drain import DEVICE_CPU, GENERATOR_CPU, Books

PROMPT = "testpmd> "
ANSWER_S = 15.0
AF_XDP_FRAMES, AF_XDP_BYTES = 2_000, 1_900
"""What its AF_XDP port takes: a ring of 2,048 frames whatever is asked for, and no frame in more than one piece."""
_ACCUMULATED = re.compile(
    r"Accumulated forward statistics"
    r".*?RX-packets: (\d+) +RX-dropped: (\d+).*?TX-packets: (\d+) +TX-dropped: (\d+)",
    re.DOTALL,
)


def program() -> str | None:
    """Return the program, None where there is none."""
    return os.environ.get("HEDDLE_TESTPMD") or shutil.which("dpdk-testpmd")


def books(said: str) -> Books:
    """Return what it counted, from what it says when it stops; raises RuntimeError where it says nothing of it."""
    found = _ACCUMULATED.search(said)
    if found is None:
        raise RuntimeError(f"testpmd: no statistics in {said[-200:]!r}")
    received, missed, transmitted, dropped = (int(figure) for figure in found.groups())
    return Books(received=received, missed=missed, transmitted=transmitted, dropped=dropped)


def _devices(kind: str, frame_bytes: int, slots: int) -> list[str]:
    if kind == "net_af_packet":
        tail = f",blocksz=262144,framesz={frame_bytes},framecnt={slots},qdisc_bypass=1"
        return [f"--vdev=net_af_packet{n},iface={name}{tail}" for n, name in enumerate((INGRESS, EGRESS))]
    return [f"--vdev=net_af_xdp{n},iface={name},force_copy=1" for n, name in enumerate((INGRESS, EGRESS))]


class Testpmd:
    """A testpmd at its prompt. The thread that forwards has the device's core, its prompt the generator's."""

    def __init__(self, course: Course, kind: str, frame_bytes: int, slots: int) -> None:
        name = program()
        assert name is not None
        words = [name, "--no-huge", "-m", "1024", "--no-pci", "--no-telemetry"]
        words += ["--file-prefix", f"hb{os.getpid()}_{course.device.pid}"]
        words += ["-l", f"{GENERATOR_CPU},{DEVICE_CPU}", "--main-lcore", str(GENERATOR_CPU)]
        words += [*_devices(kind, frame_bytes, slots), "--", "-i", "--forward-mode=io", "--nb-cores=1"]
        words += ["--no-flush-rx", "--burst=64"]  # what waits is what is measured
        words += ["--total-num-mbufs=65536", f"--mbuf-size={max(2176, frame_bytes + 128)}"]
        self._said, terminal = os.openpty()  # to a pipe it would write by the block, and its prompt out of turn
        self._child = subprocess.Popen(
            [*course.device.entrance, *words], stdin=subprocess.PIPE, stdout=terminal, stderr=terminal,
            start_new_session=True, bufsize=0,
        )  # fmt: skip
        os.close(terminal)
        try:
            self._prompt()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def begin(self) -> None:
        self._say("start")  # it forwards before it says so

    def end(self) -> Books:
        self._prompt()
        self._say("stop")
        return books(self._prompt())

    def close(self) -> None:
        """End it, whether it forwards or not."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        deadline = time.monotonic() + ANSWER_S
        while self._child.poll() is None:
            if time.monotonic() > deadline:
                self._child.kill()
            self._read(0.1)
        os.close(self._said)

    def _say(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())

    def _prompt(self) -> str:
        """Read what it says until its prompt; raises RuntimeError with its last line where it ends or hangs instead.

        All of it is read, always: what nobody reads would stop it in the end.
        """
        said, deadline = "", time.monotonic() + ANSWER_S
        while not said.endswith(PROMPT):
            said += self._read(0.1)
            if time.monotonic() > deadline or self._child.poll() is not None:
                raise RuntimeError(f"testpmd: {said.strip().splitlines()[-1] if said.strip() else 'said nothing'}")
        return said

    def _read(self, at_most_s: float) -> str:
        waiting, _, _ = select.select([self._said], [], [], at_most_s)
        try:
            return os.read(self._said, 1 << 16).decode(errors="replace") if waiting else ""
        except OSError:  # it has ended
            return ""
