"""Run a lab's controller, `heddle run`, and other programs that report when they are ready, as processes."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.priorities import TELEMETRY_NICENESS, set_niceness
from heddle.mininet_topos.services.loopback import ANY_PORT

CONTROLLER = (sys.executable, "-m", "heddle.programs.console.main")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 2.0


@contextmanager
def running_controller(
    fabric_text: str,
    directory: Path,
    environment: Mapping[str, str],
    config_text: str = "",
    *,
    grpc: str = ANY_PORT,
    http: str = ANY_PORT,
) -> Iterator[dict[str, str]]:
    """Run a controller on loopback, by default on free ports, for the block; yield its addresses by name.

    It ends with the block, with this process however that ends, and with the lab whose tag is in `environment`. Its log
    is in `directory`. Raises PrerequisiteError if it does not start.
    """
    fabric_file, log = directory / "fabric.yaml", directory / "controller.log"
    fabric_file.write_text(fabric_text, encoding="utf-8")
    config_file = directory / "heddle.yaml"
    config_file.write_text(config_text, encoding="utf-8")
    command = [*CONTROLLER, "run", str(fabric_file)]
    command += ["--openflow", ANY_PORT, "--grpc", grpc, "--http", http]
    command += ["--state", "none"]
    if config_text:
        command += ["--config", str(config_file)]
    with running("the controller", command, log, environment) as ready:
        yield ready


@contextmanager
def running(name: str, command: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Run a program that prints a line of JSON when it is ready, for the block; yield that line's values.

    It has the priority of telemetry, since in a real fabric it does not compete with NICs and switches for processors.
    It ends with the block and with this process. Raises PrerequisiteError if it does not start.
    """
    package_parent = str(Path(__file__).parents[3])
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            env={**environment, "PYTHONPATH": package_parent, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    set_niceness(process.pid, TELEMETRY_NICENESS)
    try:
        yield _ready(name, process, log)
    finally:
        _stop(process)


def _ready(name: str, process: "subprocess.Popen[bytes]", log: Path) -> dict[str, str]:
    """Read the line of JSON that a program prints when it is ready."""
    assert process.stdout is not None
    text, deadline = b"", time.monotonic() + START_TIMEOUT_S
    while b"\n" not in text:
        rest = deadline - time.monotonic()
        if rest <= 0 or not select.select([process.stdout], [], [], rest)[0]:
            raise PrerequisiteError(f"{name} was not ready within {START_TIMEOUT_S:.0f} s{_last_log_line(log)}")
        chunk = os.read(process.stdout.fileno(), 4096)
        if not chunk:
            raise PrerequisiteError(f"{name} did not start (status {process.wait()}){_last_log_line(log)}")
        text += chunk
    found: dict[str, str] = json.loads(text.split(b"\n", 1)[0])
    return found


def _last_log_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return f": {lines[-1]}" if lines else ""


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Terminate the process; kill it if it does not end within `STOP_TIMEOUT_S`."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
