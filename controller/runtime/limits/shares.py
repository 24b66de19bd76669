"""Limit how many calls of one kind a caller may have in progress, so that one caller leaves room for others."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from heddle.controller.model.error import BudgetExceededError

MAX_PREVIEWS = 4
"""The maximum number of previews of one caller in progress."""
CALLERS = 8
"""All callers together have as many as so many callers may have; no caller has more than are free."""


class Shares:
    """The calls in progress, by caller; `refused` counts the calls past `limit`."""

    def __init__(self, what: str, limit: int) -> None:
        self.limit = limit
        self.refused = 0
        self._what = what
        self._in_progress: Counter[str] = Counter()

    @contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """Count a call while the context lasts; raises BudgetExceededError where the caller has `limit` already."""
        own, free = self._in_progress[caller], CALLERS * self.limit - self._in_progress.total()
        if own >= min(self.limit, free):
            self.refused += 1
            raise BudgetExceededError(
                f"{own} {self._what} of {caller or 'this caller'} are in progress already, the most of one "
                f"caller beside {self._in_progress.total() - own} of others; try again when one is answered"
            )
        self._in_progress[caller] += 1
        try:
            yield
        finally:
            self._in_progress[caller] -= 1
            if not self._in_progress[caller]:
                del self._in_progress[caller]
