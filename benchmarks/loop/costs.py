"""Measure the cost of a journal and mutual TLS for SubmitJob: three controllers side by side, called in turns."""

import random
import time
from collections.abc import Mapping
from typing import TypedDict

from heddle.benchmarks.loop.admission import ring
from heddle.benchmarks.loop.world import World
from heddle.v1 import heddle_pb2 as pb

ROUNDS, WARM_ROUNDS = 500, 20


class Kind(TypedDict):
    """The arguments of `world` for one controller."""

    is_journaled: bool
    has_tls: bool


PLAIN = "plain, no journal"
KINDS: Mapping[str, Kind] = {
    PLAIN: Kind(is_journaled=False, has_tls=False),
    "plain, journal": Kind(is_journaled=True, has_tls=False),
    "mutual TLS, journal": Kind(is_journaled=True, has_tls=True),
}


def measured(worlds: Mapping[str, World], seed: int, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return the milliseconds of SubmitJob of one caller by controller; each round calls all, in a random order.

    The job is a ring of two NICs, the same for all in one round, which is released before the next.
    """
    drawn = random.Random(seed)
    times_ms: dict[str, list[float]] = {name: [] for name in worlds}
    for number in range(-WARM_ROUNDS, rounds):
        nics = [nic.id for nic in next(iter(worlds.values())).fabric.nics]
        drawn.shuffle(nics)
        request = ring(nics, f"job-{number}")
        for name in drawn.sample(sorted(worlds), len(worlds)):
            jobs = worlds[name].controller.jobs
            began = time.monotonic()
            jobs.SubmitJob(request)
            if number >= 0:
                times_ms[name].append((time.monotonic() - began) * 1e3)
        for each in worlds.values():
            each.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=request.job_id))
    return times_ms
