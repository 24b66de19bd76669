"""Move flows of a session for new ones, or to make room for later jobs, and lower no job's mean or worst share by it.

Proposals come from the session, which knows loads and no shares. One that lowers a share is undone, and a smaller one
is tried. Traffic of no job may end at any time: moves must also lower no share where there is none.
"""

from collections.abc import Sequence

from heddle.controller.model.moves import MAX_MOVES, MoveLimit, Whose
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.proof.shares import Shares, shares_of
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session

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


class HarmlessMoves:
    """The paths of all flows of a session in `hops`, and the jobs that have got other ones in `changed`."""

    def __init__(
        self, session: Session, topologies: Sequence[Topology], jobs: int, flows: Flows, rows: Ints, new: Ints
    ) -> None:  # fmt: skip
        """Begin with the paths that the session has without moves.

        `topologies` are those on which no share may fall: the first has the capacity that traffic of no job leaves.
        `flows` and `rows` are those of all `jobs` jobs; the rows in `new` have just been placed, and move uncounted.
        """
        self._session, self._topologies, self._new = session, topologies, new
        self._jobs, self._flows, self._rows = jobs, flows, rows
        self._shares: tuple[Shares, ...] | None = None
        self._fullest = session.max_link_utilisation()
        self.hops = session.all_hops(rows)
        self.changed: set[str] = set()

    def improve(self, limit: MoveLimit, subject: str) -> int:
        """Speed flows up or lower the fullest link by moves on behalf of the job `subject`; return their number.

        First the new flows are placed once more, now that others may move for them. Where that harms a job, moves are
        made with the new flows where they are: in one go, or else in smaller ones. Nothing moves without a gain.
        """
        session, before = self._session, self._fullest
        made, step, again = 0, limit.max_flows, len(self._new) > 0
        if before <= GAIN * session.lower_bound() and (before <= 1 or self._kept_shares()[0].worst.min(initial=1) >= 1):
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
        """Make room for later jobs by what is left of a limit after so many moves."""
        if limit.max_flows == MAX_MOVES or limit.max_flows <= moved:
            return
        moves = Moves(budget=limit.max_flows - moved, who=_MOVABLE[limit.whose])
        delta = self._session.make_room(moves, self._new)
        if len(delta) and self._accepts(gains=True):
            self.changed |= delta.jobs

    def _accepts(self, *, gains: bool = False) -> bool:
        """Keep a proposal of the session if no job's share falls and something is gained, else undo it.

        Where the fullest link is within its capacity before and after, no link between switches slows a flow.
        """
        moved, now = self._session.all_hops(self._rows), self._session.max_link_utilisation()
        gains = gains or now * GAIN < self._fullest
        if self._fullest <= 1 and now <= 1:
            shares, falls = self._shares, False
        else:
            kept, shares = self._kept_shares(), self._shares_of(moved)
            falls = any(after.falls_below(was) for after, was in zip(shares, kept, strict=True))
            gains = gains or shares[0].rises_above(kept[0])
        if falls or not gains:
            self._session.revert()
            return False
        self.hops, self._shares, self._fullest = moved, shares, now
        return True

    def _kept_shares(self) -> tuple[Shares, ...]:
        """Return the shares with the paths that are kept so far."""
        if self._shares is None:
            self._shares = self._shares_of(self.hops)
        return self._shares

    def _shares_of(self, hops: Ints) -> tuple[Shares, ...]:
        return tuple(shares_of(topology, self._flows, hops, self._jobs) for topology in self._topologies)
