"""Place the flows of one event (a job arrives or ends, a link fails or returns) among those already placed.

If all flows may move, plan everything again where the fullest link is more than SLACK above the lower bound and above
what the last full plan reached, or where jobs have several priorities or pins by addresses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from controller.model.plan import Infeasible
from controller.planner.clos import NO_LINK, Live, Topology
from controller.planner.expand import joined
from controller.planner.jit import Flags, Floats, Ints
from controller.planner.refusal import dead_nic, no_path, too_full
from controller.planner.session.chains import place
from controller.planner.session.delta import Delta, SessionJob, first_touched, flows_of, packed
from controller.planner.session.paths import set_paths, undo
from controller.planner.session.replan import replanned
from controller.planner.session.seats import MAX_TRAIL, chosen, seat
from controller.planner.session.state import Store
from controller.planner.session.table import DEAD

SLACK = 1.05
"""Ratio of the largest utilisation to the lower bound above which everything is planned again, if all may move."""
HAIR = 1 + 1e-9
"""Two utilisations that differ by less than this factor count as equal: they are quotients of floats."""
MAX_STEPS = 64
"""Maximum of flows that one event moves off the link that is the fullest at that time."""
MAX_UNSEATED = 16
"""After this many flows for which no links of their own are found, the others are placed without looking for such."""
MAX_MOVABLE = 256
"""Maximum of flows of one link for which other paths are tried."""
NO_ROWS: Ints = np.empty(0, dtype=np.int64)


class Movable(IntEnum):
    """Which flows may move for others: none, those of the same job, of the same tenant, or all."""

    NONE = 0
    OWN = 1
    TENANT = 2
    ALL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """How many flows may move for others in one event, None for any number, and which."""

    budget: int | None = None
    who: Movable = Movable.NONE

    @property
    def free(self) -> bool:
        """Return whether any number of any flows may move."""
        return self.budget is None and self.who is Movable.ALL


class Engine:
    """Chooses the paths of a session's flows, in the arrays of its `Store`."""

    def __init__(self, topology: Topology, store: Store, jobs: dict[int, SessionJob], live: Callable[[], Live]) -> None:
        """Keep references to a session's parts, which the session changes."""
        self._topology, self._store, self._jobs, self._live = topology, store, jobs, live
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
        store.find_lost(rows)
        self._over = self._over_limit(store.fullest()[0])

    def handle(
        self, rows: Ints, moves: Moves, *, refuses: bool, improve: SessionJob | bool = False,
        gone: SessionJob | None = None,
    ) -> Delta | Infeasible:  # fmt: skip
        """Place these flows and return the changes since `Store.begin_event`.

        With `refuses`, the result is Infeasible, without a change, if a flow has no path or a job newly exceeds its
        `require_utilisation`. With `improve`, flows also move off the fullest link: those of the given job or of its
        tenant, or with True any. `gone` is a job that has just left the session; the delta includes its flows.
        """
        store, goal = self._store, self._store.cuts.lower_bound()
        was_lost, reached = store.before_event, self._reached
        shared = self._place(rows, goal, moves)
        worst, link = store.fullest()
        if improve or (moves.free and worst > SLACK * goal and self._in_steps()):
            self._improve(goal, moves, improve if isinstance(improve, SessionJob) else None)
            worst, link = store.fullest()
        whole = moves.free and (worst > SLACK * max(goal, self._reached) or not self._alike()) and self._replan(worst)
        if whole:
            worst, link = store.fullest()
            shared = int(self._on_fuller(rows, goal).sum())
        stranded = rows[store.lost[rows]]
        why = self._no_path(stranded) if len(stranded) else ""
        over = self._over_limit(worst)
        if refuses and (why or over - self._over):
            refusal = Infeasible(why=why or self._too_full(min(over - self._over), goal))
            undo(store.s, 0)
            store.lost[:] = was_lost
            self._reached = reached
            return refusal
        self._over = over
        return self._delta(rows, gone, shared, why, bool(whole), worst, goal, link)

    def ease(self) -> None:
        """Forget the utilisation that the last full plan reached: fewer demands or more links may allow a lower one."""
        self._reached = 0.0

    def _alike(self) -> bool:
        """Return whether the fullest link alone ranks plans: one priority and no pins by addresses."""
        return not self._store.pins and len({job.request.priority for job in self._jobs.values()}) < 2

    def _in_steps(self) -> bool:
        """Return whether flows are placed one by one: on a regular Clos fabric, with one priority and no pins."""
        return self._store.regular and self._alike()

    def _place(self, rows: Ints, goal: float, moves: Moves) -> int:
        """Place flows again beside all others; return how many are on links above the bounds of their own cuts."""
        store = self._store
        if not len(rows):
            return 0
        store.reserve_log(len(rows))
        s = store.s
        s.flow["fresh"][rows] = store.counter.event[0]
        if (self._store.paths[rows] >= 0).any():
            set_paths(s, rows, no_paths(len(rows)))
        demand = s.flow["demand"][rows]
        if demand.min() < demand.max():
            rows = rows[np.argsort(-demand, kind="stable")]
        found: Ints = np.zeros(len(rows), dtype=np.int64)
        # Without other flows a full plan moves none, and is the fastest.
        if self._in_steps() and len(rows) < int(store.used.sum()):
            begin = self._seat(rows, found, goal) if moves.free else 0
            place(s, rows[begin:], store.cuts.bound, goal * HAIR, False, found[begin:])
        else:
            again: Flags = np.zeros(len(s.flow), dtype=np.bool_)
            again[rows] = True
            self._set(again)
            found = self._on_fuller(rows, goal).astype(np.int64)
        store.find_lost(rows)
        return int((found == 1).sum())

    def _seat(self, rows: Ints, found: Ints, goal: float) -> int:
        """Place flows on links of their own while that is possible; return how many of the rows were handled."""
        store, s = self._store, self._store.s
        size, width, done, counter = store.cuts.one_size, store.seat_bps, 0, store.counter
        if not (0 < size <= width) or s.layer_span["end"].any():
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
            place(s, rows[done : done + 1], store.cuts.bound, goal * HAIR, False, found[done : done + 1])
            done += 1
        return done

    def _set(self, again: Flags) -> None:
        """Place flows with the full planner."""
        s, jobs = self._store.s, list(self._jobs.values())
        if not jobs:
            return
        every = np.concatenate([NO_ROWS, *(job.rows for job in jobs)])
        paths = replanned(self._topology, self._live(), jobs, self._store.paths[every], again[every])
        set_paths(s, every[again[every]], paths)

    def _replan(self, worst: float) -> bool:
        """Plan everything again; keep the result if it is better, or if priorities or pins need the full planner."""
        store = self._store
        mark, lost = int(store.counter.logged[0]), store.lost.copy()
        flows = len(store.s.flow)
        store.reserve_log(flows)
        self._set(store.used)
        store.find_lost(np.flatnonzero(store.used))
        self._reached = min(worst, store.fullest()[0])
        if self._alike() and store.fullest()[0] * HAIR >= worst:
            undo(store.s, mark)
            store.lost[:] = lost
            return False
        return True

    def _improve(self, goal: float, moves: Moves, of: SessionJob | None) -> None:
        """Move flows off the fullest link one by one while that lowers it and the budget lasts."""
        store = self._store
        store.reserve_log(MAX_STEPS)
        s = store.s
        no_bound, found = np.zeros_like(store.cuts.bound), np.zeros(1, dtype=np.int64)
        for _ in range(MAX_STEPS):
            worst, link = store.fullest()
            if worst <= goal * HAIR or store.counter.used[0] >= store.counter.budget[0]:
                return
            limits = (goal * HAIR, worst / HAIR) if worst / HAIR > goal * HAIR else (worst / HAIR,)
            for f in self._movable(link, moves, of):
                for limit in limits:
                    place(s, f, no_bound, limit, True, found)
                    if found[0] == 0:
                        break
                if found[0] == 0:
                    break
            else:
                return

    def _movable(self, link: int, moves: Moves, of: SessionJob | None) -> list[Ints]:
        """Return the flows of a link that may move off it, each as an array of one row."""
        s = self._store.s
        rows = flows_of(self._store, np.array([link], dtype=np.int64))
        if moves.who is Movable.NONE or not self._in_steps():
            return []
        if moves.who is not Movable.ALL:
            if of is None:
                return []
            mine = s.flow["job"][rows] == of.number
            rows = rows[mine if moves.who is Movable.OWN else s.flow["tenant"][rows] == s.flow["tenant"][of.rows[0]]]
        return [rows[i : i + 1] for i in range(min(len(rows), MAX_MOVABLE))]

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
        chosen = store.lost[every]
        flows = joined([job.flows.as_job(number) for number, job in enumerate(jobs)]).rows(chosen)
        ids = [job.request.job_id for job in jobs]
        live, hops = self._live(), packed(store.paths[every[chosen]])
        return dead_nic(self._topology, live, ids, flows) or no_path(self._topology, live, ids, flows, hops) or ""

    def _delta(
        self, placed: Ints, gone: SessionJob | None, shared: int, why: str, whole: bool, worst: float, goal: float,
        link: int,
    ) -> Delta:  # fmt: skip
        """Compare the paths of the flows in the log with those before the event."""
        store, was_lost = self._store, self._store.before_event
        s = store.s
        rows, old = first_touched(store)
        had, has, new = ~was_lost[rows], ~store.lost[rows], self._store.paths[rows]
        changed = (old != new).any(axis=1) | (had != has)
        at_hand: Flags = np.zeros(len(s.flow), dtype=np.bool_)
        at_hand[placed] = True
        mine = at_hand[rows]
        rows, old, new = rows[changed], old[changed], new[changed]
        owner = s.flow["job"][rows]
        jobs = self._jobs if gone is None else {**self._jobs, gone.number: gone}
        return Delta(
            topology=self._topology,
            jobs={number: jobs[number] for number in set(owner.tolist())},
            job=owner,
            index=store.index[rows],
            old=old,
            new=new,
            had=had[changed],
            has=has[changed],
            placed=int((mine & has & changed).sum()),
            moved=int((~mine & had & has & changed).sum()),
            shared=shared,
            stranded=int(store.lost[placed].sum()),
            why_stranded=why,
            replanned=whole,
            max_link_utilisation=worst,
            lower_bound=goal,
            bottleneck_link=self._topology.link_ids[link] if worst > 0 else "",
        )


def no_paths(flows: int) -> Ints:
    """Return `flows` rows of links by role without a link."""
    return np.full((flows, 4), NO_LINK, dtype=np.int64)
