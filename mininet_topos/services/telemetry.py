"""The telemetry of a lab, as the closed loop needs it: a broker, and an agent that reads the lab's counters."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.priorities import TELEMETRY_NICENESS, set_niceness
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.services.controller_process import running
from heddle.mininet_topos.services.loopback import reserved_port

PERIOD_MS = 100
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
_PROGRAM = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


def why_no_broker() -> str | None:
    """Return why no broker can run here; None if one can."""
    return None if Path(_PROGRAM).exists() else "the MQTT broker mosquitto is not installed (scripts/setup demo)"


@contextmanager
def lab_telemetry(lab: Lab) -> Iterator[str]:
    """Run a broker on loopback and an agent for the lab's switches and NICs, for the block; yield the config for them.

    The text is a part of the config file of `heddle run`.
    """
    entry = entry_of(lab.id)
    directory, environment = entry.directory, entry.environment
    with reserved_port() as port, _broker(port, directory, environment):
        command = [sys.executable, "-m", "heddle.programs.console.main", "agent", "--fabric", lab.fabric.name]
        command += ["--source", "emulated", "--lab", str(directory)]
        command += ["--broker", f"127.0.0.1:{port}", "--period", f"{PERIOD_MS}ms"]
        with running("the telemetry agent", command, directory / "agent.log", environment):
            yield f"telemetry: {{broker: '127.0.0.1:{port}', period_ms: {PERIOD_MS}}}\n"


@contextmanager
def _broker(port: int, directory: Path, environment: Mapping[str, str]) -> Iterator[None]:
    config = directory / "mosquitto.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nset_tcp_nodelay true\n")
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", _PROGRAM, "-c", str(config)],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    set_niceness(process.pid, TELEMETRY_NICENESS)
    try:
        _await_broker(process, port)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_broker(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise PrerequisiteError("the MQTT broker mosquitto did not start") from None
            time.sleep(0.02)
