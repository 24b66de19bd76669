"""One planner process, as the controller sees it: requests in, plans out; it may be killed at any time."""

from collections.abc import Sequence
from multiprocessing.connection import Connection

from heddle.controller.model.effect import Place, Solve
from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.placement import Placement
from heddle.controller.model.plan import Infeasible, JobFlows, Replan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.placed import is_same
from heddle.controller.runtime.child_process import LOST, ChildProcess
from heddle.controller.runtime.planning.wire import (
    AmendMessage,
    Begin,
    Jobs,
    PlaceMessage,
    ReplanMessage,
    SolveMessage,
    columns_of,
    job_of,
)

Kept = Sequence[tuple[JobRequest, JobFlows]]


class WorkerLostError(Exception):
    """The planner's process ended, or was killed, before it replied."""


class Worker:
    """A planner process. `solve` and `place` block: call them in a thread, one at a time."""

    def __init__(self, fabric: Fabric) -> None:
        self._topology = topology_of(fabric)
        self._jobs: dict[str, tuple[JobRequest, JobFlows]] = {}
        self._process = ChildProcess("heddle.controller.runtime.planning.child")
        self._connection = Connection(self._process.socket.detach())
        self._fabric: Fabric | None = fabric  # None once it is sent
        self._lost = False

    @property
    def alive(self) -> bool:
        """Return whether the process runs, as far as is known."""
        return not self._lost and self._process.alive

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def kill(self) -> None:
        """End the process; a request under way raises WorkerLostError."""
        self._lost = True
        self._process.kill()

    def close(self) -> None:
        """End the process and the connection."""
        self.kill()
        self._connection.close()

    @property
    def begun(self) -> bool:
        """Return whether `begin` has been called."""
        return self._fabric is None

    def begin(self) -> None:
        """Send the fabric and wait until the process has loaded its kernels; raises WorkerLostError."""
        if self._fabric is not None:
            fabric, self._fabric = self._fabric, None
            self._exchange(Begin(fabric))

    def solve(self, problem: Solve) -> tuple[Replan | Infeasible | HeddleError, int]:
        """Return the plan or an error as a value, and the nanoseconds that planning took; raises WorkerLostError."""
        message = SolveMessage(
            jobs=self._changes(problem.kept),
            requests=problem.requests,
            health=problem.health,
            limit=problem.limit,
            subject=problem.subject,
            background=problem.background,
            has_happened=problem.has_happened,
            degraded=dict(problem.degraded),
            amend=self._in_columns(problem),
            preview=problem.preview,
            converge=problem.converge,
        )
        outcome, solve_ns = self._exchange(message)
        if isinstance(outcome, ReplanMessage):
            return self._replan(problem, outcome), solve_ns
        return outcome, solve_ns  # type: ignore[return-value]

    def place(self, problem: Place) -> tuple[Placement, ...] | Infeasible | HeddleError:
        """Return places, best first, or an error as a value; raises WorkerLostError."""
        message = PlaceMessage(
            jobs=self._changes(problem.kept), shape=problem.shape, health=problem.health,
            degraded=dict(problem.degraded),
        )  # fmt: skip
        return self._exchange(message)[0]  # type: ignore[return-value]

    def _exchange(self, message: object) -> tuple[object, int]:
        try:
            self._connection.send(message)
            outcome, elapsed_ns = self._connection.recv()
        except LOST as lost:
            self._lost = True
            raise WorkerLostError from lost
        return outcome, elapsed_ns

    def _changes(self, kept: Kept) -> Jobs:
        """Return the running jobs, with those that the process does not have as they are now."""
        changed = tuple(
            (request, columns_of(self._topology, (request, job), None))
            for request, job in kept
            if not is_same(self._jobs.get(request.job_id), (request, job))
        )
        self._jobs = {request.job_id: (request, job) for request, job in kept}
        return Jobs(order=tuple(self._jobs), changed=changed)

    def _in_columns(self, problem: Solve) -> AmendMessage | None:
        """Return what is to be amended in the plan, as the process gets it."""
        amend = problem.amend
        if amend is None:
            return None
        requests = (*(request for request, _ in problem.kept), *problem.requests)
        placed = zip(requests, amend.jobs, strict=True)
        jobs = tuple(columns_of(self._topology, each, None) for each in placed)
        return AmendMessage(jobs=jobs, avoid=dict(amend.avoid), reached=dict(amend.reached), stay=amend.stay)

    def _replan(self, problem: Solve, message: ReplanMessage) -> Replan:
        """Build the plan's jobs; those that are unchanged are the objects of the request."""
        requests = {request.job_id: request for request in problem.requests}
        requests |= {job_id: request for job_id, (request, _) in self._jobs.items()}
        jobs = {job_id: job for job_id, (_, job) in self._jobs.items()}
        for columns in message.changed:
            known = jobs.get(columns.job_id)
            jobs[columns.job_id] = job_of(self._topology, requests[columns.job_id], columns, known)
        self._jobs = {job_id: (requests[job_id], jobs[job_id]) for job_id in message.order}
        return Replan(
            jobs=tuple(jobs[job_id] for job_id in message.order),
            certificate=message.certificate,
            moved=message.moved,
            stranded=message.stranded,
            speeds=message.speeds,
        )
