"""Place the flows of one event (jobs arrive, links fail or return) among those already placed, and improve the result.

If all flows may move, everything is planned again where the fullest link is more than SLACK above the lower bound, or
where jobs have several priorities or pins by addresses.
"""

from collections.abc import Callable

import numpy as np

from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology
from heddle.controller.planner.ground.expand import joined_flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.paths import packed
from heddle.controller.planner.refusal import dead_nic, no_path
from heddle.controller.planner.route import Router
from heddle.controller.planner.session.delta import Delta, SessionJob, changes, no_paths, touched
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.paths import set_paths, undo
from heddle.controller.planner.session.place import place
from heddle.controller.planner.session.relief import HAIR, emptied, evenness, lowered, score, spare
from heddle.controller.planner.session.replan import beside, crowded, evened, replanned
from heddle.controller.planner.session.seats import MAX_TRAIL, chosen, seat
from heddle.controller.planner.session.state import Store
from heddle.controller.planner.session.table import DEAD

SLACK = 1.05
"""Ratio of the largest utilisation to the lower bound above which everything is planned again, if all may move."""
MAX_UNSEATED = 16
"""After this many flows for which no links of their own are found, the others are placed without looking for such."""
PERFECT = (0.0, 0.0)
"""The score of a result that meets the bound and slows no flow."""
STAY = Moves(budget=0)
NO_ROWS: Ints = np.empty(0, dtype=np.int64)
LEVELS = 4
"""The utilisations that are tried as the maximum: the bound, then by bisection between it and the fullest link."""


class Engine:
    """Chooses the paths of a session's flows, in the arrays of its `Store`."""

    def __init__(
        self, topology: Topology, store: Store, jobs: dict[int, SessionJob], router: Callable[[], Router],
        live: Callable[[], Live],
    ) -> None:  # fmt: skip
        """Keep references to a session's parts, which the session changes."""
        self._topology, self._store, self._jobs, self._router, self._live = topology, store, jobs, router, live

    def adopt(self, rows: Ints, paths: Ints) -> None:
        """Adopt flows with their paths; those on dead links have no path afterwards."""
        store = self._store
        inverse: Floats = np.append(store.s.inverse, 0.0)
        dead = np.asarray((inverse[paths] >= DEAD).any(axis=1))
        store.begin_event(Movable.NONE, 0)
        store.reserve_log(len(rows))
        set_paths(store.s, rows, np.where(dead[:, None], NO_LINK, paths))
        store.mark_stranded(rows)

    def place(self, rows: Ints) -> Delta:
        """Place these flows, without moves of others, and return the changes since `Store.begin_event`."""
        self._place(rows, STAY, None)
        return self._delta(rows)

    def improve(self, new: Ints, moves: Moves, *, again: bool, of: SessionJob | None) -> Delta:
        """Lower the fullest links as far as moves are allowed, and with `again` place the flows in `new` once more.

        Flows in `new` may move without a charge. What only the full planner places, it has placed already. `of` is the
        job to which OWN and TENANT refer.
        """
        store = self._store
        store.s.flow["fresh"][new] = store.counter.event[0]
        placed = new if again and self._in_steps() else NO_ROWS
        self._place(np.union1d(placed, np.flatnonzero(store.stranded & store.used)), moves, of)
        worst = store.fullest()[0]
        if moves.free and (worst > SLACK * store.cuts.lower_bound() or not self._alike()):
            self._replan(worst)
        return self._delta(new)

    def make_room(self, new: Ints, moves: Moves) -> Delta:
        """Make room for later jobs, as `Moves` says; flows in `new` may move without a charge."""
        self._store.s.flow["fresh"][new] = self._store.counter.event[0]
        if self._looks_ahead(moves):
            emptied(self._store)
        return self._delta(new)

    def revert(self) -> None:
        """Undo the path changes since `Store.begin_event`."""
        undo(self._store.s, 0)
        self._store.stranded[:] = self._store.before_event

    def why_stranded(self, rows: Ints) -> str:
        """Return which of these flows have no path, and name the cut; "" where all have one."""
        stranded = rows[self._store.stranded[rows]]
        return self._no_path(stranded) if len(stranded) else ""

    def _alike(self) -> bool:
        """Return whether the fullest link alone ranks plans: one priority and no pins by addresses."""
        return not self._store.pins and len({job.request.priority for job in self._jobs.values()}) < 2

    def _in_steps(self) -> bool:
        """Return whether flows are placed one by one: on a regular Clos fabric, with one priority and no pins."""
        return self._store.regular and self._alike()

    def _looks_ahead(self, moves: Moves) -> bool:
        """Return whether flows may move to make room for later jobs: in three tiers, where no two fit on a link."""
        store = self._store
        limited = moves.who is Movable.ALL and bool(moves.budget)
        alone = 0 < store.seat_bps < 2 * store.cuts.one_size and not store.phased
        return limited and alone and store.s.planes > 0 and self._in_steps()

    def _place(self, rows: Ints, moves: Moves, of: SessionJob | None) -> None:
        """Place flows again and lower the fullest links as far as moves are allowed."""
        store, goal = self._store, self._store.cuts.lower_bound()
        mark = int(store.counter.logged[0])
        plain = store.seat_bps and not store.phased
        store.counter.pair[0] = int(2 * store.cuts.one_size) if plain else 0
        self._prepare(rows)
        if not self._in_steps():
            if len(rows):
                self._route(rows)
                store.mark_stranded(rows)
            if not moves.free and store.fullest()[0] > goal * HAIR:
                self._reroute(goal, moves, of)
            return
        phased = bool((store.s.flow["layer"][rows] >= 0).any()) if len(rows) else store.phased
        # Without other flows a full plan moves none, and is the fastest. Only in such a plan do phases share links.
        if len(rows) and (phased or len(rows) == int(store.used.sum())):
            self._route(rows)
        elif len(rows):
            self._one_by_one(rows, goal, moves)
            self._across(rows)
        if not phased:
            settled = self._relieve(goal, moves, of) and moves.budget != 0
            if not (settled or moves.free) and len(rows) and score(store, goal) > PERFECT:
                self._or_beside(rows, goal, moves, of, mark)
        elif not moves.free and moves.budget != 0:
            self._relieve_phased(rows, goal, moves, of)
        store.mark_stranded(rows)

    def _prepare(self, rows: Ints) -> None:
        """Take flows off their paths; from now on they may move without a charge."""
        store = self._store
        store.reserve_log(len(rows))
        store.s.flow["fresh"][rows] = store.counter.event[0]
        if (store.paths[rows] >= 0).any():
            set_paths(store.s, rows, no_paths(len(rows)))

    def _one_by_one(self, rows: Ints, goal: float, moves: Moves) -> None:
        """Place flows one by one, the largest first."""
        store = self._store
        demand = store.s.flow["demand"][rows]
        if demand.min() < demand.max():
            rows = rows[np.argsort(-demand, kind="stable")]
        begin = self._seat(rows, goal) if moves.free else 0
        place(store.s, rows[begin:], store.cuts.bound, goal * HAIR)

    def _across(self, rows: Ints) -> None:
        """Place what placement one by one leaves, which uses one column: up one of parallel cables, down another."""
        s = self._store.s
        if self._topology.parallel:
            left = rows[(self._store.paths[rows] < 0).all(axis=1) & (s.flow["source"] != s.flow["target"])[rows]]
            if len(left):
                self._route(left)

    def _relieve_phased(self, rows: Ints, goal: float, moves: Moves, of: SessionJob | None) -> None:
        """Move flows off the fullest links; undo it if neither the largest utilisation nor the sum of squares falls.

        A flow that moves away from the other phases of its job may load all links more than it relieves one.
        """
        store = self._store
        before, mark, used = evenness(store), int(store.counter.logged[0]), int(store.counter.used[0])
        self._relieve(goal, moves, of)
        self._even_out(rows)
        if evenness(store) >= before:
            undo(store.s, mark)
            store.counter.used[0] = used

    def _even_out(self, rows: Ints) -> None:
        """Let the phases of a job share links and leave others empty, on no fuller links than now."""
        store = self._store
        rows = rows[store.s.flow["layer"][rows] >= 0]
        if len(rows):
            jobs = [self._jobs[number] for number in np.unique(store.s.flow["job"][rows]).tolist()]
            changed = evened(self._router(), jobs, store, rows)
            store.reserve_log(len(rows))  # may replace `store.s`
            set_paths(store.s, *changed)

    def _route(self, rows: Ints) -> None:
        """Place flows, which have no paths, with the full planner beside all others."""
        s, jobs = self._store.s, self._jobs
        numbers = np.unique(s.flow["job"][rows]).tolist()
        if self._alike() and not any(jobs[number].flows.fixed_port.any() for number in numbers):
            order, paths = beside(self._router(), [jobs[number] for number in numbers], self._store, rows)
            set_paths(s, order, paths)
            return
        again: Flags = np.zeros(len(self._store.s.flow), dtype=np.bool_)
        again[rows] = True
        self._set(again)

    def _reroute(self, goal: float, moves: Moves, of: SessionJob | None) -> None:
        """Place some flows on the fullest links again with the full planner, as many as may move, while that helps."""
        store, budget = self._store, moves.budget or 0
        candidates = crowded(store, self._movable(moves, of), goal * HAIR)
        for size in sorted({min(budget, len(candidates)) >> 2 * step for step in range(3)} - {0}, reverse=True):
            mark, before, without = int(store.counter.logged[0]), score(store, goal), store.stranded.copy()
            self._prepare(candidates[:size])
            self._route(candidates[:size])
            store.mark_stranded(candidates[:size])
            if score(store, goal) < before and not (store.stranded & ~without).any():
                break
            undo(store.s, mark)
            store.stranded[:] = without

    def _movable(self, moves: Moves, of: SessionJob | None) -> list[SessionJob]:
        """Return the jobs whose flows may move."""
        jobs = list(self._jobs.values())
        if moves.who is Movable.ALL:
            return jobs
        if of is None or moves.who is Movable.NONE:
            return []
        mine = of.request
        return [
            job
            for job in jobs
            if (moves.who is Movable.OWN and job is of)
            or (moves.who is Movable.TENANT and job.request.tenant == mine.tenant)
            or (moves.who is Movable.LOWER and job.request.priority < mine.priority)
        ]

    def _or_beside(self, rows: Ints, goal: float, moves: Moves, of: SessionJob | None, mark: int) -> None:
        """Place flows as the full planner does that leaves the others alone; keep the result if it is better."""
        store = self._store
        before = score(store, goal)
        others = touched(store)
        paths, used = store.paths[others], int(store.counter.used[0])
        undo(store.s, mark)
        store.counter.used[0] = 0
        store.reserve_log(len(rows) + len(others))
        self._route(rows)
        self._relieve(goal, moves, of)
        if score(store, goal) > before:
            undo(store.s, mark)
            store.counter.used[0] = used
            set_paths(store.s, others, paths)

    def _seat(self, rows: Ints, goal: float) -> int:
        """Place flows on links of their own while that is possible; return how many of the rows were handled."""
        store, s = self._store, self._store.s
        size, width, done, counter = store.cuts.one_size, store.seat_bps, 0, store.counter
        if not (0 < size <= width) or store.phased:
            return 0
        for _ in range(MAX_UNSEATED):
            store.seated[0] = 0
            room = min(MAX_TRAIL, len(s.log) - int(counter.logged[0] + counter.reserve[0]))
            done = seat(store.seats, rows, done, room, store.cuts.bound, 2 * size / width)
            upwards = (s.up_leaf, s.up_plane, s.cables)
            count = chosen(store.seats, s.flow, *upwards, store.new_tick(), store.seat_rows, store.seat_paths)
            settled = store.seat_rows[:count]
            set_paths(s, settled, store.seat_paths[:count])
            counter.used[0] += np.count_nonzero(s.flow["fresh"][settled] != counter.event[0])
            s.flow["fresh"][settled] = counter.event[0]
            if done == len(rows):
                break
            place(s, rows[done : done + 1], store.cuts.bound, goal * HAIR)
            done += 1
        return done

    def _set(self, again: Flags) -> None:
        """Place flows with the full planner."""
        store, jobs = self._store, list(self._jobs.values())
        if not jobs:
            return
        every = np.concatenate([NO_ROWS, *(job.rows for job in jobs)])
        paths = replanned(self._router(), jobs, store.paths[every], again[every], store.background)
        set_paths(store.s, every[again[every]], paths)

    def _replan(self, worst: float) -> None:
        """Plan everything again; keep the result if it is better, or if priorities or pins need the full planner."""
        store = self._store
        mark, without = int(store.counter.logged[0]), store.stranded.copy()
        store.reserve_log(len(store.s.flow))
        self._set(store.used)
        store.mark_stranded(np.flatnonzero(store.used))
        if self._alike() and store.fullest()[0] * HAIR >= worst:
            undo(store.s, mark)
            store.stranded[:] = without

    def _relieve(self, goal: float, moves: Moves, of: SessionJob | None) -> bool:
        """Move flows off the fullest links by few moves; return whether only links that must be above 1 remain so."""
        store, counter = self._store, self._store.counter
        worst = store.fullest()[0]
        if worst <= HAIR and (worst <= goal * HAIR or not counter.budget[0]):
            return True
        store.reserve_log(0)
        counter.thrifty[0] = counter.thrifty[0] or 1
        counter.job[0], counter.tenant[0] = (-1, -1) if of is None else (of.number, self._tenant(of))
        # One size has no levels in between; where all flows may move, the full planner takes over. A goal of 1 is last.
        levels = LEVELS if not store.cuts.one_size and not moves.free else int(goal != 1.0)
        return lowered(store, goal, worst, levels) <= 1.0 or spare(store)

    def _tenant(self, job: SessionJob) -> int:
        """Return the number of a job's tenant."""
        return int(self._store.s.flow["tenant"][job.rows[0]]) if len(job.rows) else -1

    def _no_path(self, rows: Ints) -> str:
        """Explain which flows have no path, and name the cut."""
        store = self._store
        jobs = [self._jobs[number] for number in sorted(set(store.s.flow["job"][rows].tolist()))]
        every = np.concatenate([job.rows for job in jobs])
        flows = joined_flows([job.flows.as_job(number) for number, job in enumerate(jobs)])
        if self._topology.ports_of_rank is None:  # else the other parts of a flow matter
            chosen = store.stranded[every]
            every, flows = every[chosen], flows.rows(chosen)
        ids = [job.request.job_id for job in jobs]
        live, hops = self._live(), packed(store.paths[every])
        return dead_nic(self._topology, live, ids, flows) or no_path(self._topology, live, ids, flows, hops) or ""

    def _delta(self, own: Ints) -> Delta:
        """Compare the paths of the flows in the log with those before the event; those in `own` count as not moved."""
        rows, moved = changes(self._store, own)
        numbers = np.unique(self._store.s.flow["job"][rows]).tolist()
        return Delta(rows=rows, jobs=frozenset(self._jobs[number].request.job_id for number in numbers), moved=moved)
