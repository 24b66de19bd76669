"""Which flows an event of a session may move for others."""

from dataclasses import dataclass
from enum import IntEnum


class Movable(IntEnum):
    """Which flows may move for others: of jobs of lower priority, none, of the same job, of the same tenant, or all.

    With one priority, `LOWER` is as `NONE`: kernels let flows of others move for numbers above 0.
    """

    LOWER = -1
    NONE = 0
    OWN = 1
    TENANT = 2
    ALL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """How many flows may move for others in one event, None for any number, and which.

    In three tiers where no two flows fit on a link, `Session.make_room` spends a budget for all flows on later jobs.
    """

    budget: int | None = None
    who: Movable = Movable.NONE

    @property
    def free(self) -> bool:
        """Return whether any number of any flows may move."""
        return self.budget is None and self.who is Movable.ALL
