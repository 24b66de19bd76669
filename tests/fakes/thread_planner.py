"""The planner in threads; `tests/unit/runtime/test_planner_pool.py` compares it with the planner's processes."""

import asyncio
import time
from threading import Lock

from heddle.controller.brain.steering.table import steering_of
from heddle.controller.model.effect import Place, Solve
from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.placement import Placement
from heddle.controller.model.plan import Infeasible, Replan
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.planner.placement.suggest import suggest


class ThreadPlanner:
    """Plans as `PlannerPool` does, but what is urgent waits for what is being planned, and no process starts."""

    def __init__(self, fabric: Fabric) -> None:
        self.use(fabric)
        self._turns = {False: Lock(), True: Lock()}

    def start(self) -> None:
        """Nothing has to start."""

    def use(self, fabric: Fabric) -> None:
        """Plan with another fabric."""
        self._fabric = fabric
        self._planners = {False: OnlinePlanner(fabric), True: OnlinePlanner(fabric)}

    async def solve(self, problem: Solve) -> tuple[Replan | Infeasible | HeddleError, int]:
        """Plan in a thread, one problem after the other."""

        def solved() -> tuple[Replan | Infeasible | HeddleError, int]:
            with self._turns[problem.preview]:
                return self._solved(problem)

        return await asyncio.to_thread(solved)

    async def place(self, problem: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Find places in a thread."""
        try:
            return await asyncio.to_thread(
                suggest, self._fabric, problem.shape, health=problem.health, kept=problem.kept,
                degraded=problem.degraded,
            )  # fmt: skip
        except HeddleError as error:
            return error

    def close(self) -> None:
        """Nothing has to end."""

    def _solved(self, problem: Solve) -> tuple[Replan | Infeasible | HeddleError, int]:
        started = time.monotonic_ns()
        plan: Replan | Infeasible | HeddleError
        try:
            plan = self._planners[problem.preview].solve(
                problem.requests, health=problem.health, kept=problem.kept, limit=problem.limit,
                subject=problem.subject, background=problem.background, degraded=problem.degraded,
                has_happened=problem.has_happened, amend=problem.amend,
            )  # fmt: skip
        except HeddleError as error:
            plan = error
        elapsed_ns = time.monotonic_ns() - started
        if isinstance(plan, Replan):
            plan = steering_of(self._fabric).completed(self._fabric, problem, plan)
        return plan, elapsed_ns
