"""NCCL's flows between hosts beside those of the contract: flows, fullest link, and fluid completion of one iteration.

`python -m heddle.benchmarks.planning.nccl` plans collectives of 1 GB on 2, 4 and 16 hosts of 8 GPUs and 8 NICs, half of
them below each of two groups of 8 leaves, a leaf for each rail. Each leaf has a cable to each of 8 spines; all rates
are 100 Gbit/s.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple, TextIO

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.generate import generate
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Algorithm, Collective, CollectiveKind, JobRequest
from heddle.controller.model.plan import Plan
from heddle.controller.planner.solve import solve

HOSTS = (2, 4, 16)
KINDS = (CollectiveKind.RING_ALL_REDUCE, CollectiveKind.TREE_ALL_REDUCE, CollectiveKind.ALL_TO_ALL)
RAILS = 8
SIZE_BYTES = 10**9


class Row(NamedTuple):
    """One collective by one algorithm; utilisations of links between switches, ECMP's beside the plan's."""

    hosts: int
    kind: str
    algorithm: str
    flows: int
    fullest: float
    ecmp: float
    completion_ms: float


def rows() -> Iterator[Row]:
    """Yield a row for each number of hosts, kind and algorithm that differs from the others."""
    for hosts in HOSTS:
        fabric = _fabric(hosts)
        for kind in KINDS:
            for algorithm in Algorithm:
                if algorithm is not Algorithm.NCCL_NO_PXN or kind is CollectiveKind.ALL_TO_ALL:
                    yield _row(fabric, hosts, Collective(kind=kind, size_bytes=SIZE_BYTES, algorithm=algorithm))


def _fabric(hosts: int) -> Fabric:
    shape = GenerateShape(
        kind="rail_optimised", spines=RAILS, leaves=2 * RAILS, hosts_per_leaf=hosts // 2, nics_per_host=RAILS,
        hosts_per_nvlink_domain=1,
    )  # fmt: skip
    parts = generate(shape)
    return Fabric(name="rails", switches=tuple(parts.switches), cables=tuple(parts.cables), nics=tuple(parts.nics))


def _row(fabric: Fabric, hosts: int, collective: Collective) -> Row:
    request = JobRequest(job_id="job", ranks=tuple(nic.id for nic in fabric.nics), collectives=(collective,))
    plan = solve(fabric, (request,), health=Health())
    if not isinstance(plan, Plan):
        raise RuntimeError(plan.why)
    found, job = plan.certificate, plan.jobs[0]
    return Row(
        hosts=hosts,
        kind=collective.kind.name,
        algorithm=collective.algorithm.name,
        flows=len(job.flows),
        fullest=found.max_link_utilisation,
        ecmp=found.ecmp_max_link_utilisation,
        completion_ms=job.predicted_completion_ns / 10**6,
    )


def run(out: TextIO) -> list[Row]:
    """Print the table, row by row, and return the rows."""
    print("| hosts | collective | algorithm | flows | fullest link | by ECMP | one iteration, ms |", file=out)
    print("| --- | --- | --- | --- | --- | --- | --- |", file=out)
    found = []
    for row in rows():
        figures = f"{row.flows:,} | {row.fullest:.2f} | {row.ecmp:.2f} | {row.completion_ms:.1f}"
        print(f"| {row.hosts} | `{row.kind}` | `{row.algorithm}` | {figures} |", file=out, flush=True)
        found.append(row)
    return found


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    run(sys.stdout)
