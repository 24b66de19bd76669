"""The lower bound on many random pairs: it grows with the demand, and no integral plan is below it.

`python -m heddle.benchmarks.planning.drawn.bounds --pairs 10000 --programs 1000` draws tenants as `phases` does and
leaves out flows, phases and jobs, or lowers demands: the bound of the rest must not be higher. Then it keeps few flows
of such tenants, most of them of one or two leaves, and draws their sizes: the integer program's optimum must not be
lower than the bound.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count as counter
from itertools import islice
from typing import Any, NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.planning.drawn.linear import optimum
from heddle.benchmarks.planning.drawn.phases import drawn
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.proof.bound import lower_bound

PAIRS, PROGRAMS = 10_000, 1_000
PARTS = 20
"""The pairs of a case at most: every part of its flows is a part of the one before."""
LIMIT_S = 3.0
ROUNDING = 1e-6
"""The relative tolerance of the program's constraints."""
MAX_FLOWS = 24
SIZES_BPS = tuple(int(gbps * 1e9) for gbps in (100, 75, 60, 50, 100 / 3, 25, 12.5))


class Pair(NamedTuple):
    """The bound of some demand, and that of more."""

    less: float
    more: float


class Solved(NamedTuple):
    """The bound of a case and the optimum of its integer program; not `proven` where the solver did not finish."""

    number: int
    bound: float
    kind: str
    best: float
    proven: bool


def pairs(number: int, seed: int) -> Iterator[Pair]:
    """Yield the bounds of parts of a case's flows, each beside that of the part before, which holds it."""
    rng = np.random.default_rng([seed, number, 1])
    topology, live, flows = _tenants(number, int(rng.choice([1, 2, 4])), seed)
    above = lower_bound(topology, live, flows).value
    for _ in range(PARTS):
        flows = _less(flows, rng)
        if not len(flows):
            return
        below = lower_bound(topology, live, flows).value
        yield Pair(below, above)
        above = below


def _tenants(number: int, queue_pairs: int, seed: int) -> tuple[Topology, Live, Flows]:
    case = drawn(number, queue_pairs, seed)
    topology = topology_of(case.fabric)
    return topology, Live.of(topology, case.health), expand(topology, case.jobs)


def _less(flows: Flows, rng: np.random.Generator) -> Flows:
    """Return the flows without a job, a phase of a job or some of them, or with lower demands of some."""
    f = int(rng.integers(len(flows)))
    some = rng.random(len(flows)) < rng.choice([0.02, 0.1, 0.3])
    match int(rng.integers(6)):
        case 0:
            return flows.rows(flows.job != flows.job[f])
        case 1 | 2:
            return flows.rows((flows.job != flows.job[f]) | (flows.phase != flows.phase[f]))
        case 3 | 4:
            return flows.rows(~some)
    lower = (flows.demand_bps * rng.choice([0.25, 0.5, 0.9])).astype(np.int64)
    return replace(flows, demand_bps=np.where(some, lower, flows.demand_bps))


def solved(number: int, seed: int, limit_s: float = LIMIT_S) -> Solved:
    """Compare the bound of a small case with the optimum of its integer program."""
    rng = np.random.default_rng([seed, number, 2])
    topology, live, flows = _tenants(number, 1, seed)
    flows = _few(topology, flows, rng)
    bound = lower_bound(topology, live, flows)
    best = optimum(topology, live, flows, whole=True, limit_s=limit_s)
    return Solved(number, bound.value, bound.kind, best.found, best.found <= best.proven * (1 + ROUNDING))


def _few(topology: Topology, flows: Flows, rng: np.random.Generator) -> Flows:
    """Return at most `MAX_FLOWS` flows, those of one or two leaves first, with one to three sizes."""
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    leaves = rng.choice(np.unique(source), int(rng.integers(1, 3)))
    apart = np.flatnonzero(source != target)
    near = (np.isin(source, leaves) | np.isin(target, leaves))[apart]
    order = apart[np.lexsort((rng.random(len(apart)), ~near))][: int(rng.integers(2, MAX_FLOWS + 1))]
    part = flows.rows(np.sort(order))
    sizes = rng.choice(SIZES_BPS, int(rng.integers(1, 4)))
    return replace(part, demand_bps=rng.choice(sizes, len(part)).astype(np.int64))


def run(out: TextIO, count: int = PAIRS, programs: int = PROGRAMS, seed: int = 1) -> dict[str, Any]:
    """Print how often the bound falls with more demand, and how often it is above an optimum; return the figures."""
    found = list(islice((pair for number in counter() for pair in pairs(number, seed)), count))
    fallen = sum(pair.less > pair.more for pair in found)
    grown = sum(pair.less < pair.more for pair in found)
    print(f"\nlower bound, seed {seed}: {len(found):,} pairs of demands, one a part of the other: the bound of more is "
          f"higher in {grown:,} and lower in {fallen}", file=out, flush=True)  # fmt: skip
    rows = [solved(number, seed) for number in range(programs)]
    done = [row for row in rows if row.proven]
    over = [row.number for row in rows if row.bound > row.best * (1 + ROUNDING)]
    met = sum(row.bound >= row.best * (1 - ROUNDING) for row in done)
    print(f"  {programs:,} integer programs, {len(done):,} solved: the bound is the optimum in {met:,}, "
          f"above it in {len(over)}{': ' + str(over[:20]) if over else ''}", file=out, flush=True)  # fmt: skip
    return {
        "seed": seed, "pairs": len(found), "grown": grown, "fallen": fallen,
        "programs": programs, "solved": len(done), "met": met, "over": over,
    }  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks.planning.drawn.bounds", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--programs", type=int, default=PROGRAMS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output at the end")
    options = parser.parse_args(arguments)
    found = run(sys.stderr if options.json else sys.stdout, options.pairs, options.programs, options.seed)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
    return int(bool(found["fallen"] or found["over"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
