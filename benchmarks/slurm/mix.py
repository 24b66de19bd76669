"""A seeded mix of jobs, and what is counted of a run of it: leaves, makespan, the fullest link as Heddle plans it.

The sizes and durations are those of facts that were measured before: 40 jobs of 1 to 8 nodes a seed, of which 68 of the
seeds 1 and 2 have several nodes. What a job sends is drawn apart, so that it changes neither.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from heddle.benchmarks.planning.events.service import Service
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import DEFAULT_MOVES, Cause
from heddle.controller.model.plan import Certificate
from heddle.controller.schedulers.slurm_descriptions import described_collective
from heddle.controller.schedulers.slurm_jobs import NicOfHost, nics_of_hosts, request_of

JOBS, SEEDS = 40, (1, 2)
SIZES = (1, 1, 2, 2, 3, 4, 4, 6, 8)
SHORTEST_S, LONGEST_S = 0.5, 3.0
KINDS = ("RING_ALL_REDUCE", "ALL_TO_ALL")
LEASE_MS = 120_000


class MixedJob(NamedTuple):
    """A job as it is submitted: its number of nodes, how long it runs, and its comment."""

    nodes: int
    seconds: float
    comment: str


class Run(NamedTuple):
    """A job as it ran: its nodes, and the wall clock at the start and end of its script in s."""

    job: MixedJob
    nodes: tuple[str, ...]
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The fullest link of all planned jobs, weighed by time, and at most; the share of time beyond 1; mean share."""

    mean_fullest: float
    max_fullest: float
    time_over_capacity: float
    mean_share: float


def drawn(seed: int, jobs: int = JOBS) -> list[MixedJob]:
    """Return the jobs of a seed in the order in which they are submitted."""
    sizes, kinds = random.Random(seed), random.Random(f"kinds of {seed}")
    return [
        MixedJob(sizes.choice(SIZES), sizes.uniform(SHORTEST_S, LONGEST_S), f"heddle: collective={kinds.choice(KINDS)}")
        for _ in range(jobs)
    ]


def leaves_used(nodes: Sequence[str], leaf_of: Mapping[str, str]) -> int:
    """Return the number of leaves above the nodes."""
    return len({leaf_of[node] for node in nodes})


def fewest_leaves(nodes: int, per_leaf: int) -> int:
    """Return the number of leaves that so many nodes need at least."""
    return -(-nodes // per_leaf)


def planned(fabric: Fabric, runs: Sequence[Run]) -> Planned:
    """Plan jobs as they came and went by the service's planner, with its default limits of moves.

    Requests are those of `heddle slurm agent` by the jobs' comments; jobs on one host are not planned. Times count from
    the first event to the last.
    """
    nics, service = nics_of_hosts(fabric), Service(fabric)
    requests = {number: _request(number, run, nics) for number, run in enumerate(runs)}
    events = sorted(
        (at_s, is_start, number)
        for number, run in enumerate(runs)
        if requests[number] is not None
        for at_s, is_start in ((run.start_s, True), (run.end_s, False))  # of one moment, what ends comes first
    )
    weights, certificates = [], []
    for (at_s, is_start, number), after in zip(events, [*events[1:], events[-1]], strict=True):
        request = requests[number]
        assert request is not None
        if is_start:
            plan = service.arrive(request, DEFAULT_MOVES[Cause.ARRIVAL])
        else:
            plan = service.leave(request.job_id, DEFAULT_MOVES[Cause.RELEASE])
        weights.append(after[0] - at_s)
        certificates.append(plan.certificate)
    return _weighed(weights, certificates)


def _request(number: int, run: Run, nics: Mapping[str, Sequence[NicOfHost]]) -> JobRequest | None:
    """Return what the agent would submit for a job."""
    request, described = request_of(number + 1, run.nodes, nics, LEASE_MS), described_collective(run.job.comment)
    assert described is not None
    return request and replace(request, collectives=(described,))


def _weighed(weights: Sequence[float], certificates: Sequence[Certificate]) -> Planned:
    fullest = [each.max_link_utilisation for each in certificates]
    over = [float(each.links_over_capacity > 0) for each in certificates]
    shares = [each.mean_share for each in certificates]
    return Planned(
        mean_fullest=statistics.fmean(fullest, weights),
        max_fullest=max(fullest),
        time_over_capacity=statistics.fmean(over, weights),
        mean_share=statistics.fmean(shares, weights),
    )
