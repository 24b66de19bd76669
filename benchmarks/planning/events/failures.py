"""Links fail on a fabric that is 90 % full: sessions that may move a few flows, beside planning everything again.

Jobs of rings fill 90 % of 1,024 GPUs at random, each flow on links of its own. Then links fail one after the other. A
session places the flows of each and may move so many others for each link; the full planner plans all flows again
after the last one. The bound holds for any plan.
"""

from typing import TextIO

import numpy as np

from heddle.benchmarks.planning.events.arrivals import FABRICS, GPUS
from heddle.benchmarks.planning.events.running import Running
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.session.delta import Delta
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session

LINKS, BUDGETS, TRIALS = (1, 4, 16), (0, 16), 10
FULL, JOB = 0.9, 64
FREE = Moves(who=Movable.ALL)


def filled(fabric: Fabric, rng: np.random.Generator) -> Session:
    """Return a session whose jobs use 90 % of the NICs."""
    session, order = Session.begin(fabric), rng.permutation(len(fabric.nics))
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=10**9)
    for begin in range(0, int(FULL * len(order)), JOB):
        ranks = tuple(fabric.nics[nic].id for nic in order[begin : min(begin + JOB, int(FULL * len(order)))].tolist())
        session.add(JobRequest(job_id=f"job{begin}", ranks=ranks, collectives=(ring,)), FREE)
    return session


def trial(kind: str, links: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Return fullest link, job speed and other flows moved of each method, and the bound as `bound`."""
    fabric, found = FABRICS[kind](), dict[str, tuple[float, float, float]]()
    topology = topology_of(fabric)
    down = np.random.default_rng([seed, 1]).permutation(topology.cables)[:links].tolist()
    ids = [topology.cable_ids[cable] for cable in down]
    running, health = Running(topology), Health(down_cables=frozenset(ids))
    for budget in BUDGETS:
        session, moved, bound = filled(fabric, np.random.default_rng(seed)), 0, 0.0
        for cable in ids:
            delta = session.link_down(cable, Moves(budget=budget, who=Movable.ALL))
            assert isinstance(delta, Delta)
            moved, bound = moved + delta.moved, delta.lower_bound
        running.follow(session)
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
