"""Incremental planning: the time of events at 16,000 GPUs, and what moving flows is worth at 1,024.

Times: add and remove a job, fail a link, fail a spine, at several loads.

Times are wall times of the whole call, with expanding the request and computing the delta. The minimum shows the cost
of the code, the median also the other load of the machine. "moved" counts flows of other jobs or earlier events that
got new paths, "shared" the event's own flows that found no link free of others.
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import TextIO

import numpy as np

from heddle.benchmarks.planning.events import arrivals, failures
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.session.delta import Delta
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session
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
FREE = Moves(who=Movable.ALL)


def fabric(shape: dict[str, object]) -> Fabric:
    return parse_fabric(json.dumps({"version": 1, "name": "bench", "generate": shape}), "bench")


def ring(fabric: Fabric, job_id: str, ranks: np.ndarray) -> JobRequest:
    collective = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1_000_000_000)
    return JobRequest(job_id=job_id, ranks=tuple(fabric.nics[rank].id for rank in ranks), collectives=(collective,))


class _Row:
    """Times and moved flows of one kind of event."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.deltas: list[Delta] = []

    def call(self, event: Callable[[], Delta | Infeasible]) -> None:
        started = time.perf_counter()
        delta = event()
        self.times.append(time.perf_counter() - started)
        assert isinstance(delta, Delta)
        self.deltas.append(delta)

    def figures(self) -> dict[str, float]:
        middle = statistics.median
        return {
            "median_ms": middle(self.times) * 1e3,
            "least_ms": min(self.times) * 1e3,
            "placed": middle(delta.placed for delta in self.deltas),
            "moved": middle(delta.moved for delta in self.deltas),
            "shared": sum(delta.shared for delta in self.deltas) / len(self.deltas),
            "replanned": sum(delta.replanned for delta in self.deltas),
        }


def measure(shape: dict[str, object], load: float, seed: int = 1) -> dict[str, dict[str, float]]:
    """Fill a fabric with scattered jobs, then apply each kind of event `TRIALS` times."""
    drawn = fabric(shape)
    topology, rng, session = topology_of(drawn), np.random.default_rng(seed), Session.begin(drawn)
    hosts = rng.permutation(len(drawn.nics))
    full = int(len(hosts) * load)
    begin = 0
    while begin < full:
        end = min(begin + int(rng.choice(SIZES)), full)
        session.add(ring(drawn, f"job{begin}", rng.permutation(hosts[begin:end])), FREE)
        begin = end
    rows = {name: _Row() for name in ("add", "remove", "link fails", "spine fails")}
    uppers = np.flatnonzero(topology.tier > 0)
    for _ in range(TRIALS):
        request = ring(drawn, "new", rng.permutation(hosts[full:])[:JOB])
        rows["add"].call(lambda request=request: session.add(request, FREE))  # type: ignore[misc]
        rows["remove"].call(lambda: session.remove("new"))
        cable = topology.cable_ids[int(rng.integers(topology.cables))]
        rows["link fails"].call(lambda cable=cable: session.link_down(cable, FREE))  # type: ignore[misc]
        session.link_up(cable)
        switch = topology.switch_ids[int(rng.choice(uppers))]
        rows["spine fails"].call(lambda switch=switch: session.switch_down(switch, FREE))  # type: ignore[misc]
        session.switch_up(switch)
    return {name: row.figures() for name, row in rows.items()}


def run(out: TextIO) -> dict[str, object]:
    warm((*PLANNING, "session"))
    found: dict[str, object] = {"arrivals": arrivals.run(out), "failures": failures.run(out)}
    for name, shape in FABRICS.items():
        print(f"{name}, 100 Gbit/s, rings of {JOB}, one queue pair each, anybody may move", file=out)
        print(f"  {'load':>5}  {'event':12} {'median':>9} {'least':>9}  placed  moved  shared  replanned", file=out)
        for load in LOADS:
            figures = measure(shape, load)
            found[f"{name}, {load:.0%}"] = figures
            for event, row in figures.items():
                times = f"{row['median_ms']:6.2f} ms {row['least_ms']:6.2f} ms"
                moves = f"{row['placed']:6.0f} {row['moved']:6.0f}  {row['shared']:6.1f}  {row['replanned']:6.0f}"
                print(f"  {load:5.0%}  {event:12} {times}  {moves}", file=out, flush=True)
    return found
