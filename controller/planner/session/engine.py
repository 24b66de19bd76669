"""Place the flows of one event (a job arrives or ends, a link fails or returns) among those already placed.

If all flows may move, plan everything again where the fullest link is more than SLACK above the lower bound and above
what the last full plan reached, or where jobs have several priorities or pins by addresses.
"""

from collections.abc import Callable

import numpy as np

from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.ground.clos import NO_LINK, Topology
from heddle.controller.planner.ground.expand import joined_flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.paths import packed
from heddle.controller.planner.refusal import dead_nic, no_path, too_full
from heddle.controller.planner.route import Router
from heddle.controller.planner.session.delta import Delta, SessionJob, changes, no_paths, touched
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.paths import set_paths, undo
from heddle.controller.planner.session.place import above_bounds, place
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
NO_ROWS: Ints = np.empty(0, dtype=np.int64)
LEVELS = 4
"""The utilisations that are tried as the maximum: the bound, then by bisection between it and the fullest link."""


class Engine:
    """Chooses the paths of a session's flows, in the arrays of its `Store`."""

    def __init__(
        self, topology: Topology, store: Store, jobs: dict[int, SessionJob], router: Callable[[], Router]
    ) -> None:
        """Keep references to a session's parts, which the session changes."""
        self._topology, self._store, self._jobs, self._router = topology, store, jobs, router
        self._over: frozenset[int] = frozenset()
        self._reached = 0.0

    def adopt(self, rows: Ints, paths: Ints) -> None:
        """Adopt flows with their paths; those on dead links have no path afterwards."""
        store = self._store
        inverse: Floats = np.append(store.s.inverse, 0.0)
        dead = np.asarray((inverse[paths] >= DEAD).any(axis=1))
        store.begin_event(Movable.NONE, 0)
        store.reserve_log(len(rows))
        set_paths(store.s, rows, np.where(dead[:, None], NO_LINK, paths))
        store.mark_stranded(rows)
        self._over = self._over_limit(store.fullest()[0])

    def handle(
        self, rows: Ints, moves: Moves, *, refuses: bool, improve: bool = False, of: SessionJob | None = None,
        gone: SessionJob | None = None,
    ) -> Delta | Infeasible:  # fmt: skip
        """Place these flows and return the changes since `Store.begin_event`.

        With `refuses`, the result is Infeasible, without a change, if a flow has no path or a job newly exceeds its
        `require_utilisation`. With `improve`, flows also move off the fullest link where all may move; otherwise only
        where that link is more than SLACK above the bound. `of` is the job to which OWN and TENANT refer. `gone` is a
        job that has just left the session; the delta includes its flows.
        """
        store, goal = self._store, self._store.cuts.lower_bound()
        without, reached = store.before_event, self._reached
        shared, worst, link = self._place(rows, goal, moves, of, improve)
        whole = moves.free and (worst > SLACK * max(goal, self._reached) or not self._alike()) and self._replan(worst)
        if whole:
            worst, link = store.fullest()
            shared = int(self._on_fuller(rows, goal).sum())
        stranded = rows[store.stranded[rows]]
        why = self._no_path(stranded) if len(stranded) else ""
        over = self._over_limit(worst)
        if refuses and (why or over - self._over):
            refusal = Infeasible(why=why or self._too_full(min(over - self._over), goal))
            undo(store.s, 0)
            store.stranded[:] = without
            self._reached = reached
            return refusal
        self._over = over
        return self._delta(rows, gone, shared, why, bool(whole), worst, goal, link)

    def improve(self, new: Ints, moves: Moves, *, again: bool, of: SessionJob | None) -> Delta:
        """Lower the fullest links as far as moves are allowed, and with `again` place the flows in `new` once more.

        Flows in `new` may move without a charge. What only the full planner places, it has placed already.
        """
        store = self._store
        store.s.flow["fresh"][new] = store.counter.event[0]
        placed = new if again and self._in_steps() else NO_ROWS
        stranded = np.flatnonzero(store.stranded & store.used)
        result = self.handle(np.union1d(placed, stranded), moves, refuses=False, improve=True, of=of)
        assert isinstance(result, Delta)
        return result

    def make_room(self, new: Ints, moves: Moves) -> Delta:
        """Make room for later jobs, as `Moves` says; flows in `new` may move without a charge."""
        store = self._store
        store.s.flow["fresh"][new] = store.counter.event[0]
        if self._looks_ahead(moves):
            emptied(store)
        return self._delta(
            NO_ROWS, None, 0, "", False, store.fullest()[0], store.cuts.lower_bound(), store.fullest()[1]
        )

    def revert(self) -> None:
        """Undo the path changes since `Store.begin_event`."""
        store = self._store
        undo(store.s, 0)
        store.stranded[:] = store.before_event
        self._over = self._over_limit(store.fullest()[0])

    def ease(self) -> None:
        """Forget the utilisation that the last full plan reached: fewer demands or more links may allow a lower one."""
        self._reached = 0.0

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

    def _place(
        self, rows: Ints, goal: float, moves: Moves, of: SessionJob | None, improve: bool
    ) -> tuple[int, float, int]:
        """Place flows again and lower the fullest links as far as moves are allowed.

        Returns how many of the flows are on links above the bounds of their own cuts, and the fullest link.
        """
        store = self._store
        mark = int(store.counter.logged[0])
        plain = store.seat_bps and not store.phased
        store.counter.pair[0] = int(2 * store.cuts.one_size) if plain else 0
        self._prepare(rows)
        if not self._in_steps():
            if len(rows):
                self._route(rows)
                store.mark_stranded(rows)
            if improve and not moves.free and store.fullest()[0] > goal * HAIR:
                self._reroute(goal, moves, of)
            return int(self._on_fuller(rows, goal).sum()), *store.fullest()
        phased = bool((store.s.flow["layer"][rows] >= 0).any()) if len(rows) else store.phased
        # Without other flows a full plan moves none, and is the fastest. Only in such a plan do phases share links.
        if len(rows) and (phased or len(rows) == int(store.used.sum())):
            self._route(rows)
        elif len(rows):
            self._one_by_one(rows, goal, moves)
            self._across(rows)
        fullest = store.fullest()
        if phased and not moves.free:
            if moves.budget != 0:
                self._relieve_phased(rows, goal, moves, of)
            fullest = store.fullest()
        elif improve or not moves.free or fullest[0] > SLACK * goal:
            settled = self._relieve(goal, moves, of) and moves.budget != 0
            if not (settled or moves.free) and len(rows) and score(store, goal) > PERFECT:
                self._or_beside(rows, goal, moves, of, mark)
            fullest = store.fullest()
        store.mark_stranded(rows)
        return above_bounds(store.s, rows, store.cuts.bound), *fullest

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

    def _replan(self, worst: float) -> bool:
        """Plan everything again; keep the result if it is better, or if priorities or pins need the full planner."""
        store = self._store
        mark, without = int(store.counter.logged[0]), store.stranded.copy()
        store.reserve_log(len(store.s.flow))
        self._set(store.used)
        store.mark_stranded(np.flatnonzero(store.used))
        self._reached = min(worst, store.fullest()[0])
        if self._alike() and store.fullest()[0] * HAIR >= worst:
            undo(store.s, mark)
            store.stranded[:] = without
            return False
        return True

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

    def _on_fuller(self, rows: Ints, goal: float) -> Flags:
        """Return for each flow whether it crosses a link above `goal`."""
        s = self._store.s
        used = np.append(s.load / self._store.divisor, 0.0)
        return np.asarray((used[self._store.paths[rows]] > goal * HAIR).any(axis=1), dtype=np.bool_)

    def _over_limit(self, worst: float) -> frozenset[int]:
        """Return the jobs that use a link above their `require_utilisation`."""
        wants = [job for job in self._jobs.values() if 0 < job.request.require_utilisation < worst]
        if not wants:
            return frozenset()
        used = np.append(self._store.s.load / self._store.divisor, 0.0)
        return frozenset(
            job.number
            for job in wants
            if float(used[self._store.paths[job.rows]].max(initial=0.0)) > job.request.require_utilisation
        )

    def _too_full(self, number: int, goal: float) -> str:
        """Explain which link of a job exceeds its `require_utilisation`."""
        store, job = self._store, self._jobs[number]
        used = np.append(store.s.load / store.divisor, 0.0)
        paths = store.paths[job.rows]
        links = np.unique(paths[paths >= 0])
        link = int(links[used[links].argmax()])
        wanted = job.request.require_utilisation
        return too_full(job.request.job_id, wanted, float(used[link]), self._topology.link_ids[link], goal)

    def _no_path(self, rows: Ints) -> str:
        """Explain which flows have no path, and name the cut."""
        store = self._store
        jobs = [self._jobs[number] for number in sorted(set(store.s.flow["job"][rows].tolist()))]
        every = np.concatenate([job.rows for job in jobs])
        chosen = store.stranded[every]
        flows = joined_flows([job.flows.as_job(number) for number, job in enumerate(jobs)]).rows(chosen)
        ids = [job.request.job_id for job in jobs]
        live, hops = self._router().live, packed(store.paths[every[chosen]])
        return dead_nic(self._topology, live, ids, flows) or no_path(self._topology, live, ids, flows, hops) or ""

    def _delta(
        self, placed: Ints, gone: SessionJob | None, shared: int, why: str, whole: bool, worst: float, goal: float,
        link: int,
    ) -> Delta:  # fmt: skip
        """Compare the paths of the flows in the log with those before the event."""
        store, found = self._store, changes(self._store, placed)
        jobs = self._jobs if gone is None else {**self._jobs, gone.number: gone}
        return Delta(
            topology=self._topology,
            jobs={number: jobs[number] for number in set(found.job.tolist())},
            row=found.row,
            job=found.job,
            index=found.number,
            old=found.old,
            new=found.new,
            had=found.had,
            has=found.has,
            placed=found.placed,
            moved=found.moved,
            shared=shared,
            stranded=int(store.stranded[placed].sum()),
            why_stranded=why,
            replanned=whole,
            max_link_utilisation=worst,
            lower_bound=goal,
            bottleneck_link=self._topology.link_ids[link] if worst > 0 else "",
        )
