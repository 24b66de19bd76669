"""The fullest link after a cable failed, for each limit of moves, beside a full plan of all flows."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.controller.model.moves import MAX_MOVES, NO_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import Plan, Replan
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.planner.solve import solve

LIMITS = {
    "any unlimited": MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES),
    "any 64": MoveLimit(whose=Whose.ANY, max_flows=64),
    "none": NO_MOVES,
}


class Ratio(NamedTuple):
    """Utilisation of the fullest link over that of a full plan, and how many flows moved, with one limit of moves."""

    limit: str
    utilisation: float
    moved: int


def permutations(fabric: Fabric, seed: int, count: int) -> JobRequest:
    """Return a job of random permutations of the NICs, all at once."""
    drawn = random.Random(seed)
    pairs: list[RankPair] = []
    for _ in range(count):
        order = list(range(len(fabric.nics)))
        drawn.shuffle(order)
        pairs += [RankPair(a, b) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    ranks = tuple(nic.id for nic in fabric.nics)
    one = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1_000_000, pairs=tuple(dict.fromkeys(pairs)))
    return JobRequest(job_id=f"permutations-{seed}", ranks=ranks, collectives=(one,))


def measured(fabric: Fabric, seed: int, jobs: int, failures: int) -> Iterator[Ratio]:
    """Let cables fail one after the other, without return, under jobs of one to four permutations."""
    for number in range(jobs):
        request = permutations(fabric, seed + number, 1 + number % 4)
        order = random.Random(seed + number).sample(fabric.cables, failures)
        for limit, moves in LIMITS.items():
            planner = OnlinePlanner(fabric)
            kept = _kept(request, planner.solve([request], health=Health(), kept=()))
            for count in range(1, failures + 1):
                health = Health(down_cables=frozenset(cable.id for cable in order[:count]))
                found = planner.solve([], health=health, kept=kept, limit=moves)
                kept, full = _kept(request, found), solve(fabric, [request], health=health)
                assert isinstance(found, Replan)
                assert isinstance(full, Plan)
                ratio = found.certificate.max_link_utilisation / full.certificate.max_link_utilisation
                yield Ratio(limit, ratio, sum(moved.flows for moved in found.moved.values()))


def _kept(request: JobRequest, plan: object):
    if not isinstance(plan, Replan):
        raise RuntimeError(f"no plan: {plan}")
    return ((request, plan.jobs[0]),)
