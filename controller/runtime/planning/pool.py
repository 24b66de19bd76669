"""Plan in two processes: one for transactions, one for previews and placements.

Something urgent never waits for a solve: where the first process is still busy after GRACE_S, it is killed, and the
second takes its place. A preview or placement that takes too long is killed as well.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from controller.model.effect import Place, Solve
from controller.model.error import BudgetExceededError, HeddleError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.placement import Placement
from controller.model.plan import Infeasible, Replan
from controller.runtime.planning.worker import Worker, WorkerLostError

GRACE_S = 0.05
"""An urgent request waits so long for a solve to end by itself."""
Result = TypeVar("Result")
Finish = Callable[[Solve, Replan], Replan]
_LOG = logging.getLogger("heddle.controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a request may take, in seconds."""

    plan_s: float = 60.0
    preview_s: float = 10.0


class PlannerPool:
    """The planner's processes. `finish` completes a plan in the thread that has received it."""

    def __init__(self, fabric: Fabric, finish: Finish, limits: Limits | None = None) -> None:
        self._fabric, self._finish, self._limits = fabric, finish, limits or Limits()
        self._threads = ThreadPoolExecutor(max_workers=6, thread_name_prefix="planner")
        self._first, self._second = Worker(fabric), Worker(fabric)
        self._turn = {worker: asyncio.Lock() for worker in (self._first, self._second)}
        self._urgent = 0
        self.killed = 0
        """The processes that were killed because something urgent waited, or time was up."""

    async def solve(self, problem: Solve) -> tuple[Replan | Infeasible | HeddleError, int]:
        """Plan; a failure of the process is an error as a value."""
        if problem.preview:
            return await self._limited(self._second, problem, self._limits.preview_s)
        if problem.urgent:
            await self._make_way()
        self._urgent += problem.urgent
        try:
            return await self._limited(self._first, problem, self._limits.plan_s)
        finally:
            self._urgent -= problem.urgent

    async def place(self, problem: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Find places; a failure of the process is an error as a value."""
        worker = self._second
        try:
            async with self._turn[worker]:
                return await self._in_time(worker, lambda: worker.place(problem), self._limits.preview_s)
        except TimeoutError:
            return _too_long(self._limits.preview_s)
        except WorkerLostError:
            return _lost()
        finally:
            self._revive(worker)

    def close(self) -> None:
        """End the processes; does not wait for requests under way."""
        for worker in (self._first, self._second):
            worker.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _limited(
        self, worker: Worker, problem: Solve, limit_s: float
    ) -> tuple[Replan | Infeasible | HeddleError, int]:
        try:
            async with self._turn[worker]:
                return await self._in_time(worker, lambda: self._solved(worker, problem), limit_s)
        except TimeoutError:
            return _too_long(limit_s), 0
        except WorkerLostError:
            return _lost(), 0
        finally:
            self._revive(worker)

    def _solved(self, worker: Worker, problem: Solve) -> tuple[Replan | Infeasible | HeddleError, int]:
        outcome, solve_ns = worker.solve(problem)
        return (self._finish(problem, outcome) if isinstance(outcome, Replan) else outcome), solve_ns

    async def _in_time(self, worker: Worker, work: Callable[[], Result], limit_s: float) -> Result:
        """Run blocking work in a thread; after the limit the process is killed, and TimeoutError raised."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        done, _ = await asyncio.wait((running,), timeout=limit_s)
        if not done:
            self._kill(worker)
            with contextlib.suppress(WorkerLostError):
                await running
            raise TimeoutError
        return await running

    async def _make_way(self) -> None:
        """Free the first process: if it stays busy with what is not urgent, kill it and let the second take its place.

        Something urgent is not interrupted: each interruption costs the work of a process that starts.
        """
        end = asyncio.get_running_loop().time() + GRACE_S
        while self._first.busy and (self._urgent or asyncio.get_running_loop().time() < end):
            await asyncio.sleep(GRACE_S / 10)
        if self._first.busy:
            if self._second.busy:
                self._kill(self._second)
                self._replace_second()
            busy, self._first = self._first, self._second
            self._second = busy
            self._kill(busy)
            self._replace_second()

    def _kill(self, worker: Worker) -> None:
        self.killed += 1
        worker.kill()

    def _revive(self, worker: Worker) -> None:
        """Replace a process that has ended."""
        if worker is self._second and not worker.alive:
            self._replace_second()
        elif worker is self._first and not worker.alive:
            _LOG.error("the planner's process %d ended; another takes its place", worker.pid)
            self._first, self._second = self._second, worker
            self._replace_second()

    def _replace_second(self) -> None:
        ended, self._second = self._second, Worker(self._fabric)
        self._turn[self._second] = asyncio.Lock()
        self._turn.pop(ended, None)
        ended.close()


def _too_long(limit_s: float) -> HeddleError:
    return BudgetExceededError(f"planning took more than {limit_s:g} s; ask for fewer flows or phases at once")


def _lost() -> HeddleError:
    return UnavailableError("the planner was interrupted by something urgent, or ended; retry")
