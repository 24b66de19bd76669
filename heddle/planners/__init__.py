"""Planners of other distributions: what one gets, what it returns, and how it is found.

A planner is a class with no arguments, named by an entry point of the group `heddle.planners`:

    class FirstFit:
        interface = 1  # the version of this interface that it was written for

        def paths(self, problem: Problem) -> dict[str, Sequence[str]]:
            return {demand.flow_id: next(problem.shortest_paths(demand)) for demand in problem.demands}

docs/planners.md has a whole distribution. `heddle plan --planner NAME` and `heddle bench plan` run it in a process of
its own, with a time limit.
"""

from heddle.planners.problem import INTERFACE, Demand, Planner, Problem, Running

__all__ = ["INTERFACE", "Demand", "Planner", "Problem", "Running"]
