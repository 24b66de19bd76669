"""Cables fail while several callers preview large jobs: the time to new paths, and that of a health call."""

import threading
import time
from typing import NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from heddle.benchmarks.loop.failures import Failure, measured
from heddle.benchmarks.loop.world import TIMEOUT_S, World
from heddle.v1 import heddle_pb2 as pb

CALLERS = 2
FLOWS = 50_000


class BesidePreviews(NamedTuple):
    """The failures, the milliseconds of each health call, and how many previews were begun."""

    failures: list[Failure]
    health_ms: list[float]
    previews: int


class Load(threading.Thread):
    """Calls something again and again until `ended` is set; `times_ms` are the calls' times."""

    def __init__(self, call, pause_s: float, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.times_ms: list[float] = []
        self._call, self._pause_s, self._ended = call, pause_s, ended

    def run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._call()
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE):
                    raise
            self.times_ms.append((time.monotonic() - began) * 1e3)
            self._ended.wait(self._pause_s)


def large_job(world: World) -> pb.SubmitJobRequest:
    """Return FLOWS flows of custom rates between four NICs on different leaves."""
    leaves = {nic.port.switch: nic.id for nic in world.fabric.nics}
    ranks = list(leaves.values())[:4]
    flows = [
        pb.FlowDemand(src_rank=number % 4, dst_rank=(number + 1 + number // 4 % 3) % 4, rate_bps=1_000 + number)
        for number in range(FLOWS)
    ]
    return pb.SubmitJobRequest(job_id="large", ranks=ranks, collectives=[pb.Collective(kind="CUSTOM", flows=flows)])


def beside_previews(world: World, seed: int, pairs: int, queue_pairs: int, rounds: int) -> BesidePreviews:
    """Measure failures under a pinned job while previews of large jobs are under way all the time."""
    request, ended = large_job(world), threading.Event()
    channel = grpc.insecure_channel(world.controller.grpc)
    health = health_pb2_grpc.HealthStub(channel)
    previews = [Load(lambda: world.controller.jobs.PreviewJob(request), 0.0, ended) for _ in range(CALLERS)]
    probe = Load(lambda: health.Check(health_pb2.HealthCheckRequest()), 0.02, ended)
    for load in (*previews, probe):
        load.start()
    try:
        time.sleep(1.0)
        found = measured(world, seed, "PIN", pairs, queue_pairs, rounds)
    finally:
        ended.set()
        probe.join(TIMEOUT_S)
        channel.close()
    return BesidePreviews(found, probe.times_ms, sum(len(load.times_ms) for load in previews) + CALLERS)
