"""Hedera's global first fit (Al-Fares et al., NSDI 2010, 5.1): a flow takes its first path whose links have room."""

import random
from collections import Counter

from heddle.planners import Demand, Problem


class FirstFit:
    """A planner of the group `heddle.planners`."""

    interface = 1

    def paths(self, problem: Problem) -> dict[str, tuple[str, ...]]:
        """Place the flows in their order, each beside those before it; without room a flow keeps a random path."""
        load = Counter(problem.other_bps)
        for flow in problem.running:
            load.update(dict.fromkeys(flow.links, flow.demand.demand_bps))
        draw, found = random.Random(problem.seed), {}
        for demand in problem.demands:
            path = self._first_with_room(problem, demand, load) or draw.choice([*problem.shortest_paths(demand)])
            load.update(dict.fromkeys(path, demand.demand_bps))
            found[demand.flow_id] = path
        return found

    def _first_with_room(self, problem: Problem, demand: Demand, load: Counter[str]) -> tuple[str, ...] | None:
        room = problem.capacity_bps
        for path in problem.shortest_paths(demand):
            if all(load[link] + demand.demand_bps <= room[link] for link in path[1:-1]):
                return path
        return None
