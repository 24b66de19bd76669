"""The planning methods by name: ours and its peers, each from a `Problem` to an `Answer`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heddle.benchmarks.planning.peers.first_fit import global_first_fit, least_loaded
from heddle.benchmarks.planning.peers.hashing import e_ecmp, ecmp
from heddle.benchmarks.planning.peers.problem import Answer, Problem
from heddle.benchmarks.planning.peers.shortest_path import shortest_path
from heddle.benchmarks.planning.peers.simulated_annealing import simulated_annealing
from heddle.controller.planner.route import Router

OURS = "heddle"
GREEDY = "least loaded, largest first"
FIRST_FIT = "Hedera global first fit"
ANNEALING = "Hedera simulated annealing"
NETWORKX = "networkx shortest path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method to choose paths; `timed` if a planner would run it, `slow` if it searches flow by flow."""

    paths: Callable[[Problem, int], Answer]
    timed: bool = True
    slow: bool = False


def ours(problem: Problem, seed: int) -> Answer:
    """Return the paths of our planner: the step of `draft` between expanding jobs and choosing source ports."""
    count = len(problem.flows)
    router = Router(topology=problem.topology, live=problem.live)
    base = [(0, problem.base)] if problem.base.any() else []
    alone = np.full(count, -1, dtype=np.int64)
    return Answer.of(problem, router.route(problem.flows, np.zeros(count, dtype=np.int64), base, alone, {}))


METHODS = {
    OURS: Method(paths=ours),
    GREEDY: Method(paths=least_loaded),
    FIRST_FIT: Method(paths=global_first_fit),
    ANNEALING: Method(paths=simulated_annealing),
    NETWORKX: Method(paths=shortest_path, slow=True),
    "ECMP": Method(paths=ecmp, timed=False),
    "E-ECMP": Method(paths=e_ecmp, timed=False),
}
