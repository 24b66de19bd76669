"""The planner's process: reads requests from a socket, one after another, and writes a reply to each.

Previews and placements are planned in a thread of low priority: they leave the processor to transactions, which another
process plans, and to the loop. A priority is a thread's, and no thread may raise its own again without privileges.

`python -m heddle.controller.runtime.planning.child FD`. It ends when the controller closes the socket or dies.
"""

import gc
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection

from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Amend, Infeasible, JobFlows, Replan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.planner.placement.suggest import suggest
from heddle.controller.planner.warm import PLANNING, warm
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
from heddle.foundation.kept_memory import keep_memory

NICENESS = 10
"""Of the thread for previews and placements: beside a busy loop it still gets a tenth of a core."""


class Child:
    """The running jobs as the controller has named them, and the planner that follows them."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._topology = fabric, topology_of(fabric)
        self._planner = OnlinePlanner(fabric)
        self._jobs: dict[str, tuple[JobRequest, JobFlows]] = {}

    def reply(self, message: object) -> object:
        """Return the reply to a request; errors of the request are returned."""
        try:
            if isinstance(message, SolveMessage):
                return self._solved(message)
            assert isinstance(message, PlaceMessage)
            kept = self._kept(message.jobs)
            return suggest(self._fabric, message.shape, health=message.health, kept=kept, degraded=message.degraded)
        except HeddleError as error:
            return error

    def _kept(self, jobs: Jobs) -> tuple[tuple[JobRequest, JobFlows], ...]:
        """Update the running jobs and return them in order."""
        for request, columns in jobs.changed:
            self._jobs[request.job_id] = request, job_of(self._topology, request, columns, None)
        self._jobs = {job_id: self._jobs[job_id] for job_id in jobs.order}
        return tuple(self._jobs.values())

    def _solved(self, message: SolveMessage) -> ReplanMessage | Infeasible:
        kept = self._kept(message.jobs)
        plan = self._planner.solve(
            message.requests, health=message.health, kept=kept, limit=message.limit, subject=message.subject,
            background=message.background, has_happened=message.has_happened,
            degraded=message.degraded,
            amend=self._in_flows([*(request for request, _ in kept), *message.requests], message.amend),
            converge=message.converge,
        )  # fmt: skip
        if not isinstance(plan, Replan):
            return plan
        requests = [request for request, _ in kept] + list(message.requests)
        changed = [
            columns_of(self._topology, (request, job), known)
            for request, job in zip(requests, plan.jobs, strict=True)
            if not _same(job, known := self._known(request.job_id))
        ]
        self._jobs = {job.job_id: (request, job) for request, job in zip(requests, plan.jobs, strict=True)}
        return ReplanMessage(
            order=tuple(self._jobs),
            changed=tuple(changed),
            certificate=plan.certificate,
            moved=plan.moved,
            stranded=plan.stranded,
            speeds=plan.speeds,
        )

    def _in_flows(self, requests: Sequence[JobRequest], message: AmendMessage | None) -> Amend | None:
        """Return what is to be amended in the plan, as the planner takes it."""
        if message is None:
            return None
        placed = zip(requests, message.jobs, strict=True)
        jobs = tuple(job_of(self._topology, request, columns, None) for request, columns in placed)
        return Amend(jobs=jobs, avoid=message.avoid, reached=message.reached, stay=message.stay)

    def _known(self, job_id: str) -> JobFlows | None:
        return self._jobs[job_id][1] if job_id in self._jobs else None


def _same(job: JobFlows, known: JobFlows | None) -> bool:
    """Return whether a running job is as the controller knows it."""
    return (
        known is not None
        and job.flows is known.flows
        and (job.own_max_link_utilisation, job.notes, job.guards)
        == (known.own_max_link_utilisation, known.notes, known.guards)
    )


def serve(connection: Connection) -> None:
    """Reply to requests until the controller closes the connection."""
    first = connection.recv()
    assert isinstance(first, Begin)
    keep_memory()
    child = Child(first.fabric)
    warm((*PLANNING, "session"))  # load kernels before the first request
    gc.freeze()
    gc.enable()
    connection.send((None, 0))
    aside = ThreadPoolExecutor(1, "previews", initializer=partial(os.nice, NICENESS))  # on Linux, of that thread alone
    while True:
        message = connection.recv()
        started = time.monotonic_ns()
        is_aside = isinstance(message, PlaceMessage) or (isinstance(message, SolveMessage) and message.preview)
        outcome = aside.submit(child.reply, message).result() if is_aside else child.reply(message)
        connection.send((outcome, time.monotonic_ns() - started))


if __name__ == "__main__":
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, KeyboardInterrupt, ConnectionError):
        sys.exit(0)
