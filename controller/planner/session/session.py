"""Incremental planning: jobs come and go, cables fail and return, and each event changes few paths.

A `Session` holds the jobs of a fabric and a path for each of their flows. The rules that it keeps:

1. An event is all or nothing. It returns the `Delta` of the paths that it changed, or an `Infeasible`, and then nothing
   has changed. Every change of a path is logged, and the log read backwards restores the state exactly.
2. A request may be refused, a fact may not. `add` is refused where a flow would have no path, or a job would newly
   exceed its `require_utilisation`; so is a `drain`. A failure always takes effect. The flows that it severs get other
   paths; where no live path is left, a flow is stranded, and the delta counts it (`stranded`, `why_stranded`).
3. A stranded flow keeps its row and loads no link. The events that return a cable or a switch, and `apply` and
   `rebalance`, try to place it again.
4. The flows of the event (those of a new job, the severed ones) are placed first and cost nothing. Other flows move
   only for them or for a lower fullest link, and only as `Moves` allows: whose, and how many. A flow that the event has
   placed or moved may move again at no cost.
5. Flows do not move without a gain. `cuts` knows a lower bound of the fullest link that holds for any paths of the same
   demands. Where any number of any flows may move, a result within `SLACK` of it is left as it is, unless a gain is
   requested (`rebalance`). Beyond `SLACK`, and beyond that of the last full plan, everything is planned again, and the
   new plan stays if it is better.
6. Better means: a lower fullest link, down to the bound; then less that slows flows. With a limit on moves, they go
   where they buy most. What an arrival or a departure leaves of a budget may make room for later jobs (see `Moves`).
7. Equal events give equal paths. Nothing reads a clock or draws a number; work is limited in steps.

Three layers keep them. This module knows names: jobs, cables, switches, and which events there are. `Engine` knows the
order in which things are tried. The kernels know numbers only: they work on the arrays of a `Store`, and try the cheap
before the dear: a link that is free (`seats`), a chain of moves between two columns (`chains`), the fewest moves
(`fewest`), and a search over both tiers (`ejections`).

The full planner (`replan`) places jobs of several priorities or phases, pins by addresses, and all flows on fabrics
that are no regular Clos, beside the load of the other flows. Where several priorities or pins are in the session, and
any number of any flows may move, each event plans everything again.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from heddle.controller.model.error import AlreadyExistsError, InputError, NotFoundError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import Infeasible, JobFlows
from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.placed import paths_of
from heddle.controller.planner.refusal import dead_nic
from heddle.controller.planner.route import Router
from heddle.controller.planner.session.delta import Delta, SessionJob, by_role, flows_of, hops_of_rows, no_paths
from heddle.controller.planner.session.engine import NO_ROWS, Engine
from heddle.controller.planner.session.moves import Moves
from heddle.controller.planner.session.paths import set_paths
from heddle.controller.planner.session.state import Store

STAY = Moves(budget=0)


class Session:
    """All jobs of one fabric and their paths; not thread-safe, without I/O; equal events give equal paths."""

    def __init__(self, fabric: Fabric) -> None:
        """Start with a fabric without failures and jobs; `begin` adds both."""
        self._topology: Topology = topology_of(fabric)
        self._store = Store(self._topology)
        self._jobs: dict[int, SessionJob] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._tenants: dict[str, int] = {}
        self._engine = Engine(self._topology, self._store, self._jobs, self._router)
        self._out: dict[str, set[str]] = {"down": set(), "drained": set()}
        self._dead_nics: Flags = np.zeros(self._topology.nics, dtype=np.bool_)
        self._routes: Router | None = None

    @staticmethod
    def begin(
        fabric: Fabric, health: Health | None = None, kept: Iterable[tuple[JobRequest, JobFlows]] = ()
    ) -> "Session":
        """Return a session with these failures and jobs; a severed flow is stranded until an event places it."""
        session, health = Session(fabric), health or Health()
        for target in sorted(health.down_cables | health.down_switches):
            session._take_out(target, "down")
        for nic in health.down_nics:
            session._dead_nics[session._topology.nic_index[nic]] = True
        for request, job_flows in kept:
            session.adopt(request, job_flows)
        return session

    def adopt(self, request: JobRequest, job_flows: JobFlows) -> None:
        """Add a running job with its paths; a severed flow is stranded until an event places it."""
        paths = paths_of(self._topology, self._next, (request, job_flows))
        job = self._enter(request, paths.flows)
        self._engine.adopt(job.rows, by_role(paths.hops, self._topology.cables))

    @property
    def health(self) -> Health:
        """Return what is out of use, drained cables and switches included."""
        out = self._out["down"] | self._out["drained"]
        cables = frozenset(out & self._topology.cable_index.keys())
        nics = frozenset(self._topology.nic_ids[nic] for nic in np.flatnonzero(self._dead_nics).tolist())
        return Health(down_cables=cables, down_switches=frozenset(out) - cables, down_nics=nics)

    @property
    def jobs(self) -> tuple[JobRequest, ...]:
        """Return the jobs in the order in which they were added."""
        return tuple(job.request for job in self._jobs.values())

    def hops(self, job_id: str) -> Ints:
        """Return the switch-to-switch links of a job's flows in the order of their ids, rows padded with -1.

        `solve(..., hops=...)` adds ports, rates and a certificate to them.
        """
        return hops_of_rows(self._store, self._job(job_id).rows)

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
        """Return the job id and the flow id of every flow that has no live path, or a NIC out of use."""
        rows, store = self._stranded(), self._store
        found = {
            (self._jobs[number], index)
            for number, index in zip(store.s.flow["job"][rows].tolist(), store.index[rows].tolist(), strict=True)
        }
        for job in self._jobs.values() if self._dead_nics.any() else ():
            dead = self._dead_nics[job.flows.src_nic] | self._dead_nics[job.flows.dst_nic]
            found |= {(job, index) for index in np.flatnonzero(dead).tolist()}
        return [
            (job.request.job_id, job.flow_id(index))
            for job, index in sorted(found, key=lambda each: (each[0].number, each[1]))
        ]

    def add(self, request: JobRequest, moves: Moves = STAY) -> Delta | Infeasible:
        """Add a job and place its flows; Infeasible, without a change, if a flow has no path or a link gets too full.

        Raises AlreadyExistsError for a job id in use and InputError for ranks that are no NICs.
        """
        return self.add_all((request,), moves)

    def add_all(self, requests: Sequence[JobRequest], moves: Moves = STAY) -> Delta | Infeasible:
        """Add jobs and place the flows of all of them together; as `add`, for all or none. OWN refers to the first."""
        ids = [request.job_id for request in requests]
        known = next((name for place, name in enumerate(ids) if name in self._numbers or name in ids[:place]), None)
        if known is not None:
            raise AlreadyExistsError(f"job {known} is in this session already: remove it first")
        flows = expand(self._topology, requests)
        dead = self._dead_nics.any() or self._store.dead_leaf.any()
        if dead and (why := dead_nic(self._topology, self._live(), ids, flows)) is not None:
            return Infeasible(why=why)
        self._store.begin_event(moves.who, moves.budget)
        ends = np.searchsorted(flows.job, np.arange(len(ids) + 1))
        jobs = []
        for request, (begin, end) in zip(requests, pairwise(ends.tolist()), strict=True):
            jobs.append(self._enter(request, flows.rows(slice(begin, end)).as_job(self._next)))
        rows = np.concatenate((NO_ROWS, *(job.rows for job in jobs)))
        result = self._engine.handle(rows, moves, refuses=True, of=jobs[0] if jobs else None)
        if isinstance(result, Infeasible):
            for job in jobs:
                self._leave(job)
        return result

    def remove(self, job_id: str, moves: Moves = STAY) -> Delta:
        """Remove a job; with moves allowed, other flows may use the free capacity to lower the fullest link.

        With a budget, they also make room for later jobs, as `Moves` says.
        """
        job, store = self._job(job_id), self._store
        store.begin_event(moves.who, moves.budget)
        store.reserve_log(len(job.rows))
        set_paths(store.s, job.rows, no_paths(len(job.rows)))
        self._leave(job)
        self._engine.ease()
        return _delta(self._engine.handle(NO_ROWS, moves, refuses=False, gone=job))

    def link_down(self, cable_id: str, moves: Moves = STAY) -> Delta:
        """Record that a cable has failed, and place its flows elsewhere."""
        return _delta(self._outage(self._cable(cable_id), "down", moves))

    def link_up(self, cable_id: str, moves: Moves = STAY) -> Delta:
        """Record that a cable is back; only stranded flows, and those that `moves` allows, move there."""
        return self._return(self._cable(cable_id), "down", moves)

    def switch_down(self, switch_id: str, moves: Moves = STAY) -> Delta:
        """Record that a switch has failed, and place its flows elsewhere."""
        return _delta(self._outage(self._switch(switch_id), "down", moves))

    def switch_up(self, switch_id: str, moves: Moves = STAY) -> Delta:
        """Record that a switch is back, and place stranded flows."""
        return self._return(self._switch(switch_id), "down", moves)

    def drain(self, target: str, moves: Moves = STAY) -> Delta | Infeasible:
        """Take a cable or a switch out of use; Infeasible, without a change, if a flow on it has no other path."""
        return self._outage(target, "drained", moves)

    def undrain(self, target: str, moves: Moves = STAY) -> Delta:
        """Return a cable or a switch to use."""
        return self._return(target, "drained", moves)

    def apply(self, health: Health, moves: Moves = STAY) -> Delta:
        """Record what has failed and returned since, all at once, and place severed and stranded flows."""
        store, topology = self._store, self._topology
        store.begin_event(moves.who, moves.budget)
        wanted = health.down_cables | health.down_switches
        for target in sorted(self._out["down"] - wanted):
            self._take_out(target, "down", -1)
            self._engine.ease()
        failed = [self._take_out(target, "down") for target in sorted(wanted - self._out["down"])]
        dead_nics: Flags = np.zeros(topology.nics, dtype=np.bool_)
        dead_nics[[topology.nic_index[nic] for nic in health.down_nics]] = True
        if (dead_nics != self._dead_nics).any():
            self._dead_nics, self._routes = dead_nics, None
        cables = np.concatenate((NO_ROWS, *failed))
        victims = flows_of(store, np.concatenate((cables, cables + topology.cables)))
        for leaf in np.flatnonzero(store.dead_leaf).tolist():
            victims = np.union1d(victims, store.flows_inside(leaf))
        return _delta(self._engine.handle(np.union1d(victims, self._stranded()), moves, refuses=False))

    def set_background(self, loads_bps: Floats) -> None:
        """Set the load in bit/s that traffic of no job puts on each link between switches."""
        self._store.s.load[:] += loads_bps - self._store.background
        self._store.background = loads_bps

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
        self._engine.ease()
        return self._engine.improve(new, moves, again=again, of=None if job_id is None else self._job(job_id))

    def make_room(self, moves: Moves, new: Ints = NO_ROWS) -> Delta:
        """Make room for later jobs, as `Moves` says; flows in the rows `new` move without a charge."""
        self._store.begin_event(moves.who, moves.budget)
        return self._engine.make_room(new, moves)

    def _cable(self, cable_id: str) -> str:
        if cable_id not in self._topology.cable_index:
            raise InputError(f"{cable_id!r} is no cable of this fabric: name one by its link upwards")
        return cable_id

    def _switch(self, switch_id: str) -> str:
        if switch_id not in self._topology.switch_index:
            raise InputError(f"{switch_id!r} is no switch of this fabric")
        return switch_id

    def _job(self, job_id: str) -> SessionJob:
        if job_id not in self._numbers:
            raise NotFoundError(f"no job {job_id!r} in this session")
        return self._jobs[self._numbers[job_id]]

    def _live(self) -> Live:
        return self._router().live

    def _router(self) -> Router:
        """Return the full planner's router over the live links, the same one as long as these are the same."""
        if self._routes is None:
            self._routes = Router(topology=self._topology, live=self._store.live(self._dead_nics))
        return self._routes

    def _take_out(self, target: str, why: str, by: int = 1) -> Ints:
        """Add a cable or switch to those out of use (with `by` -1, remove it); return the cables that change state."""
        topology, self._routes = self._topology, None
        if target in topology.cable_index:
            cables: Ints = np.array([topology.cable_index[target]], dtype=np.int64)
        else:
            switch = topology.switch_index[self._switch(target)]
            cables = np.flatnonzero((topology.lower == switch) | (topology.upper == switch))
        known = target in self._out[why]
        if known == (by > 0):
            return NO_ROWS
        row = self._store.leaf_row[topology.switch_index[target]] if target in topology.switch_index else NO_LINK
        if row >= 0:
            self._store.dead_leaf[row] += by
        self._out[why] ^= {target}
        return self._store.block(cables, by)

    def _outage(self, target: str, why: str, moves: Moves) -> Delta | Infeasible:
        """Take a cable or switch out of use and place its flows elsewhere; undo a drain that strands a flow."""
        store, known = self._store, target in self._out[why]
        store.begin_event(moves.who, moves.budget)
        changed = self._take_out(target, why)
        victims = flows_of(store, np.concatenate((changed, changed + self._topology.cables)))
        leaf = self._topology.switch_index.get(target, -1)
        if leaf >= 0 and store.leaf_row[leaf] >= 0:
            victims = np.union1d(victims, store.flows_inside(int(store.leaf_row[leaf])))
        result = self._engine.handle(victims, moves, refuses=why == "drained")
        if isinstance(result, Infeasible) and not known:
            self._take_out(target, why, -1)
        return result

    def _return(self, target: str, why: str, moves: Moves) -> Delta:
        """Return a cable or switch to use and place stranded flows."""
        self._store.begin_event(moves.who, moves.budget)
        self._take_out(target, why, -1)
        self._engine.ease()
        return _delta(self._engine.handle(self._stranded(), moves, refuses=False))

    def _stranded(self) -> Ints:
        """Return the rows of stranded flows."""
        store = self._store
        return np.flatnonzero(store.stranded & store.used)

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


def _delta(result: Delta | Infeasible) -> Delta:
    """Return the result of an event that cannot be refused."""
    assert isinstance(result, Delta)
    return result
