"""Define the policy for moves: how many running flows a decision may move to other paths, and whose.

A severed flow is placed in any case and is not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Cause(IntEnum):
    """What made a decision necessary, or useful; numbers are those of the proto's `MoveLimit.Cause`."""

    ARRIVAL = 1
    RELEASE = 2
    FAILURE = 3
    RECOVERY = 4
    CONGESTION = 5
    DRAIN = 6
    CONVERGENCE = 7


class Whose(IntEnum):
    """Whose flows may move; numbers are those of the proto's `MoveLimit.Whose`.

    A convergence is on behalf of no job: its limit is for flows of ANY, that of a job is for the job's own flows.
    OWN_JOB, TENANT and LOWER_PRIORITY refer to the job on whose behalf the decision is made.
    """

    NONE = 1
    OWN_JOB = 2
    TENANT = 3
    LOWER_PRIORITY = 4
    ANY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLimit:
    """At most `max_flows` flows of those that `whose` allows; MAX_MOVES means any number."""

    whose: Whose = Whose.NONE
    max_flows: int = 0

    @property
    def moves_none(self) -> bool:
        """Return whether no flow may move."""
        return self.whose is Whose.NONE or not self.max_flows


MAX_MOVES = (1 << 32) - 1
NO_MOVES = MoveLimit()
DEFAULT_MOVES: Mapping[Cause, MoveLimit] = {
    Cause.ARRIVAL: MoveLimit(whose=Whose.ANY, max_flows=64),
    Cause.RELEASE: MoveLimit(whose=Whose.ANY, max_flows=16),
    Cause.FAILURE: MoveLimit(whose=Whose.ANY, max_flows=64),
    Cause.RECOVERY: MoveLimit(whose=Whose.ANY, max_flows=64),
    Cause.CONGESTION: MoveLimit(whose=Whose.ANY, max_flows=16),
    Cause.DRAIN: MoveLimit(whose=Whose.ANY, max_flows=64),
    Cause.CONVERGENCE: MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES),
}
"""The defaults; docs/closed-loop.md has the measurements that they follow from."""
