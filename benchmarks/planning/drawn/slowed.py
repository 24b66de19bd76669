"""Flows that failures slow: the full plan beside the service without moves and beside a greedy, on random fabrics.

`python -m heddle.benchmarks.planning.drawn.slowed --fabrics 500` draws permutations on two- and three-tier fabrics and
rails with failed cables. A flow is slowed where its max-min share of the links is below its demand. The session has
placed the flows before the cables fail, and then moves only flows that lost their path. The greedy gives each flow, the
largest first, the path whose fullest link stays emptiest.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.planning.cases import fabric_of, mixed_rates, permutation, some_failed, three_tiers, two_tiers
from heddle.benchmarks.planning.events.service import Service
from heddle.benchmarks.planning.methods import GREEDY, METHODS, OURS
from heddle.benchmarks.planning.peers.problem import problem_of
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import NO_MOVES
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.proof.fluid import planned_rates

FABRICS = 500
ROUNDING = 1e-6


class Drawn(NamedTuple):
    """A fabric with failures and a job on it."""

    name: str
    fabric: Fabric
    job: JobRequest
    health: Health


class Slowed(NamedTuple):
    """Slowed flows, their number in all, the mean share, and the largest utilisation of one method."""

    method: str
    slowed: int
    flows: int
    mean_share: float
    max_utilisation: float


def three_cases() -> Iterator[Drawn]:
    """Yield the cases that one or sixteen failed cables of one leaf used to ruin."""
    rng = np.random.default_rng(1)
    fabric = three_tiers(32)
    yield Drawn("3 tiers, k = 32, a leaf's cable down", fabric, permutation(fabric, 1, rng), _leaf_down(fabric, 1))
    fabric = two_tiers(8_192, 64)
    yield Drawn("64 x 128, a leaf's cable down", fabric, permutation(fabric, 1, rng), _leaf_down(fabric, 1))
    fabric = two_tiers(1_024, 32)
    yield Drawn("32 x 32, half of a leaf's cables down", fabric, permutation(fabric, 1, rng), _leaf_down(fabric, 16))


def _leaf_down(fabric: Fabric, cables: int) -> Health:
    """Fail some cables of the last leaf."""
    leaf = [switch.id for switch in fabric.switches if switch.role.tier == 0][-1]
    return Health(down_cables=frozenset([c.id for c in fabric.cables if c.lower.switch == leaf][:cables]))


def drawn(number: int, seed: int) -> Drawn:
    """Draw a fabric of 64 to 1,024 NICs with failures, and a permutation of equal or mixed demands on it."""
    rng = np.random.default_rng([seed, number])
    kind = ("two tiers", "three tiers", "rails")[number % 3]
    if kind == "two tiers":
        spines = int(rng.integers(4, 33))
        fabric = two_tiers(spines * int(rng.integers(4, 33)), spines)
    elif kind == "three tiers":
        fabric = three_tiers(int(rng.choice([4, 6, 8, 10, 12])))
    else:
        spines = int(rng.integers(4, 17))
        leaves = 8 * int(rng.integers(1, 5))
        fabric = fabric_of(kind="rail_optimised", spines=spines, leaves=leaves, hosts_per_leaf=spines, nics_per_host=8)
    health = some_failed(fabric, float(rng.choice([0.01, 0.02, 0.05, 0.1])), rng)
    queue_pairs = int(rng.choice([1, 4]))
    mixed = rng.random() < 0.3
    job = mixed_rates(fabric, queue_pairs, rng) if mixed else permutation(fabric, queue_pairs, rng)
    name = (
        f"{kind}, {len(fabric.nics)} NICs, {len(health.down_cables)} down, q{queue_pairs}{', mixed' if mixed else ''}"
    )
    return Drawn(name, fabric, job, health)


def compared(case: Drawn) -> list[Slowed]:
    """Return the figures of full plan, service and greedy; none where failures part two NICs."""
    problem = problem_of(case.fabric, (case.job,), health=case.health)
    ours, greedy = (METHODS[name].paths(problem, 0).hops for name in (OURS, GREEDY))
    apart = problem.source != problem.target
    if (greedy[apart, 0] < 0).any() and ((ours[:, 0] < 0) == (greedy[:, 0] < 0)).all():
        return []
    rows = [_figures(case, OURS, ours), _figures(case, GREEDY, greedy)]
    service = Service(case.fabric)
    service.arrive(case.job, NO_MOVES)
    down = sorted(case.health.down_cables)
    for count in range(1, len(down) + 1):
        service.become(Health(down_cables=frozenset(down[:count])), NO_MOVES)
    rows.insert(1, _figures(case, "service, no moves", service.tables()[case.job.job_id].hops))
    return rows


def _figures(case: Drawn, method: str, hops: Ints) -> Slowed:
    topology = topology_of(case.fabric)
    flows = expand(topology, (case.job,))
    apart = topology.nic_leaf[flows.src_nic] != topology.nic_leaf[flows.dst_nic]
    if (hops[apart, 0] < 0).any() or not Live.of(topology, case.health).links[hops[hops >= 0]].all():
        raise RuntimeError(f"{case.name}: {method}: a flow has no path, or one over a dead link")
    loads = link_loads(topology, flows, hops)
    share = np.minimum(1.0, planned_rates(topology, flows, hops, loads) / np.maximum(flows.demand_bps, 1))
    fullest = float((loads / topology.capacity)[: topology.first_nic_link].max())
    return Slowed(method, int((share < 1 - ROUNDING).sum()), len(flows), float(share.mean()), fullest)


def run(out: TextIO, fabrics: int = FABRICS, seed: int = 1, only: Sequence[int] = ()) -> dict[str, Any]:
    """Print the three cases and a summary of the random fabrics; return the figures.

    With `only`, print all figures of the random fabrics of these numbers and nothing else.
    """
    if only:
        return {"seed": seed, "cases": [row for number in only for row in _alone(out, number, seed)]}
    found: dict[str, Any] = {"seed": seed, "fabrics": fabrics, "cases": [], "worse": [], "parted": 0}
    print(f"\nflows slowed by failures\n  {'case':40}{'method':30}{'slowed':>8}{'mean share':>12}{'max':>7}", file=out)
    for case in three_cases():
        for row in compared(case):
            found["cases"].append({"case": case.name, **row._asdict()})
            print(f"  {case.name:40}{row.method:30}{row.slowed:8,}{row.mean_share:12.4f}{row.max_utilisation:7.2f}",
                  file=out, flush=True)  # fmt: skip
    totals: dict[str, int] = {}
    for number in range(fabrics):
        case = drawn(number, seed)
        rows = compared(case)
        if not rows:
            found["parted"] += 1
            continue
        ours, *others = rows
        for row in rows:
            totals[row.method] = totals.get(row.method, 0) + row.slowed
        worse = [row for row in others if row.slowed < ours.slowed]
        for row in worse:
            found["worse"].append({"number": number, "case": case.name, "ours": ours._asdict(), **row._asdict()})
            print(f"  {number}: {case.name}: ours slows {ours.slowed} (max {ours.max_utilisation:.3f}), "
                  f"{row.method} {row.slowed} (max {row.max_utilisation:.3f})", file=out, flush=True)  # fmt: skip
    sums = ", ".join(f"{method} {count:,}" for method, count in totals.items())
    print(
        f"  {fabrics} random fabrics, seed {seed}, without {found['parted']} that failures part: slowed in all: {sums};"
        f" ours worse in {len(found['worse'])}",
        file=out,
    )
    return {**found, "totals": totals}


def _alone(out: TextIO, number: int, seed: int) -> Iterator[dict[str, Any]]:
    case = drawn(number, seed)
    for row in compared(case):
        print(f"  {number}: {case.name:50}{row.method:30}{row.slowed:8,}{row.mean_share:12.4f}"
              f"{row.max_utilisation:8.3f}", file=out, flush=True)  # fmt: skip
        yield {"number": number, "case": case.name, **row._asdict()}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m heddle.benchmarks.planning.drawn.slowed", description=__doc__)
    parser.add_argument("--fabrics", type=int, default=FABRICS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", default=(), metavar="NUMBER", help="only these random fabrics")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output at the end")
    options = parser.parse_args(arguments)
    found = run(sys.stderr if options.json else sys.stdout, options.fabrics, options.seed, options.only)
    if options.json:
        json.dump(found, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
