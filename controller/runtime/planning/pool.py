"""Plan in processes: one for transactions, one for previews and placements, and a spare, started when first needed.

One more seeks the goals of convergences, in the background: with less of the processor where that is busy. It starts
with the first such request.

Something urgent never waits for a solve: where the first process is still busy after GRACE_S with what is not urgent,
it is killed, and one that is ready takes its place. A request that takes too long is killed as well. A process that
loads its kernels is left to it: another one would have to load them again.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from heddle.controller.model.effect import Place, Solve
from heddle.controller.model.error import BudgetExceededError, HeddleError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.placement import Placement
from heddle.controller.model.plan import Infeasible, Replan
from heddle.controller.runtime.planning.worker import Worker, WorkerLostError

NEXT_START_S = 3.0
"""The second process and the spare start so long after a request, which may have to load its own kernels first."""
PROGRESS_S = 10.0
"""A process that loads its kernels for longer is logged so often: after an installation it compiles them."""
LOADING_S = 4.0
"""A process that starts has its kernels after about so long."""
BACKGROUND_NICE = 10
"""What a process in the background adds to its nice value."""
GRACE_S = 0.05
"""An urgent request waits so long for a solve to end by itself."""
Solution = tuple[Replan | Infeasible | HeddleError, int]
Result = TypeVar("Result")
Finish = Callable[[Fabric, Solve, Replan], Replan]
_LOG = logging.getLogger("heddle.controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a request may take, in seconds."""

    plan_s: float = 60.0
    preview_s: float = 10.0


class _Seat:
    """The place of one process: it starts with the first request, and again after it has ended."""

    def __init__(self, fabric: Fabric, nice: int = 0) -> None:
        self._fabric, self._nice = fabric, nice
        self._worker: Worker | None = None
        self.begun = False
        """Whether `_begin_once` has started it."""
        self.turn = asyncio.Lock()
        self.urgent = self.killed = self.loading = False
        """Whether the request under way is urgent, whether it has been ended, and whether the process loads kernels."""
        self.requests = 0
        """How many requests wait or are under way."""

    @property
    def busy(self) -> bool:
        """Return whether a request is under way."""
        return self.turn.locked()

    @property
    def ready(self) -> bool:
        """Return whether a process has its kernels and no request."""
        return self._worker is not None and self._worker.alive and not self.busy

    def use(self, fabric: Fabric) -> None:
        """Let the next process have another fabric; the one that runs ends."""
        self._fabric = fabric
        if self._worker is not None:
            self._worker.kill()

    def worker(self) -> Worker:
        """Return the process, a new one where there is none."""
        if self._worker is not None and not self._worker.alive:
            self.close()
        if self._worker is None:
            self._worker = Worker(self._fabric)
            if self._nice:
                with contextlib.suppress(OSError):  # it may have ended
                    os.setpriority(os.PRIO_PROCESS, self._worker.pid, os.getpriority(os.PRIO_PROCESS, 0) + self._nice)
        return self._worker

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it waits and is under way."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def kill(self) -> None:
        """End the process and with it the request under way."""
        self.killed = True
        if self._worker is not None:
            self._worker.kill()

    def close(self) -> None:
        """End the process and its connection."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class PlannerPool:
    """The planner's processes. `finish` completes a plan in the thread that has received it."""

    def __init__(self, fabric: Fabric, finish: Finish, limits: Limits | None = None) -> None:
        self._fabric, self._finish, self._limits = fabric, finish, limits or Limits()
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="planner")
        self._first, self._second, self._spare = _Seat(fabric), _Seat(fabric), _Seat(fabric)
        self._background = _Seat(fabric, BACKGROUND_NICE)
        self._tasks: set[asyncio.Future[Any]] = set()
        """What `close` cancels: processes that start, and calls in threads."""
        self.killed = 0
        """The requests that were ended because something urgent waited, or their time was up."""

    def start(self) -> None:
        """Start the first process once; it loads its kernels. A controller without jobs needs no other."""
        if not self._first.begun:
            self._first.begun = True
            self._begin(self._first, 0.0)

    def use(self, fabric: Fabric) -> None:
        """Plan with another fabric from now on. Call it after `start`, and before any request."""
        self._fabric = fabric
        for seat in (self._first, self._second, self._spare, self._background):
            seat.use(fabric)
        self._first.begun = False
        self.start()

    def _begin_once(self, seat: _Seat) -> None:
        """Start a process for later requests, where that has not been done."""
        if not seat.begun:
            seat.begun = True
            self._begin(seat, NEXT_START_S)

    def _begin(self, seat: _Seat, delay_s: float) -> None:
        task = asyncio.get_running_loop().create_task(self._warm(seat, delay_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _warm(self, seat: _Seat, delay_s: float) -> None:
        """Let a process start before its first request."""
        await asyncio.sleep(delay_s)
        async with seat.turn:
            with contextlib.suppress(WorkerLostError):
                await self._load(seat, seat.worker())

    async def _load(self, seat: _Seat, worker: Worker) -> None:
        """Wait until a process has its kernels, and log it where requests wait for long; raises WorkerLostError."""
        if worker.begun:
            return
        seat.loading = True
        try:
            loading = self._in_thread(worker.begin)
            while not (await asyncio.wait((loading,), timeout=PROGRESS_S))[0]:
                if seat.requests:
                    _LOG.warning(
                        "requests wait: a planner process loads its kernels, or compiles them after an installation"
                    )
            loading.result()
        finally:
            seat.loading = False

    async def solve(self, problem: Solve) -> Solution:
        """Plan; a failure of the process is an error as a value."""
        if problem.converge:
            with self._background.request():
                return await self._solved(self._background, problem, self._limits.plan_s)
        if problem.preview:
            self._begin_once(self._spare)  # the second is no relief of the first while it has requests
            with self._second.request():
                return await self._solved(self._second, problem, self._limits.preview_s)
        self._begin_once(self._second)
        with self._first.request():
            if problem.urgent:
                await self._make_way()
            return await self._solved(self._first, problem, self._limits.plan_s)

    async def _solved(self, seat: _Seat, problem: Solve, limit_s: float) -> Solution:
        def work(worker: Worker) -> Solution:
            outcome, solve_ns = worker.solve(problem)
            return (self._finish(self._fabric, problem, outcome) if isinstance(outcome, Replan) else outcome), solve_ns

        outcome = await self._in_time(seat, work, limit_s, urgent=problem.urgent)
        return (outcome, 0) if isinstance(outcome, HeddleError) else outcome

    async def place(self, problem: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Find places; a failure of the process is an error as a value."""
        self._begin_once(self._spare)
        with self._second.request():
            return await self._in_time(self._second, lambda worker: worker.place(problem), self._limits.preview_s)

    def close(self) -> None:
        """End the processes; does not wait for requests under way."""
        for task in tuple(self._tasks):
            if not task.get_loop().is_closed():
                task.cancel()  # asyncio would log an exception that arrives in the last turn of the loop
        for seat in (self._first, self._second, self._spare, self._background):
            seat.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_time(
        self, seat: _Seat, work: Callable[[Worker], Result], limit_s: float, *, urgent: bool = False
    ) -> Result | HeddleError:
        """Run blocking work in a thread; after the limit its process is killed. One that dies is replaced once."""
        async with seat.turn:
            seat.urgent, seat.killed = urgent, False
            for _ in range(2):
                worker = seat.worker()
                try:
                    await self._load(seat, worker)
                    running = self._in_thread(partial(work, worker))
                    done, _ = await asyncio.wait((running,), timeout=limit_s)
                    if done:
                        return running.result()
                    self._kill(seat)
                    with contextlib.suppress(WorkerLostError):
                        await running
                    return BudgetExceededError(f"planning took more than {limit_s:g} s; ask for less at once")
                except WorkerLostError:
                    if seat.killed:
                        return UnavailableError("the planner was interrupted by something urgent; retry")
                    _LOG.error("the planner's process has ended; another takes its place")
            return UnavailableError("the planner's process ended twice; retry")

    def _in_thread(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run blocking work. Its exception counts as read: its request may have been cancelled."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._tasks.add(running)

        def ended(running: asyncio.Future[Result]) -> None:
            self._tasks.discard(running)
            _ = running.cancelled() or running.exception()

        running.add_done_callback(ended)
        return running

    def _kill(self, seat: _Seat) -> None:
        self.killed += 1
        seat.kill()

    async def _make_way(self) -> None:
        """Free the first process: where it stays busy with what is not urgent, it is killed, and another replaces it.

        Something urgent is not interrupted: each interruption costs the work of a process that starts. Without a ready
        process a solve is killed only after LOADING_S: its end is nearer than that of a start.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        while self._first.busy:
            if self._first.loading:
                began = clock()  # what counts is the time of the solve, which begins afterwards
            relief, waited_s = self._ready(), clock() - began
            if self._first.loading and relief is not None:
                self._relieve(relief)
                return
            gives_up = waited_s > LOADING_S or (waited_s > GRACE_S and relief is not None)
            if gives_up and not self._first.urgent and not self._first.loading:
                self._kill(self._first)
                if relief is not None:
                    self._relieve(relief)
                return
            await asyncio.sleep(GRACE_S / 10)

    def _ready(self) -> _Seat | None:
        """Return a process that can take the place of the first at once."""
        return next((seat for seat in (self._spare, self._second) if seat.ready), None)

    def _relieve(self, relief: _Seat) -> None:
        """Let another process take the place of the first, and the first load its kernels in its place."""
        before, self._first = self._first, relief
        if relief is self._spare:
            self._spare = before
        else:
            self._second = before
        self._begin(before, 0.0)
