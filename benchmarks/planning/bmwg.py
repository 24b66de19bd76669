"""`heddle bench bmwg`: tables of the IETF's draft on AI training fabrics for ECMP, E-ECMP and planned paths, computed.

The measures are those of draft-calabria-bmwg-ai-fabric-training-bench: max-mean ratio (MMR) of flows and Jain's
fairness index (JFI) of bytes over the parallel uplinks of a leaf, bus bandwidth (BusBW) of collectives per accelerator,
the ratio of completion time to its roofline, and the interference factor of a second job. Times are of the fluid model
(`heddle.library.fluid`): max-min fair rates, no queues, no headers. docs/published.md has the tables.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np

from heddle.benchmarks.planning.cases import two_tiers
from heddle.benchmarks.planning.methods import ours
from heddle.benchmarks.planning.peers.hashing import e_ecmp, ecmp
from heddle.benchmarks.planning.peers.problem import Answer, Problem, problem_of
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.planner.ground.jit import Floats
from heddle.controller.planner.ground.loads import link_places
from heddle.library.fluid.completion import completion_times

SIZE_BYTES = 10**9
"""S, the message of a collective."""
BALANCERS: dict[str, Callable[[Problem, int], Answer]] = {"ECMP": ecmp, "E-ECMP": e_ecmp, "planned": ours}
KINDS = {
    "all-reduce": (CollectiveKind.RING_ALL_REDUCE, lambda n: 2 * (n - 1) / n),
    "all-gather": (CollectiveKind.ALL_GATHER, lambda n: (n - 1) / n),
    "all-to-all": (CollectiveKind.ALL_TO_ALL, lambda n: (n - 1) / n),
}
"""The collectives, and the draft's algorithm factor for n accelerators."""
FABRICS = {128: 8, 512: 16}
"""Accelerators, one NIC each, and NICs and uplinks of a leaf."""
COMPUTING_MS = (10, 50, 100, 500)
OVERLAPS = (0.0, 0.25, 0.5, 0.75)


class Balance(NamedTuple):
    """How evenly the uplinks of a leaf are used, the mean over the leaves and the worst leaf."""

    mmr: float
    worst_mmr: float
    jfi: float
    worst_jfi: float


def finish_s(problem: Problem, answer: Answer) -> Floats:
    """Return when each path's part of its flow completes, in seconds; all begin together."""
    flows = problem.flows.rows(answer.row)
    size_bytes = flows.size_bytes * answer.demand / flows.demand_bps
    places = link_places(problem.topology, flows, answer.hops)
    capacity = problem.topology.capacity.astype(np.float64)
    return completion_times(places, capacity, size_bytes).completion_ns / 1e9


def balance(problem: Problem, answer: Answer, uplinks: int) -> Balance:
    """Return the balance over leaves with so many uplinks each, which have the numbers 0 to 1 less, and so on.

    A leaf that sends nothing upwards does not count.
    """
    first = answer.hops[:, 0]
    up = first >= 0
    leaves = len(problem.leaves)
    bytes_sent = problem.flows.size_bytes[answer.row] * answer.demand / problem.flows.demand_bps[answer.row]
    counts = np.bincount(first[up], minlength=leaves * uplinks)[: leaves * uplinks].reshape(leaves, uplinks)
    sent = np.bincount(first[up], weights=bytes_sent[up], minlength=leaves * uplinks)
    sent = sent[: leaves * uplinks].reshape(leaves, uplinks)
    busy = counts.sum(axis=1) > 0
    mmr = counts[busy].max(axis=1) / counts[busy].mean(axis=1)
    jfi = sent[busy].sum(axis=1) ** 2 / (uplinks * (sent[busy] ** 2).sum(axis=1))
    return Balance(float(mmr.mean()), float(mmr.max()), float(jfi.mean()), float(jfi.min()))


def job_of(fabric: Fabric, kind: CollectiveKind, ranks: Sequence[int], name: str = "job") -> JobRequest:
    """Return a job of one collective on these NICs."""
    collective = Collective(kind=kind, size_bytes=SIZE_BYTES)
    return JobRequest(job_id=name, ranks=tuple(fabric.nics[rank].id for rank in ranks), collectives=(collective,))


def _collectives(seed: int) -> Iterator[dict[str, Any]]:
    """Measure every collective at every size: ranks at random NICs, so that rings leave their leaves."""
    for accelerators, uplinks in FABRICS.items():
        fabric = two_tiers(accelerators, uplinks)
        ranks = np.random.default_rng(seed).permutation(accelerators).tolist()
        line_rate_bps = fabric.nics[0].capacity_bps
        for name, (kind, factor) in KINDS.items():
            problem = problem_of(fabric, [job_of(fabric, kind, ranks)], health=Health())
            roofline_s = 8 * SIZE_BYTES * factor(accelerators) / line_rate_bps
            for balancer, paths in BALANCERS.items():
                answer = paths(problem, seed)
                seconds = float(finish_s(problem, answer).max())
                yield {
                    "collective": name, "accelerators": accelerators, "balancer": balancer, "seconds": seconds,
                    "busbw_bps": 8 * SIZE_BYTES * factor(accelerators) / seconds,
                    "busbw_efficiency": roofline_s / seconds, **balance(problem, answer, uplinks)._asdict(),
                    "jct_ratio": {ms: (ms / 1e3 + seconds) / (ms / 1e3 + roofline_s) for ms in COMPUTING_MS},
                }  # fmt: skip


def _interference(seed: int) -> list[dict[str, Any]]:
    """Measure two rings of half a leaf's NICs each on eight leaves: of the second's leaves a share has the first too.

    Where both are on a leaf they share its uplinks; elsewhere each has the leaf for itself.
    """
    fabric = two_tiers(128, 8)
    rng = np.random.default_rng(seed)
    found = []
    for overlap in OVERLAPS:
        shift = round(8 * (1 - overlap))
        places = [[8 * leaf + nic for leaf in range(8) for nic in range(4)],
                  [8 * (leaf + shift) + nic for leaf in range(8) for nic in range(4, 8)]]  # fmt: skip
        jobs = [
            job_of(fabric, CollectiveKind.RING_ALL_REDUCE, rng.permutation(ranks).tolist(), f"job{index}")
            for index, ranks in enumerate(places)
        ]
        alone = problem_of(fabric, jobs[:1], health=Health())
        both = problem_of(fabric, jobs, health=Health())
        for balancer, paths in BALANCERS.items():
            answer = paths(both, seed)
            first = finish_s(both, answer)[both.flows.job[answer.row] == 0].max()
            beside = first / finish_s(alone, paths(alone, seed)).max()
            found.append({"overlap": overlap, "balancer": balancer, "interference_factor": float(beside)})
    return found


def run(out: TextIO, *, seed: int = 1) -> dict[str, Any]:
    """Print the tables, each row as soon as it is measured, and return the figures."""
    print("1 GB, ranks at random NICs of two tiers, one NIC of 100 Gbit/s each", file=out)
    heads = "".join(f"{f'C={ms} ms':>10}" for ms in COMPUTING_MS)
    print(
        f"{'collective':>12}     N  balancer  BusBW Gbit/s  of line  MMR mean  worst  JFI mean  worst{heads}",
        file=out, flush=True,
    )  # fmt: skip
    collectives = []
    for row in _collectives(seed):
        _print_collective(out, row)
        collectives.append(row)
    interference = _interference(seed)
    print("\ncompletion of a ring of 32 beside a second one, over alone; by the share of leaves with both", file=out)
    print(f"{'balancer':>12}" + "".join(f"{overlap:8.0%}" for overlap in OVERLAPS), file=out)
    for balancer in BALANCERS:
        own = [row["interference_factor"] for row in interference if row["balancer"] == balancer]
        print(f"{balancer:>12}" + "".join(f"{factor:8.2f}" for factor in own), file=out)
    return {"seed": seed, "collectives": collectives, "interference": interference}


def _print_collective(out: TextIO, row: dict[str, Any]) -> None:
    ratios = "".join(f"{ratio:10.2f}" for ratio in row["jct_ratio"].values())
    print(
        f"{row['collective']:>12} {row['accelerators']:5} {row['balancer']:>9} {row['busbw_bps'] / 1e9:13.1f} "
        f"{row['busbw_efficiency']:8.2f} {row['mmr']:9.2f} {row['worst_mmr']:6.2f} {row['jfi']:9.2f} "
        f"{row['worst_jfi']:6.2f}{ratios}",
        file=out, flush=True,
    )  # fmt: skip
