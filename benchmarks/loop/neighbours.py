"""A second client beside another that loads every port: idle, slow, flooding, and 10,000 SubmitJobs at once."""

import json
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from heddle.benchmarks.loop.world import TIMEOUT_S, World, pairs_job
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

LOADS = {"none": 0, "idle": 2_000, "slow": 200, "flood": 1, "submits": 10_000}
"""How much of each load, on each port."""
CALLS_S, MIN_CALLS = 10.0, 100
"""Each load lasts until both are reached: a percentile of few calls is their maximum."""
PAUSE_S = 0.01
LARGE_PAIRS, QUEUE_PAIRS = 800, 16
STOPPED_CALLS, STOPPED_S = 200, 10.0


@contextmanager
def loaded(world: World, kind: str, count: int) -> Iterator[None]:
    """Load the controller's ports from another process while the context lasts."""
    if not count:
        yield
        return
    controller = world.controller
    addresses = {"openflow": controller.openflow, "grpc": controller.grpc, "http": controller.http}
    command = [sys.executable, "-m", "tests.support.controllers.neighbours", kind, json.dumps(addresses), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        nics = world.fabric.nics
        process.stdin.write(json.dumps([nics[0].id, nics[-1].id]) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def calls(world: World, channel: grpc.Channel) -> dict[str, Callable[[int], object]]:
    """Return what the second client does, by name; each gets a number of its own."""
    jobs, fabric = rpc.JobServiceStub(channel), rpc.FabricServiceStub(channel)
    nics = world.fabric.nics
    ring = pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000)

    def submit(number: int) -> None:
        ranks = [nics[1].id, nics[-2].id]
        jobs.SubmitJob(pb.SubmitJobRequest(job_id=f"second-{number}", ranks=ranks, collectives=[ring]))

    return {
        "SubmitJob": submit,
        "GetJob": lambda number: jobs.GetJob(pb.GetJobRequest(job_id=f"second-{number}")),
        "ReleaseJob": lambda number: jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=f"second-{number}")),
        "GetTopology": lambda _: fabric.GetTopology(pb.GetTopologyRequest()),
        "GET /healthz": lambda _: urllib.request.urlopen(f"http://{world.controller.http}/healthz", timeout=TIMEOUT_S)
        .read(),
    }  # fmt: skip


def measured(world: World, kind: str, seconds: float = CALLS_S) -> dict[str, list[float]]:
    """Return the milliseconds of the second client's calls under one load; a call that fails ends the benchmark."""
    times_ms: dict[str, list[float]] = {}
    with loaded(world, kind, LOADS[kind]):
        channel = grpc.insecure_channel(world.controller.grpc, [("grpc.use_local_subchannel_pool", 1)])
        made = calls(world, channel)
        number, end = 0, time.monotonic() + seconds
        while time.monotonic() < end or number < MIN_CALLS:
            for name, call in made.items():
                began = time.monotonic()
                call(number)
                times_ms.setdefault(name, []).append((time.monotonic() - began) * 1e3)
                time.sleep(PAUSE_S)
            number += 1
        channel.close()
    return times_ms


def stopped(world: World) -> dict[str, float]:
    """Return by how many megabytes the controller grows while a stopped client does not read 200 replies of GetJob."""
    controller = world.controller
    controller.jobs.SubmitJob(pairs_job(world.fabric, 1, "large", LARGE_PAIRS, QUEUE_PAIRS, "SOURCE_PORT"))
    before_mb = _resident_mb(controller.process.pid)
    command = [
        sys.executable,
        "-m",
        "tests.support.controllers.stopped_client",
        controller.grpc,
        str(STOPPED_CALLS),
        "large",
    ]
    with subprocess.Popen(command) as client:
        time.sleep(STOPPED_S)
        grown_mb = _resident_mb(controller.process.pid) - before_mb
        client.kill()
    return {"flows": LARGE_PAIRS * QUEUE_PAIRS, "calls": STOPPED_CALLS, "grown_mb": grown_mb}


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
