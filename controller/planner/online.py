"""Plan as jobs come and go and links fail: few running flows move, and no job loses by a move of another's.

An `OnlinePlanner` keeps a `Session` in step with the jobs and failures that each request names, so its result depends
on the request alone, but for which of equal paths it chooses. First the flows of new jobs, and flows whose path has
failed, are placed; other flows stay. Then these are placed again and running flows move, as far as the limit allows, if
that lowers the fullest link or speeds up flows. After an arrival or a departure, what is left of the limit makes room
for later jobs. All moves are undone by which a job's mean or worst share falls (`harmless.py`).
"""

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import NO_MOVES, MoveLimit
from heddle.controller.model.plan import Amend, Certificate, Infeasible, Moved, Replan
from heddle.controller.planner.amend import other_paths
from heddle.controller.planner.converge import goal_of
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import joined_flows
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.paths import Paths, differing_rows
from heddle.controller.planner.ground.placed import Placed, is_same
from heddle.controller.planner.harmless import HarmlessMoves, Sets
from heddle.controller.planner.proof.fluid import INCAST_HEADROOM
from heddle.controller.planner.proof.hashed import HashedLoads
from heddle.controller.planner.route import Router
from heddle.controller.planner.running import Running
from heddle.controller.planner.session.session import Session
from heddle.controller.planner.solve import Chosen, Draft, certified, draft
from heddle.controller.planner.splits import Splits

MAX_NAMED = 1_000
"""The number of moved flows of a job and decision whose old links are kept."""


class OnlinePlanner:
    """Plans requests beside running jobs, with a session that follows them; not thread-safe, without I/O."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._degraded: dict[str, int] = {}
        self._begin({})

    def _begin(self, degraded: Mapping[str, int]) -> None:
        """Follow no job yet, on the fabric with what degraded cables have left."""
        # The cables that have less left than before: flows that do not fit there any more are placed again.
        self._worse = [cable for cable, left in degraded.items() if left < self._degraded.get(cable, left + 1)]
        self._degraded = dict(degraded)
        self._topology = topology_of(self._fabric).lowered(degraded)
        self._session, self._running = Session(self._fabric, self._topology), Running(self._topology)
        self._hashed, self._splits = HashedLoads(self._topology), Splits(self._topology)
        self._health: Health | None = None
        self._whole: Router | None = None
        self._apply_background({})
        self._known: dict[str, Placed] = {}

    def solve(
        self, requests: Sequence[JobRequest], *, health: Health, kept: Sequence[Placed], limit: MoveLimit = NO_MOVES,
        subject: str = "", background: Mapping[str, int] | None = None, has_happened: bool = False,
        amend: Amend | None = None, degraded: Mapping[str, int] | None = None, converge: bool = False,
    ) -> Replan | Infeasible:  # fmt: skip
        """Plan `requests` beside the jobs in `kept`, of which flows move as far as `limit` allows.

        `background` is the load in bit/s by link that traffic of no job causes. Figures do not count it; rates are what
        it leaves on links into NICs. What `has_happened` is not refused where a job exceeds its `require_utilisation`.
        `degraded` are the rates in bit/s that cables, by id, have left; where they change, the session begins anew.
        OWN_JOB, TENANT and LOWER_PRIORITY refer to the job `subject`, which is one of either. With `amend` only the
        flows that it names move, from its plan. To `converge` plans the running jobs all again (`converge.py`), and no
        `requests`. Raises InputError and AlreadyExistsError as `solve.solve` does.
        """
        self._changed: set[str] = set()
        if self._degraded != (degraded or {}):
            self._begin(degraded or {})
        if self._background != (background or {}):
            self._apply_background(background or {})
        if self._health != health:
            self._health, self._router = health, self._router_for(health)
        kept = self._splits.follow(kept, self._router.live)
        if amend is not None:
            return self._with_other_paths(requests, health, kept, amend, has_happened)
        if converge:
            return self._converged(kept, limit)
        found: Replan | Infeasible | None = None
        try:
            found = self._solved(requests, health, kept, limit, subject, has_happened)
        finally:
            if not isinstance(found, Replan):  # the session's paths of these jobs are not those of `kept`
                self._known = {name: known for name, known in self._known.items() if name not in self._changed}
        return found

    def _solved(
        self, requests: Sequence[JobRequest], health: Health, kept: Sequence[Placed], limit: MoveLimit, subject: str,
        has_happened: bool,
    ) -> Replan | Infeasible:  # fmt: skip
        severed = np.union1d(self._follow(kept, health), self._left_behind())
        running = self._running.follow(kept)
        if requests:
            added = self._session.add_all(requests)
            if isinstance(added, Infeasible):
                return added
            self._changed |= added.jobs
        wanted = [request for request, _ in kept] + list(requests)
        flows = [running.flows, *(self._session.flows(request.job_id) for request in requests)]
        every = joined_flows([flows[0], *(new.as_job(len(kept) + n) for n, new in enumerate(flows[1:]))])
        rows = self._session.rows(request.job_id for request in wanted)
        placed = self._session.all_hops(rows)
        if wanted and not limit.moves_none:
            new = np.concatenate((self._session.rows(request.job_id for request in requests), severed))
            sets = Sets(self._router.live, wanted, len(kept), every, self._beside)
            moves = HarmlessMoves(self._session, self._topologies(), sets, every, rows, new)
            moved = moves.improve(limit, subject)
            if (requests or has_happened) and not (len(severed) or self._has_background):
                moves.make_room(limit, moved)
            self._changed |= moves.changed
            placed = moves.hops
        drafted = self._drafted(requests, health, kept, running, placed)
        if isinstance(drafted, Infeasible):
            return drafted
        plan = certified(drafted, has_happened=has_happened, hashed=self._hashed)
        if isinstance(plan, Infeasible):
            return plan
        self._settle(list(zip(wanted, plan.jobs, strict=True)), drafted, placed)
        stranded: dict[str, list[str]] = {}
        for job_id, flow_id in self._session.stranded():
            stranded.setdefault(job_id, []).append(flow_id)
        return Replan(
            jobs=plan.jobs,
            certificate=plan.certificate,
            moved=_moved(kept, running, drafted.whole),
            stranded={job_id: tuple(flows) for job_id, flows in stranded.items()},
        )

    def _drafted(
        self, requests: Sequence[JobRequest], health: Health, kept: Sequence[Placed], running: Paths, placed: Ints
    ) -> Draft | Infeasible:
        """Return the draft for the session's paths `placed`, without moves of jobs that would need new guards alone.

        A pin by addresses is installed again, with the streams that it guards, only where a path of its job changes.
        """
        moved, hops = _to_place(placed, running, self._router.live)
        while True:
            drafted = self._draft(requests, health, kept, Chosen(hops=hops, moved=moved, running=running))
            if isinstance(drafted, Infeasible):
                return drafted
            stays = moved & np.isin(running.flows.job, _guarding_more(kept, running, drafted))
            if not stays.any():
                return drafted
            moved &= ~stays
            hops = np.concatenate((placed[: len(moved)][moved], placed[len(moved) :]))

    def _draft(
        self, requests: Sequence[JobRequest], health: Health, kept: Sequence[Placed], chosen: Chosen
    ) -> Draft | Infeasible:
        return draft(
            self._fabric,
            requests,
            health=health,
            kept=kept,
            chosen=chosen,
            left=self._left_at_nics,
            router=self._router,
        )

    def _with_other_paths(
        self, requests: Sequence[JobRequest], health: Health, kept: Sequence[Placed], amend: Amend, has_happened: bool
    ) -> Replan | Infeasible:
        """Return a plan with other paths for some flows; the session follows with the next plan."""
        found = other_paths(self._router, requests, kept, amend)
        if isinstance(found, Infeasible):
            return found
        chosen = Chosen(hops=found.hops, moved=found.moved, running=found.running, as_given=True)
        drafted = self._draft(requests, health, kept, chosen)
        if isinstance(drafted, Infeasible):
            return drafted
        plan = certified(drafted, has_happened=has_happened, hashed=self._hashed)
        if isinstance(plan, Infeasible):
            return plan
        moved = _moved(kept, found.running, drafted.whole)
        return Replan(jobs=plan.jobs, certificate=plan.certificate, moved=moved, stranded=found.stranded)

    def _converged(self, kept: Sequence[Placed], limit: MoveLimit) -> Replan | Infeasible:
        """Return the goal of a convergence; the session follows with the next plan."""
        running = self._running.follow(kept)
        goal = goal_of(self._fabric, self._router, kept, running, limit, self._left_at_nics)
        if isinstance(goal, Infeasible):
            return goal
        if goal.drafted is None:
            return Replan(jobs=tuple(job for _, job in kept), certificate=Certificate(), speeds=goal.speeds)
        plan = certified(goal.drafted, hashed=self._hashed)
        if isinstance(plan, Infeasible):
            return plan
        moved = _moved(kept, running, goal.drafted.whole)
        return Replan(jobs=plan.jobs, certificate=plan.certificate, moved=moved, speeds=goal.speeds)

    def _apply_background(self, background: Mapping[str, int]) -> None:
        loads = np.zeros(len(self._topology.capacity))
        for link, load_bps in background.items():
            loads[self._topology.link_index[link]] = load_bps
        self._has_background = bool(loads.any())
        self._beside = loads[: self._topology.first_nic_link]
        self._session.set_background(self._beside)
        # Shares are those of the capacity that is left, of which every link keeps some.
        self._left = copy(self._topology)
        least = self._topology.capacity // 1000
        self._left.capacity = np.maximum(self._topology.capacity - loads.astype(np.int64), least)
        self._background = dict(background)
        self._left_at_nics = self._at_nics(loads, least) if loads[self._topology.first_nic_link :].any() else None

    def _at_nics(self, loads: Floats, least: Ints) -> Topology:
        """Return the topology with what traffic of no job leaves on links into NICs.

        An incast has INCAST_HEADROOM of what is left, so that planned and other senders have that part of the link.
        """
        found, into = copy(self._topology), self._topology.first_nic_link + self._topology.nics
        found.capacity = self._topology.capacity.copy()
        used = (loads[into:] / INCAST_HEADROOM).astype(np.int64)
        found.capacity[into:] = np.maximum(found.capacity[into:] - used, least[into:])
        found.nic_capacity = found.capacity[into:]
        return found

    def _follow(self, kept: Sequence[Placed], health: Health) -> Ints:
        """Make the session's jobs, their paths and what is out of use those of a request.

        Returns the rows of the flows that have no path by this, or none by it before, and are placed.
        """
        wanted = {placed[0].job_id: placed for placed in kept}
        known = {request.job_id for request in self._session.jobs}
        stays = {name for name in known & wanted.keys() if is_same(self._known.get(name), wanted[name])}
        came = [placed for placed in kept if placed[0].job_id not in stays]
        gone = [request.job_id for request in self._session.jobs if request.job_id not in stays]
        delta = self._session.follow(health, gone, came, self._router)
        self._known = wanted
        self._changed |= delta.jobs
        return delta.rows

    def _router_for(self, health: Health) -> Router:
        """Return the router over what is live; that of the whole fabric is kept, for failures end."""
        if health.down_cables or health.down_switches or health.down_nics:
            return Router(topology=self._topology, live=Live.of(self._topology, health))
        self._whole = self._whole or Router(topology=self._topology, live=Live.of(self._topology, health))
        return self._whole

    def _left_behind(self) -> Ints:
        """Place the flows again that do not fit any more on cables that have become worse; return their rows."""
        worse = np.array([self._topology.cable_index[cable] for cable in self._worse], dtype=np.int64)
        if not len(worse):
            return worse
        self._worse = []
        delta = self._session.leave(np.concatenate((worse, worse + self._topology.cables)))
        self._changed |= delta.jobs
        return delta.rows

    def _topologies(self) -> tuple[Topology, ...]:
        """Return the fabrics on which no move may lower a share: traffic of no job may also end at any time."""
        return (self._left, self._topology) if self._has_background else (self._topology,)

    def _settle(self, placed: Sequence[Placed], drafted: Draft, held: Ints) -> None:
        """Record the plan; the session, which holds the paths `held`, takes those that incasts or pins have changed."""
        ids = [request.job_id for request, _ in placed]
        differs = differing_rows(held, drafted.whole.hops) & (held[:, 0] >= 0)
        for number in np.unique(drafted.whole.flows.job[differs]).tolist():
            self._session.remove(ids[number])
            self._session.adopt(*placed[number])
        self._running.become(placed, drafted.whole)
        self._known = {each[0].job_id: each for each in placed}


def _to_place(hops: Ints, running: Paths, live: Live) -> tuple[Flags, Ints]:
    """Return which flows of running jobs get paths again, and the paths of these and of new flows.

    Those are flows with another path in the session, whose `hops` have those of running flows first, and flows whose
    ACKs take a link that has failed, if their NICs are in use.
    """
    kept, new = hops[: len(running.hops)], hops[len(running.hops) :]
    moved = differing_rows(kept, running.hops)
    if not live.whole:
        moved |= ~np.append(live.links, True)[running.reverse_hops].all(axis=1)
    nics = live.links[live.topology.first_nic_link :]
    moved &= (kept[:, 0] >= 0) & nics[running.flows.src_nic] & nics[running.flows.dst_nic]
    return moved, np.concatenate((kept[moved], new))


def _guarding_more(kept: Sequence[Placed], before: Paths, drafted: Draft) -> list[int]:
    """Return the running jobs whose pins would guard more streams, though none of their paths changes."""
    changed = differing_rows(before.hops, drafted.whole.hops[: len(before.hops)])
    moves = frozenset(before.flows.job[changed].tolist())
    return [
        number
        for number, guards in drafted.guards.items()
        if number < len(kept) and number not in moves and set(guards) - set(kept[number][1].guards)
    ]


def _moved(kept: Sequence[Placed], before: Paths, after: Paths) -> dict[str, Moved]:
    """Return the flows of kept jobs whose links differ in a plan, in which kept jobs come first."""
    rows = np.flatnonzero(differing_rows(before.hops, after.hops[: len(before.hops)]))
    if not len(rows):
        return {}
    jobs, first = np.unique(before.flows.job[rows], return_index=True)
    found = {}
    for number, mine in zip(jobs.tolist(), np.split(rows, first[1:]), strict=True):
        request, job = kept[number]
        begin = int(np.searchsorted(before.flows.job, number))
        old, table = (mine[:MAX_NAMED] - begin).tolist(), job.flows
        if isinstance(table, FlowTable):
            links = {table.flow_id(row): table.links(row) for row in old}
        else:
            links = {table[row].flow_id: table[row].links for row in old}
        found[request.job_id] = Moved(flows=len(mine), old_links=links)
    return found
