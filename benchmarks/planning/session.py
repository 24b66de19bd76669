"""Incremental planning: the time of events at 16,000 GPUs, and what moving flows is worth at 1,024.

All of it drives the planner of the service (`OnlinePlanner`). Times: a job arrives and leaves, a link and a spine fail,
at several loads, with the service's default limits of moves.

Times are wall times of one request to the planner: paths, ports, rates and certificate of all jobs. The minimum shows
the cost of the code, the median also the other load of the machine. "moved" counts flows of running jobs that got new
paths, severed ones included, "fullest" is the mean utilisation of the fullest link after the event.
"""

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TextIO

import numpy as np

from heddle.benchmarks.planning.events import arrivals, failures
from heddle.benchmarks.planning.events.service import Service, any_flows, moved_by
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.moves import DEFAULT_MOVES, MAX_MOVES, Cause
from heddle.controller.model.plan import Replan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.warm import PLANNING, warm

FABRICS = {
    "256 leaves x 64 spines": {"kind": "spine_leaf", "spines": 64, "leaves": 256, "hosts_per_leaf": 64},
    "3 tiers, k = 40": {
        "kind": "clos3", "spines": 400, "pods": 40, "leaves": 20, "aggs_per_pod": 20, "hosts_per_leaf": 20,
    },
}  # fmt: skip
LOADS = (0.5, 0.8, 0.9, 0.97)
JOB, TRIALS = 256, 15
SIZES = (64, 128, 256, 512, 1024)


def fabric(shape: dict[str, object]) -> Fabric:
    return parse_fabric(json.dumps({"version": 1, "name": "bench", "generate": shape}), "bench")


def ring(fabric: Fabric, job_id: str, ranks: np.ndarray) -> JobRequest:
    collective = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1_000_000_000)
    return JobRequest(job_id=job_id, ranks=tuple(fabric.nics[rank].id for rank in ranks), collectives=(collective,))


class _Row:
    """Times and plans of one kind of event."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.moved: list[int] = []
        self.fullest: list[float] = []

    def call(self, event: Callable[[], Replan]) -> None:
        started = time.perf_counter()
        plan = event()
        self.times.append(time.perf_counter() - started)
        self.moved.append(moved_by(plan))
        self.fullest.append(plan.certificate.max_link_utilisation)

    def figures(self) -> dict[str, float]:
        return {
            "median_ms": statistics.median(self.times) * 1e3,
            "least_ms": min(self.times) * 1e3,
            "moved": statistics.median(self.moved),
            "most_moved": max(self.moved),
            "fullest": statistics.mean(self.fullest),
        }


def measure(shape: dict[str, object], load: float, seed: int = 1) -> dict[str, dict[str, float]]:
    """Fill a fabric with scattered jobs, then apply each kind of event `TRIALS` times."""
    drawn = fabric(shape)
    topology, rng, service = topology_of(drawn), np.random.default_rng(seed), Service(drawn)
    hosts = rng.permutation(len(drawn.nics))
    full = int(len(hosts) * load)
    begin = 0
    while begin < full:
        end = min(begin + int(rng.choice(SIZES)), full)
        service.arrive(ring(drawn, f"job{begin}", rng.permutation(hosts[begin:end])), any_flows(MAX_MOVES))
        begin = end
    rows = {name: _Row() for name in ("arrival", "departure", "link fails", "spine fails", "return")}
    uppers, limit = np.flatnonzero(topology.tier > 0), DEFAULT_MOVES
    for _ in range(TRIALS):
        request = ring(drawn, "new", rng.permutation(hosts[full:])[:JOB])
        cables = frozenset({topology.cable_ids[int(rng.integers(topology.cables))]})
        spines = frozenset({topology.switch_ids[int(rng.choice(uppers))]})
        rows["arrival"].call(partial(service.arrive, request, limit[Cause.ARRIVAL]))
        rows["departure"].call(partial(service.leave, "new", limit[Cause.RELEASE]))
        for name, failed in (("link fails", Health(down_cables=cables)), ("spine fails", Health(down_switches=spines))):
            rows[name].call(partial(service.become, failed, limit[Cause.FAILURE]))
            rows["return"].call(partial(service.become, Health(), limit[Cause.RECOVERY]))
    return {name: row.figures() for name, row in rows.items()}


def run(out: TextIO) -> dict[str, object]:
    warm((*PLANNING, "session"))
    found: dict[str, object] = {"arrivals": arrivals.run(out), "failures": failures.run(out)}
    for name, shape in FABRICS.items():
        print(f"{name}, 100 Gbit/s, rings of {JOB}, one queue pair each, default limits of moves", file=out)
        print(f"  {'load':>5}  {'event':12} {'median':>9} {'least':>9}  moved  at most  fullest", file=out)
        for load in LOADS:
            figures = measure(shape, load)
            found[f"{name}, {load:.0%}"] = figures
            for event, row in figures.items():
                times = f"{row['median_ms']:6.2f} ms {row['least_ms']:6.2f} ms"
                moves = f"{row['moved']:5.0f}  {row['most_moved']:7.0f}  {row['fullest']:7.2f}"
                print(f"  {load:5.0%}  {event:12} {times}  {moves}", file=out, flush=True)
    return found
