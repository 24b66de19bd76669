"""Incremental planning: jobs come and go, cables fail and return, and each event changes few paths.

A `Session` holds the jobs of a fabric and a path for each of their flows. `OnlinePlanner` keeps one in step with the
requests of the service. The rules that it keeps:

1. What happens and what moves are apart. `add_all` and `follow` place the flows of new jobs and those that failures
   sever, and move no other flow. Then `improve` and `make_room` propose moves; `revert` undoes a proposal exactly, for
   every change of a path is logged, and the log read backwards restores the state.
2. A request may be refused, a fact may not. `add_all` is refused, without a change, where a flow would have no path. A
   failure always takes effect: a flow for which no live path is left is stranded.
3. A stranded flow keeps its row and loads no link. `follow` and `improve` try to place it again.
4. `improve` may place the flows of the event once more, now that others may move for them. These cost nothing. Other
   flows move only for them or for a lower fullest link, and only as `Moves` allows: whose, and how many. A flow that
   has been placed or moved may move again at no cost.
5. `cuts` knows a lower bound of the fullest link that holds for any paths of the same demands. Where any number of any
   flows may move, and the result is more than `SLACK` above it, everything is planned again, and the new plan stays if
   it is better.
6. Better means: a lower fullest link, down to the bound; then less that slows flows. With a limit on moves, they go
   where they buy most. What an arrival or a departure leaves of a limit may make room for later jobs (see `Moves`).
7. Equal events give equal paths. Nothing reads a clock or draws a number; work is limited in steps.

Three layers keep them. This module knows names: jobs, cables, switches, and which events there are. `Engine` knows the
order in which things are tried. The kernels know numbers only: they work on the arrays of a `Store`, and try the cheap
before the dear: a link that is free (`seats`), a chain of moves between two columns (`chains`), the fewest moves
(`fewest`), and a search over both tiers (`ejections`).

The full planner (`replan`) places jobs of several priorities or phases, pins by addresses, and all flows on fabrics
that are no regular Clos, beside the load of the other flows. Where several priorities or pins are in the session, and
any number of any flows may move, `improve` plans everything again.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from heddle.controller.model.error import AlreadyExistsError, NotFoundError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Infeasible, JobFlows
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import LEAST_BPS, Flows, expand
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.placed import paths_of
from heddle.controller.planner.refusal import dead_nic
from heddle.controller.planner.route import Router
from heddle.controller.planner.session.delta import Delta, SessionJob, by_role, flows_of, hops_of_rows, no_paths
from heddle.controller.planner.session.engine import NO_ROWS, Engine
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.paths import set_paths
from heddle.controller.planner.session.state import Store


class Session:
    """All jobs of one fabric and their paths; not thread-safe, without I/O; equal events give equal paths."""

    def __init__(self, fabric: Fabric, topology: Topology | None = None) -> None:
        """Start with a fabric without failures and jobs; `follow` adds both. `topology` may have degraded cables."""
        self._topology = topology or topology_of(fabric)
        self._store = Store(self._topology)
        self._jobs: dict[int, SessionJob] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._tenants: dict[str, int] = {}
        self._engine = Engine(self._topology, self._store, self._jobs, self._router, self._live)
        self._down: frozenset[str] = frozenset()
        self._dead_nics: Flags = np.zeros(self._topology.nics, dtype=np.bool_)
        self._routes: Router | None = None

    def adopt(self, request: JobRequest, job_flows: JobFlows) -> None:
        """Add a running job with its paths; a flow on a dead link is stranded until an event places it."""
        paths = paths_of(self._topology, self._next, (request, job_flows))
        job = self._enter(request, paths.flows)
        self._engine.adopt(job.rows, by_role(paths.hops, self._topology.cables))

    @property
    def jobs(self) -> tuple[JobRequest, ...]:
        """Return the jobs in the order in which they were added."""
        return tuple(job.request for job in self._jobs.values())

    def rows(self, job_ids: Iterable[str]) -> Ints:
        """Return the rows of the flows of jobs, job by job, for `all_hops`; valid until one of the jobs leaves."""
        return np.concatenate((NO_ROWS, *(self._job(job_id).rows for job_id in job_ids)))

    def all_hops(self, rows: Ints) -> Ints:
        """Return the switch-to-switch links of flows by their rows, padded with -1."""
        return hops_of_rows(self._store, rows)

    def flows(self, job_id: str) -> Flows:
        """Return a job's flows in the order of their ids."""
        return self._job(job_id).flows

    def max_link_utilisation(self) -> float:
        """Return the largest utilisation of the links between switches."""
        return self._store.fullest()[0]

    def lower_bound(self) -> float:
        """Return a bound of the largest utilisation: no paths of the same demands can have a lower one."""
        return self._store.cuts.lower_bound()

    def stranded(self) -> list[tuple[str, str]]:
        """Return the job id and the flow id of every flow that has no live path, or a NIC out of use.

        Of a flow in several planes, a part that others carry is none.
        """
        store = self._store
        rows = np.flatnonzero(store.stranded & store.used)
        found = {
            (self._jobs[number], index)
            for number, index in zip(store.s.flow["job"][rows].tolist(), store.index[rows].tolist(), strict=True)
        }
        for job in self._jobs.values() if self._dead_nics.any() else ():
            dead = self._dead_nics[job.flows.src_nic] | self._dead_nics[job.flows.dst_nic]
            found |= {(job, index) for index in np.flatnonzero(dead).tolist()}
        several = self._topology.ports_of_rank is not None
        return [
            (job.request.job_id, job.flow_id(index))
            for job, index in sorted(found, key=lambda each: (each[0].number, each[1]))
            if not several or job.flows.demand_bps[index] > LEAST_BPS  # else other planes carry it
        ]

    def add_all(self, requests: Sequence[JobRequest]) -> Delta | Infeasible:
        """Add jobs and place the flows of all of them together; Infeasible, without a change, if a flow has no path.

        Raises AlreadyExistsError for a job id in use and InputError for ranks that are no NICs.
        """
        ids = [request.job_id for request in requests]
        known = next((name for place, name in enumerate(ids) if name in self._numbers or name in ids[:place]), None)
        if known is not None:
            raise AlreadyExistsError(f"job {known} is in this session already: remove it first")
        flows = expand(self._topology, requests, live=self._router().live if self._topology.ports_of_rank else None)
        dead = self._dead_nics.any() or self._store.dead_leaf.any()
        if dead and (why := dead_nic(self._topology, self._live(), ids, flows)) is not None:
            return Infeasible(why=why)
        self._store.begin_event(Movable.NONE, 0)
        ends = np.searchsorted(flows.job, np.arange(len(ids) + 1))
        jobs = []
        for request, (begin, end) in zip(requests, pairwise(ends.tolist()), strict=True):
            jobs.append(self._enter(request, flows.rows(slice(begin, end)).as_job(self._next)))
        rows = np.concatenate((NO_ROWS, *(job.rows for job in jobs)))
        delta = self._engine.place(rows)
        if why := self._engine.why_stranded(rows):
            self._engine.revert()
            for job in jobs:
                self._leave(job)
            return Infeasible(why=why)
        return delta

    def remove(self, job_id: str) -> None:
        """Remove a job; the others stay where they are."""
        job, store = self._job(job_id), self._store
        store.begin_event(Movable.NONE, 0)
        store.reserve_log(len(job.rows))
        set_paths(store.s, job.rows, no_paths(len(job.rows)))
        self._leave(job)

    def follow(
        self, health: Health, gone: Iterable[str], came: Iterable[tuple[JobRequest, JobFlows]],
        router: Router | None = None,
    ) -> Delta:  # fmt: skip
        """Record what is out of use and which jobs run: `gone` have left, `came` have arrived with their paths.

        Severed and stranded flows are placed, all at once. `router` is one for `health`, where the caller has it.
        """
        for job_id in gone:
            self.remove(job_id)
        victims = self._apply(health)
        if self._routes is None and router is not None and (router.live.links == self._live().links).all():
            self._routes = router
        for request, job_flows in came:
            self.adopt(request, job_flows)
        self._store.begin_event(Movable.NONE, 0)
        return self._engine.place(np.union1d(victims, np.flatnonzero(self._store.stranded & self._store.used)))

    def _apply(self, health: Health) -> Ints:
        """Record what is out of use; return the rows of the flows that this severs."""
        store, topology, wanted = self._store, self._topology, health.down_cables | health.down_switches
        for target in sorted(self._down - wanted):
            self._change(target, -1)
        failed = [self._change(target, 1) for target in sorted(wanted - self._down)]
        dead_nics: Flags = np.zeros(topology.nics, dtype=np.bool_)
        dead_nics[[topology.nic_index[nic] for nic in health.down_nics]] = True
        if wanted != self._down or (dead_nics != self._dead_nics).any():
            self._down, self._dead_nics, self._routes = wanted, dead_nics, None
        cables = np.concatenate((NO_ROWS, *failed))
        victims = flows_of(store, np.concatenate((cables, cables + topology.cables)))
        for leaf in np.flatnonzero(store.dead_leaf).tolist():
            victims = np.union1d(victims, store.flows_inside(leaf))
        return victims

    def set_background(self, loads_bps: Floats) -> None:
        """Set the load in bit/s that traffic of no job puts on each link between switches."""
        self._store.s.load[:] += loads_bps - self._store.background
        self._store.background = loads_bps

    def leave(self, links: Ints) -> Delta:
        """Place the flows again that cross those of these links that carry more than they have; others stay."""
        s = self._store.s
        self._store.begin_event(Movable.NONE, 0)
        return self._engine.place(flows_of(self._store, links[s.load[links] * s.inverse[links] > 1 + 1e-9]))

    def revert(self) -> None:
        """Undo the path changes of the last event, which must not have added or removed a job, cable or switch."""
        self._engine.revert()

    def improve(
        self, moves: Moves, new: Ints = NO_ROWS, *, again: bool = False, job_id: str | None = None
    ) -> Delta:  # fmt: skip
        """Lower the fullest link by moves, and with `again` place the flows in the rows `new` once more.

        Flows in `new` move without a charge. OWN and TENANT refer to `job_id`.
        """
        self._store.begin_event(moves.who, moves.budget)
        return self._engine.improve(new, moves, again=again, of=None if job_id is None else self._job(job_id))

    def make_room(self, moves: Moves, new: Ints = NO_ROWS) -> Delta:
        """Make room for later jobs, as `Moves` says; flows in the rows `new` move without a charge."""
        self._store.begin_event(moves.who, moves.budget)
        return self._engine.make_room(new, moves)

    def _job(self, job_id: str) -> SessionJob:
        if job_id not in self._numbers:
            raise NotFoundError(f"no job {job_id!r} in this session")
        return self._jobs[self._numbers[job_id]]

    def _live(self) -> Live:
        """Return the live links, for reasons of refusals, which name the cables of a switch that is out of use."""
        return self._store.live(self._dead_nics)

    def _router(self) -> Router:
        """Return the full planner's router over the live links, the same one as long as these are the same."""
        if self._routes is None:
            self._routes = Router(topology=self._topology, live=self._live())
        return self._routes

    def _change(self, target: str, by: int) -> Ints:
        """Take a cable or switch out of use, or with `by` -1 return it; return the cables that change state."""
        topology = self._topology
        if target in topology.cable_index:
            return self._store.block(np.array([topology.cable_index[target]], dtype=np.int64), by)
        switch = topology.switch_index[target]
        row = self._store.leaf_row[switch]
        if row >= 0:
            self._store.dead_leaf[row] += by
        return self._store.block(np.flatnonzero((topology.lower == switch) | (topology.upper == switch)), by)

    def _enter(self, request: JobRequest, flows: Flows) -> SessionJob:
        """Add a job and its flows to the arrays, without paths."""
        store, number = self._store, self._next
        source, target = store.ends(flows)
        numbers, layers, layer = 1, None, np.full(len(flows), -1, dtype=np.int64)
        if len(flows) and (flows.phase != flows.phase[0]).any():
            phases, phase = np.unique(flows.phase, return_inverse=True)
            numbers, layers = len(phases), store.layers(len(phases))
            layer = layers.start + phase.reshape(-1)
        tenant = self._tenants.setdefault(request.tenant, len(self._tenants))
        job = SessionJob(
            number=number, request=request, flows=flows, source=source, target=target, phases=numbers,
            rows=store.allot(number, tenant, flows, source, target, layer), layers=layers,
            sizes=store.cuts.enter(flows, source, target, layers is not None),
        )  # fmt: skip
        self._jobs[number], self._numbers[request.job_id], self._next = job, number, number + 1
        return job

    def _leave(self, job: SessionJob) -> None:
        """Remove a job, whose flows have no paths any more, from the arrays."""
        self._store.cuts.leave(job.flows, job.source, job.target, job.layers is not None, job.sizes)
        if job.layers is not None:
            self._store.s.layer_span[job.layers] = 0
        self._store.release(job.rows)
        del self._jobs[job.number], self._numbers[job.request.job_id]
