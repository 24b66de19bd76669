"""Jobs admitted per second: SubmitJob by several callers, with no job running and with many."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from heddle.benchmarks.loop.world import World
from heddle.v1 import heddle_pb2 as pb

CALLERS = 8
ALONE = 20
TOGETHER = 200
"""Jobs submitted by one caller, and by all."""
SETTLE_S = 0.5
FILL_LIMIT_S = 20.0
"""Filling ends after so long; the figures name the jobs that run by then."""


class Rate(NamedTuple):
    """What callers saw with so many jobs running: jobs per second, and milliseconds per call of one alone."""

    running: int
    per_second: float
    alone_ms: tuple[float, ...]


def ring(nics: list[str], job_id: str) -> pb.SubmitJobRequest:
    """Return a ring all-reduce of two NICs that no other job has."""
    ranks = [nics.pop(), nics.pop()]
    collective = pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000_000)
    return pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=[collective])


def submitted(world: World, requests: list[pb.SubmitJobRequest]) -> tuple[int, float]:
    """Submit by CALLERS callers until all are admitted, or the time is up; return how many were, and the seconds."""
    began = time.monotonic()

    def submit(request: pb.SubmitJobRequest) -> bool:
        if time.monotonic() - began > FILL_LIMIT_S:
            return False
        world.controller.jobs.SubmitJob(request)
        return True

    with ThreadPoolExecutor(CALLERS) as callers:
        admitted = sum(callers.map(submit, requests))
    return admitted, time.monotonic() - began


def rate(world: World, nics: list[str], running: int) -> Rate:
    """Measure the rate with `running` jobs; the jobs of the measurement are released again."""
    requests = [ring(nics, f"at-{running}-{number}") for number in range(ALONE + TOGETHER)]
    alone = []
    for request in requests[:ALONE]:
        began = time.monotonic()
        world.controller.jobs.SubmitJob(request)
        alone.append((time.monotonic() - began) * 1e3)
    _release(world, requests[:ALONE])
    admitted, seconds = submitted(world, requests[ALONE:])
    _release(world, requests[ALONE:][:admitted])
    return Rate(running, admitted / seconds, tuple(alone))


def _release(world: World, requests: list[pb.SubmitJobRequest]) -> None:
    for request in requests:
        world.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))
    time.sleep(SETTLE_S)  # until running jobs are planned without them


def measured(world: World, seed: int, running: int) -> list[Rate]:
    """Return the rate with no job running, then with `running` jobs or as many as could be admitted in time."""
    nics = [nic.id for nic in world.fabric.nics]
    random.Random(seed).shuffle(nics)
    empty = rate(world, list(nics), 0)
    filled, _ = submitted(world, [ring(nics, f"fill-{number}") for number in range(running)])
    return [empty, rate(world, nics, filled)]
