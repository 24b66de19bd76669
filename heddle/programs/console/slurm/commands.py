"""Run Slurm's commands with a limit of time and of output: one that hangs, or prints without end, is one error."""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import PrerequisiteError, UnavailableError

TIMEOUT_S = 60.0
"""A slurmctld with many nodes takes seconds to be reconfigured; Slurm's own commands give up later, if at all."""
MAX_BYTES = 64 << 20
MAX_ERROR_LENGTH = 200


def run_slurm(*command: str, timeout_s: float = TIMEOUT_S) -> str:
    """Return the standard output of a command of Slurm.

    Raises UnavailableError where it fails, prints too much or takes too long, PrerequisiteError where it is not found.
    """
    with TemporaryFile() as errors:
        content, status = _run(command, errors.fileno(), timeout_s)
        errors.seek(0)
        said = errors.read(MAX_ERROR_LENGTH).decode(errors="replace").strip()
    if status is None or len(content) > MAX_BYTES:
        why = f"no end within {timeout_s:g} s" if status is None else f"more than {MAX_BYTES >> 20} MiB of output"
        raise UnavailableError(f"{' '.join(command[:2])}: {why}")
    if status:
        raise UnavailableError(one_line(f"{' '.join(command[:2])}: exit status {status}: {said or 'it says no more'}"))
    return content.decode(errors="replace")


def _run(command: Sequence[str], errors: int, timeout_s: float) -> tuple[bytes, int | None]:
    """Return the output, at most a byte more than MAX_BYTES, and the exit status; None where time was up."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    except OSError as error:
        where = "run this where Slurm's commands are on the PATH"
        raise PrerequisiteError(f"{command[0]}: {error.strerror}: {where}") from None
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        _kill(process)

    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True  # the agent may end while a command hangs
    timer.start()
    with process:
        assert process.stdout is not None
        content = process.stdout.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            _kill(process)
        status = process.wait()
    timer.cancel()
    return content, None if expired.is_set() else status


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
