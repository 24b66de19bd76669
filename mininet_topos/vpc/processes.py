"""Run programs in nodes of the lab: `heddle` services, which print one JSON line when they are ready, and nginx."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from heddle.controller.model.error import PrerequisiteError

HEDDLE = (sys.executable, "-c", "from heddle.programs.console.start import main; main()")
PACKAGE_PARENT = str(Path(__file__).parents[3])
READY_S, STOP_S = 900.0, 10.0
"""The first gateway after an installation without `make setup` compiles its kernels, which takes minutes."""


class NodeProcess:
    """A process of the lab; it ends by `stop` or `kill`, or with the lab. Its standard error is its log."""

    def __init__(
        self,
        name: str,
        entrance: Sequence[str],
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        program: Sequence[str] = HEDDLE,
    ) -> None:
        """Start the process; `ready` waits for the ready line of a `heddle` service."""
        self.name, self._log, self._output = name, log, b""
        with log.open("ab") as errors:
            self._child = subprocess.Popen(
                [*entrance, *program, *arguments],
                env={**environment, "PYTHONPATH": PACKAGE_PARENT, "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Return the process id; a gateway's data process is a child of it."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._child.poll() is None

    def ready(self) -> dict[str, Any]:
        """Wait for the ready line and return it; raises PrerequisiteError with the last log line if it ends before."""
        assert self._child.stdout is not None
        deadline = time.monotonic() + READY_S
        while b"\n" not in self._output:
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([self._child.stdout], [], [], rest)[0]:
                raise PrerequisiteError(f"{self.name} was not ready within {READY_S:.0f} s: {self.last_log_line()}")
            piece = os.read(self._child.stdout.fileno(), 4096)
            if not piece:
                self._ended()
                raise PrerequisiteError(f"{self.name}: {self.last_log_line()}")
            self._output += piece
        line: dict[str, Any] = json.loads(self._output.split(b"\n", 1)[0])
        return line

    def log(self) -> str:
        """Return the log."""
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        """Send SIGTERM and wait; return the exit status."""
        self._child.terminate()
        return self._ended()

    def terminate(self) -> None:
        """Send SIGTERM without waiting; `close` waits."""
        if self.is_running:
            self._child.terminate()

    def close(self) -> None:
        """Wait for the end of the process and kill it after STOP_S; may be called again."""
        try:
            self._ended()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL to the process and its descendants."""
        for pid in (*_children(self._child.pid), self._child.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._ended()

    def _ended(self) -> int:
        if self._child.stdout is not None:
            self._child.stdout.close()
        return self._child.wait(STOP_S)

    def last_log_line(self) -> str:
        """Return the last line of the log."""
        return (self.log().strip().splitlines() or ["the log is empty"])[-1]


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found + [grandchild for child in found for grandchild in _children(child)]
