"""Arrivals and departures of jobs on 1,024 GPUs: what moving a few running flows for each arrival is worth.

The columns of a case see the same jobs: *never* plans each arrival beside the others, which keep their paths; *all*
plans every flow again at each arrival; a number is the planner of the service (`OnlinePlanner`), which may move so many
other flows at each arrival and at each departure; *default* is the same with the service's default limits. After each
arrival, the fullest link and the speed of each job are recorded. The speed of a job is its predicted time at full
demand over that at its max-min fair rates.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.planning.cases import fabric_of, three_tiers, two_tiers
from heddle.benchmarks.planning.events.running import Running
from heddle.benchmarks.planning.events.service import Service, any_flows, moved_by
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.moves import DEFAULT_MOVES, Cause, MoveLimit
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.jit import Ints

GPUS, ARRIVALS = 1024, 100
SIZES = (8, 16, 32, 64, 128, 256)
"""The GPUs of a job; a size is drawn with a weight of one over its square root, so small jobs are more common.

Of these jobs 14 % have at least 128 GPUs. In the public Lingjun trace it is "over 10 %" (Crux, SIGCOMM 2024, 2.2).
"""
FULL = 0.91
"""A job arrives when it fits into this share of the GPUs; before, running jobs leave, drawn one by one."""
EXPERTS = 16
"""The ranks of an all-to-all: expert parallelism stays in groups."""
BUDGETS = (0, 16, 64, 256)
COLUMNS = ("never", "all", *map(str, BUDGETS), "default")

FABRICS: dict[str, Callable[[], Fabric]] = {
    "2 tiers": lambda: two_tiers(GPUS, 32),
    "3 tiers": lambda: three_tiers(16),
    "rails": lambda: fabric_of(kind="rail_optimised", spines=32, leaves=32, hosts_per_leaf=32, nics_per_host=8),
}


class Event(NamedTuple):
    """The jobs that leave, the one that arrives then, and the share of GPUs in use afterwards."""

    leave: tuple[str, ...]
    arrive: JobRequest
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A case: a fabric, where jobs are placed, what they send, and with how many queue pairs per flow."""

    fabric: str
    placement: str
    sends: str
    qps: int

    @property
    def name(self) -> str:
        return f"{self.fabric}, {self.placement}, {self.sends}, q{self.qps}"


SCENES = tuple(
    Scene(fabric=fabric, placement=placement, sends=sends, qps=qps)
    for fabric in FABRICS
    for placement in ("random", "first fit")
    for sends in ("rings", "rings + all-to-all")
    for qps in (1, 4)
) + tuple(Scene(fabric=fabric, placement="random", sends="mixed sizes", qps=1) for fabric in FABRICS)


def job(fabric: Fabric, scene: Scene, name: str, ranks: Ints, rng: np.random.Generator) -> JobRequest:
    """Return a job on these NICs."""
    count = len(ranks)
    if scene.sends == "mixed sizes":
        share = rng.dirichlet(np.ones(int(rng.integers(2, 6))))
        flows = tuple(
            FlowDemand(src_rank=i, dst_rank=(i + step) % count, rate_bps=int(part * fabric.nics[0].capacity_bps))
            for part, step in zip(share.tolist(), rng.integers(1, count, len(share)).tolist(), strict=True)
            for i in range(count)
        )
        sent = [Collective(kind=CollectiveKind.CUSTOM, size_bytes=10**9, flows=flows, qps_per_flow=scene.qps)]
    else:
        sent = [Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=10**9, qps_per_flow=scene.qps)]
    if scene.sends == "rings + all-to-all":
        groups = [tuple(range(begin, min(begin + EXPERTS, count))) for begin in range(0, count, EXPERTS)]
        kind = CollectiveKind.ALL_TO_ALL
        sent += [
            Collective(kind=kind, size_bytes=10**9, qps_per_flow=scene.qps, members=group, phase=1) for group in groups
        ]
    return JobRequest(
        job_id=name, ranks=tuple(fabric.nics[rank].id for rank in ranks.tolist()), collectives=tuple(sent)
    )


def events(
    fabric: Fabric, scene: Scene, arrivals: int, seed: int, full: float = FULL, sizes: Sequence[int] = SIZES
) -> Iterator[Event]:
    """Draw the jobs that arrive and leave; the first ones fill the fabric up to the share `full` of its GPUs."""
    rng, weight = np.random.default_rng(seed), 1 / np.sqrt(sizes)
    free, running = np.ones(len(fabric.nics), dtype=np.bool_), dict[str, Ints]()
    for number in range(arrivals):
        size, leave = int(rng.choice(sizes, p=weight / weight.sum())), []
        while len(free) - int(free.sum()) + size > full * len(free):
            leave.append(sorted(running)[int(rng.integers(len(running)))])
            free[running.pop(leave[-1])] = True
        some = np.flatnonzero(free)
        ranks = rng.permutation(some)[:size] if scene.placement == "random" else some[:size]
        running[f"job{number}"], free[ranks] = ranks, False
        yield Event(tuple(leave), job(fabric, scene, f"job{number}", ranks, rng), 1 - float(free.mean()))


Method = Callable[[Running, Event], int]
"""Places the job of an event beside those running, and returns how many flows of these moved."""


def never(running: Running, event: Event) -> int:
    """Plan the arrival beside the running jobs."""
    new = expand(running.topology, (event.arrive,))
    running.jobs[event.arrive.job_id] = new, running.route(new, running.loads() if running.jobs else None)
    return 0


def all_at_once(running: Running, event: Event) -> int:
    """Plan every flow again."""
    new = expand(running.topology, (event.arrive,))
    running.jobs[event.arrive.job_id] = new, np.full((len(new), MAX_HOPS), NO_LINK, dtype=np.int64)
    return running.plan_again()


def by_the_service(fabric: Fabric, arrival: MoveLimit, release: MoveLimit) -> Method:
    """Return the method of the service: the brain asks its planner at each departure, and at each arrival."""
    service = Service(fabric)

    def method(running: Running, event: Event) -> int:
        moved = sum(moved_by(service.leave(name, release)) for name in event.leave)
        moved += moved_by(service.arrive(event.arrive, arrival))
        running.follow(service)
        return moved

    return method


def measured(scene: Scene, arrivals: int, seed: int, columns: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """Return the means of each column over the arrivals after the fabric has filled."""
    fabric = FABRICS[scene.fabric]()
    methods: dict[str, Method] = {"never": never, "all": all_at_once}
    methods |= {str(budget): by_the_service(fabric, any_flows(budget), any_flows(budget)) for budget in BUDGETS}
    methods["default"] = by_the_service(fabric, DEFAULT_MOVES[Cause.ARRIVAL], DEFAULT_MOVES[Cause.RELEASE])
    return {
        name: _column(fabric, method, events(fabric, scene, arrivals, seed))
        for name, method in methods.items()
        if not columns or name in columns
    }


def _column(fabric: Fabric, method: Method, jobs: Iterable[Event]) -> dict[str, float]:
    running, rows, full = Running(topology_of(fabric)), [], False
    for event in jobs:
        full = full or bool(event.leave)
        for job_id in event.leave:
            running.jobs.pop(job_id, None)
        moved = method(running, event)
        if full:
            rows.append((*running.figures(), moved, event.used))
    worst, speed, moves, used = np.array(rows).T
    return {
        "fullest": float(worst.mean()), "speed": float(speed.mean()), "moved": float(moves.mean()),
        "most_moved": float(moves.max()), "occupancy": float(used.mean()), "arrivals": len(rows),
    }  # fmt: skip


def run(
    out: TextIO, arrivals: int = ARRIVALS, seed: int = 1, scene: str = "", columns: Sequence[str] = COLUMNS
) -> dict[str, object]:
    """Measure all scenes whose name has `scene` in it, print a table and return the figures."""
    names = [name for name in COLUMNS if name in columns]
    print(
        f"\n{arrivals} arrivals and departures on {GPUS:,} GPUs, seed {seed}: mean fullest link / mean job speed "
        f"(flows moved per arrival)\n  {'':44}" + "".join(f"{name:>18}" for name in names),
        file=out,
    )
    found: dict[str, object] = {"seed": seed, "arrivals": arrivals}
    scenes = [one for one in SCENES if scene in one.name]
    # No figure is a time, so the scenes may run side by side.
    with multiprocessing.get_context("spawn").Pool() as pool:  # an interrupt ends its processes
        for one, row in zip(
            scenes, pool.imap(partial(measured, arrivals=arrivals, seed=seed, columns=names), scenes), strict=True
        ):
            found[one.name] = row
            cells = (
                f"{row[name]['fullest']:.2f}/{row[name]['speed']:.2f} ({row[name]['moved']:.0f})" for name in names
            )
            print(f"  {one.name:44}" + "".join(f"{cell:>18}" for cell in cells), file=out, flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks.planning.events.arrivals", description=__doc__)
    parser.add_argument("--arrivals", type=int, default=ARRIVALS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scene", default="", help="a part of the names of the scenes to measure; default: all")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=COLUMNS, help="what to compare; default: all")
    options = parser.parse_args(arguments)
    run(sys.stdout, options.arrivals, options.seed, options.scene, options.columns)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
