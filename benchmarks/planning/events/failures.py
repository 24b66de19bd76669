"""Links fail on a fabric that is 90 % full: the planner of the service, beside planning everything again.

Jobs of rings fill 90 % of 1,024 GPUs at random, each flow on links of its own. Then links fail one after the other. The
service's planner (`OnlinePlanner`) places the flows of each and may move so many others for each link; the full planner
plans all flows again after the last one. The bound holds for any plan.
"""

from collections.abc import Sequence
from typing import TextIO

import numpy as np

from heddle.benchmarks.planning.events.arrivals import FABRICS, GPUS
from heddle.benchmarks.planning.events.running import Running
from heddle.benchmarks.planning.events.service import Service, any_flows, moved_by
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.moves import MAX_MOVES
from heddle.controller.planner.ground.clos import Live, topology_of

LINKS, BUDGETS, TRIALS = (1, 4, 16), (0, 16, 64), 10
FULL, JOB = 0.9, 64


def filled(fabric: Fabric, rng: np.random.Generator) -> Service:
    """Return a service whose jobs use 90 % of the NICs."""
    service, order = Service(fabric), rng.permutation(len(fabric.nics))
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=10**9)
    for begin in range(0, int(FULL * len(order)), JOB):
        ranks = tuple(fabric.nics[nic].id for nic in order[begin : min(begin + JOB, int(FULL * len(order)))].tolist())
        request = JobRequest(job_id=f"job{begin}", ranks=ranks, collectives=(ring,))
        service.arrive(request, any_flows(MAX_MOVES))
    return service


def failing(service: Service, fabric: Fabric, cables: Sequence[str], budget: int) -> tuple[int, float]:
    """Let cables fail one by one; return how many flows moved that none of them severed, and the bound then."""
    moved, bound = 0, 0.0
    for number, cable in enumerate(cables, start=1):
        ends = fabric.cable_by_link[cable]
        severed = service.severed(frozenset((ends.up_link, ends.down_link)))
        plan = service.become(Health(down_cables=frozenset(cables[:number])), any_flows(budget))
        moved, bound = moved + moved_by(plan) - severed, plan.certificate.lower_bound
    return moved, bound


def trial(kind: str, links: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Return fullest link, job speed and other flows moved of each method, and the bound as `bound`."""
    fabric, found = FABRICS[kind](), dict[str, tuple[float, float, float]]()
    topology = topology_of(fabric)
    down = np.random.default_rng([seed, 1]).permutation(topology.cables)[:links].tolist()
    ids = [topology.cable_ids[cable] for cable in down]
    running, health = Running(topology), Health(down_cables=frozenset(ids))
    for budget in BUDGETS:
        service = filled(fabric, np.random.default_rng(seed))
        moved, bound = failing(service, fabric, ids, budget)
        running.follow(service)
        found[str(budget)], found["bound"] = (*running.figures(), moved), (bound, 1.0, 0.0)
    running.follow(filled(fabric, np.random.default_rng(seed)))
    hit = [np.isin(hops, [*down, *(topology.cables + cable for cable in down)]) for _, hops in running.jobs.values()]
    victims = sum(int(on.any(axis=1).sum()) for on in hit)
    running.live = Live.of(topology, health)
    moved = running.plan_again() - victims
    found["full plan"] = (*running.figures(), moved)
    return found


def run(out: TextIO, trials: int = TRIALS, seed: int = 1) -> dict[str, object]:
    """Measure, print a table and return the figures."""
    names = [*map(str, BUDGETS), "full plan", "bound"]
    print(
        f"\nlinks fail with {GPUS:,} GPUs {FULL:.0%} full, {trials} trials from seed {seed}: mean fullest link / mean "
        f"job speed (other flows moved), by moves for each link\n  {'':18}" + "".join(f"{name:>20}" for name in names),
        file=out,
    )
    found: dict[str, object] = {"seed": seed, "trials": trials}
    for kind in FABRICS:
        for links in LINKS:
            rows = [trial(kind, links, seed + number) for number in range(trials)]
            means = {name: [float(np.mean([row[name][i] for row in rows])) for i in range(3)] for name in names}
            found[f"{kind}, {links}"] = {name: dict(zip(("fullest", "speed", "moved"), means[name], strict=True))
                                         for name in names}  # fmt: skip
            cells = (f"{full:.2f}/{speed:.2f} ({moved:.0f})" for full, speed, moved in means.values())
            print(f"  {kind + ', ' + str(links):18}" + "".join(f"{cell:>20}" for cell in cells), file=out, flush=True)
    return found
