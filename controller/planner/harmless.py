"""Move flows of a session for new ones, or to make room for later jobs, and lower no job's mean or worst share by it.

Proposals come from the session, which knows loads and no shares. One that lowers a share is undone, and a smaller one
is tried. Traffic of no job may end at any time: moves must also lower no share where there is none. Of sprayed flows
all paths count, with their weights, as the plan will have them.
"""

from collections.abc import Sequence

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.model.moves import MAX_MOVES, MoveLimit, Whose
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.proof.shares import Shares, shares_of
from heddle.controller.planner.proof.splittable import splittable_bound
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session
from heddle.controller.planner.spread.lists import may_spray, seated, sprayed
from heddle.controller.planner.spread.sprayed import Sprayed

GAIN = 1.02
"""Running flows move only where the fullest link is above the bound by more than this factor, or flows are slowed."""
MAX_ATTEMPTS = 10
"""The proposals of moves that are tried for a request, besides those for later jobs."""
_MOVABLE = {
    Whose.NONE: Movable.NONE,
    Whose.OWN_JOB: Movable.OWN,
    Whose.TENANT: Movable.TENANT,
    Whose.LOWER_PRIORITY: Movable.LOWER,
    Whose.ANY: Movable.ALL,
}


class Sets:
    """The path sets that follow from the planned paths of all flows; of none where no flow is sprayed."""

    def __init__(self, live: Live, jobs: Sequence[JobRequest], first: int, flows: Flows, beside: Floats) -> None:
        """Take the jobs, of which those from number `first` on are new, their flows, and the load of no job by link."""
        self._live, self._jobs, self._flows = live, jobs, flows
        self._fresh: Flags = flows.job >= first
        self._capacity, self._beside = live.topology.capacity[: len(beside)], beside
        self._seats: tuple[Ints, Ints] | None = None

    @property
    def count(self) -> int:
        """Return the number of jobs."""
        return len(self._jobs)

    def of(self, hops: Ints) -> Sprayed | None:
        """Return the lists of all flows for these planned paths, of which new flows may get other ones (`seated`)."""
        if not may_spray(self._live.topology, self._jobs):
            return None
        mine = hops[self._fresh]
        if self._seats is None or not np.array_equal(self._seats[0], mine):
            whole = seated(self._live, self._jobs, self._flows, hops, self._fresh)
            self._seats = mine, whole[self._fresh]
        as_planned = hops.copy()
        as_planned[self._fresh] = self._seats[1]
        return sprayed(self._live, self._jobs, self._flows, as_planned)

    def fullest(self, found: Sprayed) -> float:
        """Return the largest utilisation of links between switches, traffic of no job included."""
        loads = found.loads()[: len(self._beside)] + self._beside
        return float((loads / np.maximum(self._capacity, 1)).max(initial=0.0))

    def bound(self, found: Sprayed) -> float:
        """Return a bound of the largest utilisation for any paths of the flows that are sprayed."""
        return splittable_bound(self._live.topology, self._live, self._flows, found.split).value


class HarmlessMoves:
    """The paths of all flows of a session in `hops`, and the jobs that have got other ones in `changed`."""

    def __init__(
        self, session: Session, topologies: Sequence[Topology], sets: Sets, flows: Flows, rows: Ints, new: Ints
    ) -> None:  # fmt: skip
        """Begin with the paths that the session has without moves.

        `topologies` are those on which no share may fall: the first has the capacity that traffic of no job leaves.
        `flows` and `rows` are those of all jobs; the rows in `new` have just been placed, and move uncounted.
        """
        self._session, self._topologies, self._new = session, topologies, new
        self._sets, self._flows, self._rows = sets, flows, rows
        self._shares: tuple[Shares, ...] | None = None
        self.hops = session.all_hops(rows)
        self._spread = sets.of(self.hops)
        self._fullest = self._fullest_of(self._spread)
        self.changed: set[str] = set()

    def improve(self, limit: MoveLimit, subject: str) -> int:
        """Speed flows up or lower the fullest link by moves on behalf of the job `subject`; return their number.

        First the new flows are placed once more, now that others may move for them. Where that harms a job, moves are
        made with the new flows where they are: in one go, or else in smaller ones. Nothing moves without a gain.
        """
        session, before = self._session, self._fullest
        made, step, again = 0, limit.max_flows, len(self._new) > 0
        bound = session.lower_bound() if self._spread is None else self._sets.bound(self._spread)
        if before <= GAIN * bound and (before <= 1 or self._kept_shares()[0].worst.min(initial=1) >= 1):
            return 0
        for _ in range(MAX_ATTEMPTS):
            budget = None if limit.max_flows == MAX_MOVES else min(step, limit.max_flows - made)
            moves = Moves(budget=budget, who=_MOVABLE[limit.whose])
            delta = session.improve(moves, self._new, again=again, job_id=subject or None)
            if len(delta) and self._accepts():
                self.changed |= delta.jobs
                made += delta.moved
                if step == limit.max_flows or made == limit.max_flows:
                    break
            elif not again:
                step = step // 4 if len(delta) and budget is not None else 0
            again = False
            if not step:
                break
        return made

    def make_room(self, limit: MoveLimit, moved: int) -> None:
        """Make room for later jobs by what is left of a limit; none where flows are sprayed: they use all links."""
        if self._spread is not None or limit.max_flows == MAX_MOVES or limit.max_flows <= moved:
            return
        moves = Moves(budget=limit.max_flows - moved, who=_MOVABLE[limit.whose])
        delta = self._session.make_room(moves, self._new)
        if len(delta) and self._accepts(gains=True):
            self.changed |= delta.jobs

    def _accepts(self, *, gains: bool = False) -> bool:
        """Keep a proposal of the session if no job's share falls and something is gained, else undo it.

        Where the fullest link is within its capacity before and after, no link between switches slows a flow.
        """
        moved = self._session.all_hops(self._rows)
        spread = self._sets.of(moved)
        now = self._fullest_of(spread)
        gains = gains or now * GAIN < self._fullest
        if self._fullest <= 1 and now <= 1:
            shares, falls = self._shares, False
        else:
            kept, shares = self._kept_shares(), self._shares_of(moved, spread)
            falls = any(after.falls_below(was) for after, was in zip(shares, kept, strict=True))
            gains = gains or shares[0].rises_above(kept[0])
        if falls or not gains:
            self._session.revert()
            return False
        self.hops, self._spread, self._shares, self._fullest = moved, spread, shares, now
        return True

    def _fullest_of(self, spread: Sprayed | None) -> float:
        return self._session.max_link_utilisation() if spread is None else self._sets.fullest(spread)

    def _kept_shares(self) -> tuple[Shares, ...]:
        """Return the shares with the paths that are kept so far."""
        if self._shares is None:
            self._shares = self._shares_of(self.hops, self._spread)
        return self._shares

    def _shares_of(self, hops: Ints, spread: Sprayed | None) -> tuple[Shares, ...]:
        loads = None if spread is None else spread.loads()
        return tuple(
            shares_of(topology, self._flows, hops, self._sets.count, loads=loads, crossings=spread)
            for topology in self._topologies
        )
