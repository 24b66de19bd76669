"""Jobs of several phases beside the optimum of a linear or integer program, on random small fabrics.

`python -m heddle.benchmarks.planning.drawn.phases --cases 200` draws tenants with rings, all-to-alls, pipelines and
trees in up to three phases, some with priorities, on two- and three-tier fabrics and rails with failures. Plans of four
queue pairs are compared with the linear program, whose flows may be split, and where that leaves more than 1 % with the
integer program; plans of one queue pair with the integer program. Where that does not finish, another one searches for
any plan that is 0.1 % below ours, and where that does not finish either, the value beside a plan is the largest bound
that was proven. The programs keep the planner's promise: jobs of a higher priority get what they get alone. One large
case follows, which no program solves: tenants on rails with failures, beside the lower bound.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.planning.cases import fabric_of, some_failed, three_tiers, two_tiers
from heddle.benchmarks.planning.drawn.linear import Optimum, Within, optimum
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.loads import heaviest_phases
from heddle.controller.planner.proof.bound import lower_bound
from heddle.controller.planner.route import Router

CASES = 200
LIMIT_S = 20.0
CLOSE = 1.01
"""A plan above the linear program's value by this factor is compared with the integer program."""
RING, SPREAD, TREE, PAIRS = (
    CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL, CollectiveKind.TREE_ALL_REDUCE, CollectiveKind.SEND_RECV,
)  # fmt: skip
ITERATIONS = ((RING,), (RING, SPREAD), (PAIRS, RING), (SPREAD, SPREAD), (PAIRS, SPREAD, RING), (TREE, RING))
"""The kinds of collectives of an iteration, a phase each."""
RAIL_SEED = 7
RAIL_HOSTS = (40, 24, 56, 16, 32, 48, 24, 16)
"""The hosts of the tenants on rails; a host has eight NICs."""
RAIL_SCATTERED, RAIL_FAILED = 0.2, 0.02


class Tenants(NamedTuple):
    """A fabric with failures and the jobs on it."""

    name: str
    fabric: Fabric
    jobs: tuple[JobRequest, ...]
    health: Health


class Compared(NamedTuple):
    """The largest utilisation of a plan and the value that it is compared with."""

    name: str
    number: int
    flows: int
    ours: float
    best: float
    proven: bool


def drawn(number: int, queue_pairs: int, seed: int) -> Tenants:
    """Draw tenants on a fabric of 24 to 96 NICs; the kinds of fabrics take turns."""
    rng = np.random.default_rng([seed, number, queue_pairs])
    kind = ("two tiers", "three tiers", "rails")[number % 3]
    if kind == "two tiers":
        spines = int(rng.integers(4, 9))
        fabric = two_tiers(spines * int(rng.integers(4, 11)), spines)
    elif kind == "three tiers":
        fabric = three_tiers(int(rng.choice([4, 6])))
    else:
        spines = int(rng.integers(4, 9))
        fabric = fabric_of(kind="rail_optimised", spines=spines, leaves=8, hosts_per_leaf=spines, nics_per_host=4)
    health = some_failed(fabric, float(rng.choice([0.0, 0.02, 0.05, 0.1])), rng)
    order = rng.permutation(len(fabric.nics))[: int(rng.uniform(0.7, 1.0) * len(fabric.nics))]
    jobs: list[JobRequest] = []
    ranked = rng.random() < 0.3
    while len(order) >= 3:
        size = min(len(order), int(rng.choice([4, 8, 12, 16, 24, 32])))
        ranks, order = order[:size], order[size:]
        if size >= 3:
            ranks = np.sort(ranks) if rng.random() < 0.5 else ranks
            jobs.append(_job(fabric, len(jobs), ranks, queue_pairs, int(ranked and rng.integers(0, 2)), rng))
    down = len(health.down_cables)
    name = f"{kind}, {len(fabric.nics)} NICs, {len(jobs)} jobs, {down} down{', priorities' if ranked else ''}"
    return Tenants(name, fabric, tuple(jobs), health)


def _job(
    fabric: Fabric, number: int, ranks: np.ndarray, queue_pairs: int, priority: int, rng: np.random.Generator
) -> JobRequest:
    kinds = ITERATIONS[int(rng.integers(len(ITERATIONS)))]
    step = int(rng.integers(1, len(ranks)))
    pairs = tuple(RankPair(src_rank=i, dst_rank=(i + step) % len(ranks)) for i in range(len(ranks)))
    collectives = tuple(
        Collective(
            kind=kind, size_bytes=10**8, phase=phase, qps_per_flow=queue_pairs, pairs=pairs if kind is PAIRS else ()
        )
        for phase, kind in enumerate(kinds)
    )
    names = tuple(fabric.nics[rank].id for rank in ranks.tolist())
    return JobRequest(job_id=f"job{number}", ranks=names, collectives=collectives, priority=priority)


def rails(seed: int, *, spread: bool) -> Tenants:
    """Return tenants on 256 hosts of eight rails: a ring per rail; with `spread` then an all-to-all of all ranks.

    A fifth of the hosts is not beside the others of its tenant, and 2 % of the cables are down.
    """
    rng = np.random.default_rng(seed)
    fabric = fabric_of(kind="rail_optimised", spines=32, leaves=64, hosts_per_leaf=32, nics_per_host=8)
    health = some_failed(fabric, RAIL_FAILED, rng)
    nics: dict[str, list[str]] = {}
    for nic in fabric.nics:
        nics.setdefault(nic.host, []).append(nic.id)
    hosts = np.array(list(nics))
    moved = rng.choice(len(hosts), int(RAIL_SCATTERED * len(hosts)), replace=False)
    hosts[np.sort(moved)] = hosts[rng.permutation(moved)]
    jobs = []
    for number, part in enumerate(np.split(hosts, np.cumsum(RAIL_HOSTS)[:-1])):
        ranks = tuple(nic for host in part.tolist() for nic in nics[host])
        rings = [
            Collective(kind=RING, size_bytes=10**8, members=tuple(range(rail, len(ranks), 8))) for rail in range(8)
        ]
        every = [Collective(kind=SPREAD, size_bytes=10**8, phase=1)] if spread else []
        jobs.append(JobRequest(job_id=f"job{number}", ranks=ranks, collectives=(*rings, *every)))
    name = f"rails, {len(fabric.nics)} NICs, {len(jobs)} jobs, rings{' and all-to-all' if spread else ''}"
    return Tenants(name, fabric, tuple(jobs), health)


def beside_bound(case: Tenants) -> Compared:
    """Plan one case; the value beside it is the lower bound."""
    topology = topology_of(case.fabric)
    live, flows = Live.of(topology, case.health), expand(topology, case.jobs)
    ours = _reached(topology, live, flows, np.zeros(len(flows), dtype=np.int64))
    return Compared(case.name, 0, len(flows), ours, lower_bound(topology, live, flows).value, False)


def compared(number: int, queue_pairs: int, seed: int, limit_s: float = LIMIT_S) -> Compared:
    """Plan one case and solve its program."""
    case = drawn(number, queue_pairs, seed)
    topology = topology_of(case.fabric)
    live, flows = Live.of(topology, case.health), expand(topology, case.jobs)
    priority = np.array([job.priority for job in case.jobs], dtype=np.int64)
    ours = _reached(topology, live, flows, priority[flows.job])
    within = []
    for level in sorted(set(priority.tolist()))[1:]:
        high = priority[flows.job] >= level
        alone = _reached(topology, live, flows.rows(high), priority[flows.job[high]])
        within.append(Within(frozenset(np.flatnonzero(priority >= level).tolist()), alone))
    bound = lower_bound(topology, live, flows).value
    best = optimum(topology, live, flows, whole=queue_pairs == 1, limit_s=limit_s, within=within)
    if queue_pairs > 1 and ours > best.proven * CLOSE:
        whole = optimum(topology, live, flows, whole=True, limit_s=limit_s, within=within)
        best = Optimum(whole.found, max(whole.proven, best.proven))
    done = best.found <= best.proven * (1 + 1e-6)
    if not done and ours > max(best.proven, bound) * CLOSE:
        none = optimum(topology, live, flows, whole=True, limit_s=limit_s, within=within, below=ours)
        best, done = Optimum(min(best.found, none.found), max(best.proven, none.proven)), none.proven > 0.0
    return Compared(case.name, number, len(flows), ours, max(best.proven, bound), done)


def _reached(topology: Topology, live: Live, flows: Flows, priority: Ints) -> float:
    """Return the largest utilisation of the planner's paths for these flows."""
    alone = np.full(len(flows), -1, dtype=np.int64)
    hops = Router(topology=topology, live=live).route(flows, priority, [], alone, {})
    links = topology.first_nic_link
    return float((heaviest_phases(flows, hops, links) / topology.capacity[:links]).max())


def run(out: TextIO, cases: int = CASES, seed: int = 1, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Print a summary for four queue pairs and for one, with the worst cases; return the figures."""
    found: dict[str, Any] = {"seed": seed, "cases": cases}
    print(f"\njobs of several phases, {cases} random cases each, seed {seed}: utilisation / optimum", file=out)
    for queue_pairs in (4, 1):
        rows = [compared(number, queue_pairs, seed, limit_s) for number in range(cases)]
        ratio = np.array([row.ours / row.best if row.best else 1.0 for row in rows])
        proven = np.array([row.proven for row in rows])
        figures = {
            "mean": float(ratio.mean()), "p95": float(np.quantile(ratio, 0.95)), "worst": float(ratio.max()),
            "finished": int(proven.sum()), "mean_of_finished": float(ratio[proven].mean()),
        }  # fmt: skip
        found[f"q{queue_pairs}"] = {**figures, "rows": [row._asdict() for row in rows]}
        words = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in figures.items())
        print(f"  q{queue_pairs}: {words}", file=out)
        for place in np.argsort(-ratio)[:5].tolist():
            row = rows[place]
            print(f"    {row.number}: {row.name}: {row.ours:.4f} beside {row.best:.4f}"
                  f"{'' if row.proven else ' (not finished)'}", file=out, flush=True)  # fmt: skip
    large = [beside_bound(rails(RAIL_SEED, spread=spread)) for spread in (False, True)]
    for row in large:
        print(f"  {row.name}, {row.flows:,} flows, seed {RAIL_SEED}: {row.ours:.4f}, lower bound {row.best:.4f}",
              file=out, flush=True)  # fmt: skip
    return {**found, "rails": [row._asdict() for row in large]}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks.planning.drawn.phases", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for each integer program")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output at the end")
    options = parser.parse_args(arguments)
    found = run(sys.stderr if options.json else sys.stdout, options.cases, options.seed, options.limit)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
