"""Quality of full plans and the time to choose their paths, case by case.

`python -m heddle.benchmarks quality` measures every family of `cases` at 8,192 and 131,072 flows. With the module's
own name, `python -m heddle.benchmarks.planning.quality --flows 1024 --case failed-q8`, it measures one. Times are the
best of a few runs of `Router.route` with kernels loaded. The lower bound is the larger of the planner's own and of one
computed here, which includes the load of other traffic. Random fabrics and jobs follow (`drawn/`); `--case` leaves
them out.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from heddle.benchmarks.planning.cases import FAMILIES, Case, cases
from heddle.benchmarks.planning.drawn import phases, slowed
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.loads import heaviest_phases
from heddle.controller.planner.proof.bound import lower_bound
from heddle.controller.planner.proof.ecmp import ecmp_figures
from heddle.controller.planner.route import Router
from heddle.controller.planner.warm import warm

SIZES = (8_192, 131_072)
RUNS = 2
Array = NDArray[np.float64]


class Found(NamedTuple):
    """A row of the table; ratios are to `bound`."""

    family: str
    case: str
    flows: int
    bound: float
    ours: float
    ecmp: float
    target: float
    met: bool
    ms: float
    resident_mb: float


def measured(family: str, case: Case, *, runs: int = RUNS, ecmp: bool = True) -> Found:
    """Route one case and compare it with its bound."""
    topology = topology_of(case.fabric)
    flows = expand(topology, case.jobs)
    base = np.zeros(len(topology.capacity))
    if case.base_share is not None:
        base[: 2 * topology.cables] = np.floor(case.base_share * topology.capacity[: 2 * topology.cables])
    best, hops = np.inf, np.empty((0, 0), dtype=np.int64)
    others = [(0, base)] if base.any() else []
    priority, bundle = np.zeros(len(flows), dtype=np.int64), np.full(len(flows), -1, dtype=np.int64)
    for _ in range(runs):
        live = Live.of(topology, case.health)
        started = time.perf_counter()
        hops = Router(topology=topology, live=live).route(flows, priority, others, bundle, {})
        best = min(best, time.perf_counter() - started)
    live = Live.of(topology, case.health)
    base[: 2 * topology.cables] *= live.links[: 2 * topology.cables]
    used = utilisation(topology, live, flows, hops, base)
    bound = max(own_bound(topology, live, flows, base), lower_bound(topology, live, flows).value)
    router = Router(topology=topology, live=live)
    hashed = (
        ecmp_figures(topology, router.segments, flows, range(int(flows.job.max(initial=0)) + 1))[0]
        if ecmp
        else float("nan")
    )
    quantum = float(flows.demand_bps.max()) / float(topology.cable_capacity.min())
    allowed = bound + quantum if case.quantum_above else bound * case.target
    return Found(
        family=family, case=case.name, flows=len(flows), bound=bound, ours=used / bound, ecmp=hashed / bound,
        target=allowed / bound, met=used <= allowed * (1 + 1e-9), ms=best * 1e3,
        resident_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )  # fmt: skip


def utilisation(topology: Topology, live: Live, flows: Flows, hops: NDArray[np.int64], base: Array) -> float:
    """Return the maximum utilisation of live links; every flow between leaves must have a path over live links."""
    apart = topology.nic_leaf[flows.src_nic] != topology.nic_leaf[flows.dst_nic]
    if (hops[apart, 0] < 0).any() or not live.links[hops[hops >= 0]].all():
        raise RuntimeError("a flow has no path, or one over a dead link")
    links = 2 * topology.cables
    loads = heaviest_phases(flows, hops, links) + base[:links]
    return float((loads / topology.capacity[:links])[live.links[:links]].max())


def own_bound(topology: Topology, live: Live, flows: Flows, base: Array) -> float:
    """Return the lower bound by cuts of leaves and pods with other load; for equal demands also by whole slots."""
    cables, best = topology.cables, 0.0
    if len(np.unique(flows.phase)) > 1:
        return 0.0
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    unit = int(flows.demand_bps[0]) if (flows.demand_bps == flows.demand_bps[0]).all() else 0
    alive = np.flatnonzero(live.links[:cables])
    groups = [(np.arange(len(topology.switch_ids)), alive[topology.tier[topology.lower[alive]] == 0])]
    if (topology.tier == 1).any():
        groups.append((topology.pod, alive[topology.tier[topology.lower[alive]] == 1]))
    for group, crossing in groups:
        size = int(group.max()) + 1
        a, b = group[source], group[target]
        owner = group[topology.lower[crossing]]
        capacity = topology.cable_capacity[crossing].astype(np.float64)
        room = np.bincount(owner, capacity, size)
        for end, others in ((a, base[crossing]), (b, base[crossing + cables])):
            load = np.bincount(end[a != b], flows.demand_bps[a != b].astype(np.float64), size)
            total = load + np.bincount(owner, others, size)
            some = load > 0
            best = max(best, float((total[some] / room[some]).max(initial=0.0)))
            if unit:
                best = max(best, _slots(unit, np.bincount(end[a != b], minlength=size), owner, capacity, others))
    return best


def _slots(unit: int, degree: NDArray[np.int64], owner: NDArray[np.int64], capacity: Array, others: Array) -> float:
    """Return the lowest utilisation at which every group's links have a slot of `unit` for each of its flows."""
    levels = np.sort(np.concatenate([(others + n * unit) / capacity for n in range(1, _max_slots(degree, owner) + 2)]))
    low, high = -1, len(levels) - 1
    while high - low > 1:
        middle = (low + high) // 2
        slots = np.floor((levels[middle] * capacity - others) / unit * (1 + 1e-12) + 1e-9).clip(0)
        enough = (np.bincount(owner, slots, len(degree)) >= degree).all()
        low, high = (low, middle) if enough else (middle, high)
    return float(levels[high])


def _max_slots(degree: NDArray[np.int64], owner: NDArray[np.int64]) -> int:
    links = np.bincount(owner, minlength=len(degree))
    return int((degree[links > 0] // links[links > 0]).max(initial=0)) + 8


def run(out: TextIO, sizes: Sequence[int] = SIZES, names: Sequence[str] = ()) -> dict[str, object]:
    warm()
    print(
        f"{'case':40}{'flows':>9}{'bound':>8}{'ours':>8}{'target':>8}{'ECMP':>7}{'ms':>9}{'ns/flow':>9}{'MB':>6}",
        file=out,
    )
    lines = []
    for size in sizes:
        for family, case in cases(size, names=tuple(names)):
            one = measured(family, case)
            lines.append(one)
            verdict = "" if one.met else "  missed"
            print(
                f"{one.case:40}{one.flows:9,}{one.bound:8.4f}{one.ours:8.4f}{one.target:8.4f}{one.ecmp:7.2f}"
                f"{one.ms:9.2f}{one.ms * 1e6 / max(one.flows, 1):9.0f}{one.resident_mb:6.0f}{verdict}",
                file=out, flush=True,
            )  # fmt: skip
    found: dict[str, object] = {"cases": [one._asdict() for one in lines], "met": all(one.met for one in lines)}
    return found if names else {**found, "slowed": slowed.run(out), "phases": phases.run(out)}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks.planning.quality", description=__doc__)
    parser.add_argument("--flows", type=int, nargs="*", default=list(SIZES), help="about how many flows")
    parser.add_argument("--case", nargs="*", default=[], choices=list(FAMILIES), help="families; all when left out")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output at the end")
    options = parser.parse_args(arguments)
    found = run(sys.stderr if options.json else sys.stdout, options.flows, options.case)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
