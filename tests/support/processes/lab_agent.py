"""Run `heddle agent` as a process on a lab."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from heddle.mininet_topos.lab import Lab


@contextmanager
def lab_agent(lab: Lab, fabric: str, broker_port: int, period: str) -> Iterator[None]:
    """Sample a lab's switches and NICs while the context lasts."""
    command = [
        sys.executable,
        "-m",
        "heddle.programs.console.main",
        "agent",
        "--fabric",
        fabric,
        "--source",
        "emulated",
    ]
    command += ["--lab", str(lab.counters_directory.parent), "--broker", f"127.0.0.1:{broker_port}"]
    agent = subprocess.Popen([*command, "--period", period], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        assert json.loads(agent.stdout.readline())["ready"]
        yield
    finally:
        agent.terminate()
        agent.communicate(timeout=20)
