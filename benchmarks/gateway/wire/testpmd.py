"""DPDK's testpmd as device under test: plain forwarding ("io" mode), on AF_PACKET rings or AF_XDP.

HEDDLE_TESTPMD names `dpdk-testpmd` if it is not on PATH. Without it, its rows are left out with a note.
"""

import os
import re
import select
import shutil
import subprocess
import time

from heddle.benchmarks.gateway.wire.course import EGRESS, INGRESS, Course
from heddle.benchmarks.gateway.wire.drain import DEVICE_CPU, GENERATOR_CPU, Accounting

PROMPT = "testpmd> "
REPLY_TIMEOUT_S = 15.0
AF_XDP_FRAMES, AF_XDP_BYTES = 2_000, 1_900
"""Limits of its AF_XDP port: a fixed ring of 2,048 frames, and no frame in several buffers."""
_ACCUMULATED = re.compile(
    r"Accumulated forward statistics"
    r".*?RX-packets: (\d+) +RX-dropped: (\d+).*?TX-packets: (\d+) +TX-dropped: (\d+)",
    re.DOTALL,
)


def program() -> str | None:
    """Return the path of the program, None if not installed."""
    return os.environ.get("HEDDLE_TESTPMD") or shutil.which("dpdk-testpmd")


def accounting(output: str) -> Accounting:
    """Parse the statistics that it prints when it stops; raises RuntimeError if they are missing."""
    found = _ACCUMULATED.search(output)
    if found is None:
        raise RuntimeError(f"testpmd: no statistics in {output[-200:]!r}")
    received, missed, transmitted, dropped = (int(figure) for figure in found.groups())
    return Accounting(received=received, missed=missed, transmitted=transmitted, dropped=dropped)


def _devices(kind: str, frame_bytes: int, slots: int) -> list[str]:
    if kind == "net_af_packet":
        tail = f",blocksz=262144,framesz={frame_bytes},framecnt={slots},qdisc_bypass=1"
        return [f"--vdev=net_af_packet{n},iface={name}{tail}" for n, name in enumerate((INGRESS, EGRESS))]
    return [f"--vdev=net_af_xdp{n},iface={name},force_copy=1" for n, name in enumerate((INGRESS, EGRESS))]


class Testpmd:
    """An interactive testpmd; its forwarding thread runs on the device's core, its prompt on the generator's."""

    def __init__(self, course: Course, kind: str, frame_bytes: int, slots: int) -> None:
        name = program()
        assert name is not None
        words = [name, "--no-huge", "-m", "1024", "--no-pci", "--no-telemetry"]
        words += ["--file-prefix", f"hb{os.getpid()}_{course.device.pid}"]
        words += ["-l", f"{GENERATOR_CPU},{DEVICE_CPU}", "--main-lcore", str(GENERATOR_CPU)]
        words += [*_devices(kind, frame_bytes, slots), "--", "-i", "--forward-mode=io", "--nb-cores=1"]
        words += ["--no-flush-rx", "--burst=64"]  # measure the frames that are waiting
        words += ["--total-num-mbufs=65536", f"--mbuf-size={max(2176, frame_bytes + 128)}"]
        self._output, terminal = os.openpty()  # a pipe would make it buffer its output, and delay the prompt
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
        self._command("start")  # it forwards before it prints that

    def end(self) -> Accounting:
        self._prompt()
        self._command("stop")
        return accounting(self._prompt())

    def close(self) -> None:
        """Stop the process, also while it forwards."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while self._child.poll() is None:
            if time.monotonic() > deadline:
                self._child.kill()
            self._read(0.1)
        os.close(self._output)

    def _command(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())

    def _prompt(self) -> str:
        """Read the output up to its prompt; raises RuntimeError with the last line if it ends or hangs.

        The whole output must be read: a full terminal buffer would block the process.
        """
        output, deadline = "", time.monotonic() + REPLY_TIMEOUT_S
        while not output.endswith(PROMPT):
            output += self._read(0.1)
            if time.monotonic() > deadline or self._child.poll() is not None:
                raise RuntimeError(f"testpmd: {output.strip().splitlines()[-1] if output.strip() else 'no output'}")
        return output

    def _read(self, timeout_s: float) -> str:
        waiting, _, _ = select.select([self._output], [], [], timeout_s)
        try:
            return os.read(self._output, 1 << 16).decode(errors="replace") if waiting else ""
        except OSError:  # the process has ended
            return ""
