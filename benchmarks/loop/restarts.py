"""A controller is killed and starts again on its journal: when it serves, and when its switches are reconciled."""

import os
import random
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from heddle.benchmarks.loop.admission import ring
from heddle.benchmarks.loop.world import TIMEOUT_S, World
from heddle.v1 import heddle_pb2 as pb

POLL_S = 0.02
QUIET_S = 2.0


class Restart(NamedTuple):
    """Milliseconds from the kill to the first line of the next controller, and from the last Hello to reconciled."""

    jobs: int
    ready_ms: float
    reconciled_ms: float
    processor_ms: float
    """The controller's processor time from ready to connected."""
    changes: int


def measured(world: World, seed: int, jobs: int, rounds: int) -> list[Restart]:
    """Submit jobs, then kill and restart the controller several times."""
    fill(world, seed, jobs)
    return [_restarted(world) for _ in range(rounds)]


def fill(world: World, seed: int, jobs: int) -> None:
    """Submit jobs of rings of two NICs, which some jobs share."""
    nics = [nic.id for nic in world.fabric.nics]
    random.Random(seed).shuffle(nics)
    left: list[str] = []
    for number in range(jobs):
        left = left if len(left) >= 2 else list(nics)
        world.controller.jobs.SubmitJob(ring(left, f"job-{number}"))


def _restarted(world: World) -> Restart:
    time.sleep(QUIET_S)
    before, began = world.switches.changes(), time.monotonic()
    running = world.restart()
    ready = time.monotonic()
    used_s = _processor_s(running.process.pid)
    _wait_for(running.http, f"heddle_switches_connected {len(world.fabric.switches)}\n")
    connected = time.monotonic()
    used_s = _processor_s(running.process.pid) - used_s
    time.sleep(QUIET_S)
    reply = running.jobs.ListJobs(pb.ListJobsRequest())
    found = len(reply.jobs)
    while reply.next_page_token:
        reply = running.jobs.ListJobs(pb.ListJobsRequest(page_token=reply.next_page_token))
        found += len(reply.jobs)
    last = max(connected, world.switches.last_change())
    return Restart(
        jobs=found,
        ready_ms=(ready - began) * 1e3,
        reconciled_ms=(last - world.switches.last_hello()) * 1e3,
        processor_ms=used_s * 1e3,
        changes=world.switches.changes() - before,
    )


def _wait_for(http: str, line: str) -> None:
    """Wait until /metrics has a line: a topology of this size takes the controller a tenth of a second."""
    end = time.monotonic() + TIMEOUT_S
    while True:
        with urllib.request.urlopen(f"http://{http}/metrics", timeout=TIMEOUT_S) as reply:
            if line in reply.read().decode():
                return
        if time.monotonic() > end:
            raise TimeoutError(f"no {line.strip()}")
        time.sleep(POLL_S)


def _processor_s(process: int) -> float:
    """Return the processor time of a process (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
