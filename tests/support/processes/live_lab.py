"""A lab of `heddle lab fabric` and its workloads as processes, as from two terminals. Needs root."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LAB = (sys.executable, "-m", "heddle.programs.console.main", "lab")
BUSY = 0.5


def read(url: str) -> str:
    """Return what the controller serves."""
    with urllib.request.urlopen(url) as reply:
        return str(reply.read().decode())


def fullest(url: str) -> float:
    """Return the measured utilisation of the fullest link, 0 before the first measurement."""
    return max(load or 0.0 for load in json.loads(read(url + "/api/state"))["links"]["utilisation"] or [0.0])


@contextmanager
def lab(name: str) -> Iterator[dict[str, Any]]:
    """Run `heddle lab fabric` while the context lasts, and yield its line of addresses."""
    process = subprocess.Popen((*LAB, "fabric", "--json", "--name", name), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def traffic(name: str, url: str, *words: str) -> Iterator[None]:
    """Run a workload in the lab of a name while the context lasts, from when its bytes are measured."""
    process = subprocess.Popen((*LAB, "traffic", *words, "--name", name), stdout=subprocess.DEVNULL)
    try:
        while fullest(url) < BUSY:
            assert process.poll() is None
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(60)
