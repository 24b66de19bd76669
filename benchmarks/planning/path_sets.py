"""Path sets: how far planned ones are from the bound for flows split in any parts, beside others, and what they cost.

All of it is what `heddle plan` does. "seconds" are processor time of paths, lists and rates; "resident" is the largest
resident memory of the process after the row in MB, all rows before it included.
"""

import json
import random
import resource
import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.plan import Plan
from heddle.controller.planner.solve import Draft, certified, draft
from heddle.controller.planner.warm import PLANNING, warm

LARGE = {"kind": "spine_leaf", "spines": 64, "leaves": 128, "hosts_per_leaf": 64, "gbps": 400}
SMALL = {"kind": "spine_leaf", "spines": 32, "leaves": 64, "hosts_per_leaf": 32, "gbps": 100}
Rate = Callable[[random.Random], int]


class Case(NamedTuple):
    """A fabric, permutations of its NICs, the rate of a flow in bit/s (0: elastic), and which part of cables is cut."""

    name: str
    shape: dict[str, object]
    permutations: int
    rate: Rate
    cut: float


CASES = (
    Case("131,072 flows", LARGE, 16, lambda _: 0, 0.0),
    Case("a permutation", SMALL, 1, lambda _: 0, 0.0),
    Case("25, 50 and 100 Gbit/s", SMALL, 1, lambda draw: 10**9 * draw.choice((25, 50, 100)), 0.0),
    Case("2 % cut", SMALL, 1, lambda _: 0, 0.02),
    Case("5 % cut", SMALL, 1, lambda _: 0, 0.05),
)


def run(out: TextIO) -> list[dict[str, object]]:
    """Print a row for each case and number of paths; return the rows."""
    warm(PLANNING)
    found = []
    print(
        f"{'case':24}{'paths':>6}{'planned':>9}{'random':>8}{'all':>8}{'one':>8}{'seconds':>9}{'resident':>9}", file=out
    )
    for case in CASES:
        fabric = parse_fabric(json.dumps({"version": 1, "name": "bench", "generate": case.shape}), "bench")
        for paths in (32,) if case.permutations > 1 else (4, 8, 16):
            row = _measured(case, fabric, paths)
            found.append(row)
            ratios = "".join(f"{f'{row[name]:.3f}' if row[name] else '-':>8}" for name in ("random", "all", "one"))
            print(f"{case.name:24}{paths:>6}{row['planned']:>9.4f}{ratios}{row['seconds']:>9.3f}{row['resident_mb']:>9.0f}",
                  file=out)  # fmt: skip
    return found


def _measured(case: Case, fabric: Fabric, paths: int) -> dict[str, object]:
    draw = random.Random(7)
    cables = [cable.id for cable in fabric.cables]
    health = Health(down_cables=frozenset(draw.sample(cables, int(case.cut * len(cables)))))
    request = _job(case, fabric, paths, draw)
    draft(fabric, (request,), health=health)  # loads what this case needs
    began = time.process_time()
    drafted = draft(fabric, (request,), health=health)
    seconds = time.process_time() - began
    resident_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert isinstance(drafted, Draft)
    plan = certified(drafted)
    assert isinstance(plan, Plan)
    certificate, other = plan.certificate, plan.certificate.spraying
    assert other is not None
    bound = certificate.lower_bound
    return {
        "case": case.name, "paths": paths, "planned": certificate.max_link_utilisation / bound,
        "random": other.random_sets_max_link_utilisation / bound, "all": other.all_paths_max_link_utilisation / bound,
        "one": other.single_path_max_link_utilisation / bound, "seconds": seconds, "resident_mb": resident_mb,
    }  # fmt: skip


def _job(case: Case, fabric: Fabric, paths: int, draw: random.Random) -> JobRequest:
    """Return a job in which every NIC sends to one on another leaf in each permutation."""
    ranks, flows = len(fabric.nics), list[FlowDemand]()
    for number in range(case.permutations):
        leaf = int(str(case.shape["hosts_per_leaf"]))
        within = draw.sample(range(leaf), leaf)
        flows += [
            FlowDemand(i, ((i // leaf + 1 + number + i % leaf) * leaf + within[i % leaf]) % ranks, case.rate(draw))
            for i in range(ranks)
        ]
    flows = [flow for flow in flows if flow.src_rank // leaf != flow.dst_rank // leaf]
    one = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1, flows=tuple(flows), paths_per_flow=paths)
    return JobRequest(job_id="sprayed", ranks=tuple(nic.id for nic in fabric.nics), collectives=(one,))
