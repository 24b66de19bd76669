"""Plan as jobs come and go and links fail: few running flows move, and no job loses by a move of another's.

An `OnlinePlanner` keeps a `Session` in step with the jobs and failures that each request names, so its result depends
on the request alone, but for which of equal paths it chooses. First the flows of new jobs, and flows whose path has
failed, are placed; other flows stay. Then running flows move, as far as the limit allows, if that lowers the fullest
link or speeds up flows, and only if no job's mean or worst share falls.
"""

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from controller.model.fabric import Fabric
from controller.model.health import Health
from controller.model.job import JobRequest
from controller.model.moves import MAX_MOVES, NO_MOVES, MoveLimit, Whose
from controller.model.plan import Infeasible, JobFlows, Moved, Plan, Replan
from controller.planner.clos import Live, Topology, topology_of
from controller.planner.expand import joined
from controller.planner.flow_table import join_hops
from controller.planner.jit import Flags, Ints
from controller.planner.placed import Placed, paths_of
from controller.planner.proof.shares import Shares, shares_of
from controller.planner.session.delta import Delta
from controller.planner.session.engine import Movable, Moves
from controller.planner.session.session import Session
from controller.planner.solve import certified, draft

GAIN = 1.02
"""Running flows move only where the fullest link is above the bound by more than this factor, or flows are slowed."""
MAX_NAMED = 1_000
"""The number of moved flows of a job and decision whose old links are kept."""
_MOVABLE = {
    Whose.NONE: Movable.NONE,
    Whose.OWN_JOB: Movable.OWN,
    Whose.TENANT: Movable.TENANT,
    Whose.LOWER_PRIORITY: Movable.LOWER,
    Whose.ANY: Movable.ALL,
}


class OnlinePlanner:
    """Plans requests beside running jobs, with a session that follows them; not thread-safe, without I/O."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._topology = fabric, topology_of(fabric)
        self._session = Session(fabric)
        self._known: dict[str, tuple[JobRequest, Sequence[object]]] = {}

    def solve(
        self, requests: Sequence[JobRequest], *, health: Health, kept: Sequence[Placed], limit: MoveLimit = NO_MOVES,
        subject: str = "", background: Mapping[str, int] | None = None,
    ) -> Replan | Infeasible:  # fmt: skip
        """Plan `requests` beside the jobs in `kept`, of which flows move as far as `limit` allows.

        `background` is the load in bit/s by link that traffic of no job causes; figures and rates do not count it.
        OWN_JOB, TENANT and LOWER_PRIORITY refer to the job `subject`, which is one of either. Raises InputError and
        AlreadyExistsError as `solve.solve` does.
        """
        self._changed: set[str] = set()
        self._set_background(background or {})
        found: Replan | Infeasible | None = None
        try:
            found = self._solved(requests, health, kept, limit, subject)
        finally:
            if not isinstance(found, Replan):  # the session's paths of these jobs are not those of `kept`
                self._known = {name: known for name, known in self._known.items() if name not in self._changed}
        return found

    def _solved(
        self, requests: Sequence[JobRequest], health: Health, kept: Sequence[Placed], limit: MoveLimit, subject: str
    ) -> Replan | Infeasible:
        self._follow(kept)
        self._note(self._session.apply(health))
        for request in requests:
            added = self._session.add(request)
            if isinstance(added, Infeasible):
                return added
            self._note(added)
        if self._session.jobs and not limit.moves_none:
            self._improve(limit, subject)
        moved, hops = self._moved(requests, kept, Live.of(self._topology, health))
        drafted = draft(self._fabric, requests, health=health, kept=kept, hops=hops, moved=moved)
        plan = drafted if isinstance(drafted, Infeasible) else certified(drafted)
        if isinstance(plan, Infeasible):
            return plan
        self._settle(requests, kept, plan)
        stranded: dict[str, list[str]] = {}
        for job_id, flow_id in self._session.stranded():
            stranded.setdefault(job_id, []).append(flow_id)
        return Replan(
            jobs=plan.jobs,
            certificate=plan.certificate,
            moved=_moved(self._topology, kept, plan.jobs),
            stranded={job_id: tuple(flows) for job_id, flows in stranded.items()},
        )

    def _set_background(self, background: Mapping[str, int]) -> None:
        loads = np.zeros(len(self._topology.capacity))
        for link, load_bps in background.items():
            loads[self._topology.link_index[link]] = load_bps
        self._session.set_background(loads[: self._topology.first_nic_link])
        # Shares are those of the capacity that is left, of which every link keeps some.
        self._left = copy(self._topology)
        least = self._topology.capacity // 1000
        self._left.capacity = np.maximum(self._topology.capacity - loads.astype(np.int64), least)

    def _follow(self, kept: Sequence[Placed]) -> None:
        """Make the session's jobs and their paths those in `kept`."""
        wanted = {request.job_id: (request, job) for request, job in kept}
        for request in self._session.jobs:
            known, now = self._known.get(request.job_id), wanted.get(request.job_id)
            if known is None or now is None or known[0] is not now[0] or known[1] is not now[1].flows:
                self._session.remove(request.job_id)
        there = {request.job_id for request in self._session.jobs}
        for request, job in kept:
            if request.job_id not in there:
                self._session.adopt(request, job)
        self._known = {request.job_id: (request, job.flows) for request, job in kept}

    def _note(self, delta: Delta) -> None:
        """Remember the jobs whose paths have changed."""
        self._changed |= {job.request.job_id for job in delta.jobs.values()}

    def _improve(self, limit: MoveLimit, subject: str) -> None:
        """Move running flows, unless a job's mean or worst share falls or nothing is gained; fewer where many fail."""
        session = self._session
        before, shares = session.max_link_utilisation(), self._shares()
        if before <= GAIN * session.lower_bound() and min(shares.worst, default=1.0) >= 1:
            return
        budget = None if limit.max_flows == MAX_MOVES else limit.max_flows
        for some in (budget,) if budget is None else sorted({budget, budget // 4, budget // 16} - {0}, reverse=True):
            delta = session.rebalance(Moves(budget=some, who=_MOVABLE[limit.whose]), subject or None)
            after = self._shares()
            gains = after.rises_above(shares) or session.max_link_utilisation() * GAIN < before
            if len(delta) and gains and not after.falls_below(shares):
                self._note(delta)
                return
            session.revert()

    def _shares(self) -> Shares:
        """Return the shares of every job of the session."""
        ids = [request.job_id for request in self._session.jobs]
        flows = joined([self._session.flows(job_id).as_job(number) for number, job_id in enumerate(ids)])
        return shares_of(self._left, flows, np.concatenate([self._session.hops(job_id) for job_id in ids]))

    def _moved(self, requests: Sequence[JobRequest], kept: Sequence[Placed], live: Live) -> tuple[Flags, Ints]:
        """Return which flows of kept jobs get paths again, and the paths of these and of new flows.

        Those are flows with another path in the session, and flows whose ACKs take a link that has failed.
        """
        links, moved, hops = np.append(live.links, True), [np.zeros(0, dtype=np.bool_)], []
        for number, (request, job) in enumerate(kept):
            was, now = paths_of(self._topology, number, (request, job)), self._session.hops(request.job_id)
            again = (now != was.hops).any(axis=1) | ~links[was.reverse_hops].all(axis=1)
            moved.append(again & (now[:, 0] >= 0))
            hops.append(now[moved[-1]])
        hops += [self._session.hops(request.job_id) for request in requests]
        return np.concatenate(moved), join_hops(hops)

    def _settle(self, requests: Sequence[JobRequest], kept: Sequence[Placed], plan: Plan) -> None:
        """Record which paths the session holds; it takes those of the plan where incasts or pins have changed them."""
        wanted = [request for request, _ in kept] + list(requests)
        for request, job in zip(wanted, plan.jobs, strict=True):
            if request.job_id in self._changed and not np.array_equal(
                paths_of(self._topology, 0, (request, job)).hops, self._session.hops(request.job_id)
            ):
                self._session.remove(request.job_id)
                self._session.adopt(request, job)
        self._known = {job.job_id: (request, job.flows) for request, job in zip(wanted, plan.jobs, strict=True)}


def _moved(topology: Topology, kept: Sequence[Placed], jobs: Sequence[JobFlows]) -> dict[str, Moved]:
    """Return the flows of kept jobs whose links differ in a plan of `jobs`, kept ones first."""
    found = {}
    for (request, before), now in zip(kept, jobs, strict=False):
        if now.flows is before.flows:
            continue
        was, new = (paths_of(topology, 0, (request, flows)).hops for flows in (before, now))
        rows = np.flatnonzero((was != new).any(axis=1)).tolist()
        if rows:
            old = (before.flows[row] for row in rows[:MAX_NAMED])
            found[request.job_id] = Moved(flows=len(rows), old_links={flow.flow_id: flow.links for flow in old})
    return found
