"""Check whether a history of calls on named objects could have happened one call after the other.

The algorithm of Wing and Gong, per object, with the memory of Lowe: depth first over which call is next, where a call
may come next if no other one returned before it was called. A call without a reply has happened at any time since, or
never.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    PUT = "put"
    DELETE = "delete"
    READ = "read"


class Call(NamedTuple):
    """One call on one object. `found`: whether the object was there, as a DELETE or READ has reported."""

    key: str
    kind: Kind
    called_s: float
    returned_s: float = math.inf
    found: bool | None = None


def violated(history: Iterable[Call]) -> list[str]:
    """Return the objects whose calls cannot have happened one after the other; each is absent at first."""
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in history:
        if call.kind is not Kind.READ or call.returned_s < math.inf:
            by_key[call.key].append(call)
    return [key for key, calls in by_key.items() if not _is_possible(sorted(calls, key=lambda call: call.called_s))]


def _is_possible(calls: Sequence[Call]) -> bool:
    """Search for an order. A state is the first call that is not placed, those placed after it, and the object."""
    begin = (0, frozenset[int](), False)
    seen = {begin}
    waiting = [begin]
    while waiting:
        first, placed, there = waiting.pop()
        rest = [number for number in range(first, len(calls)) if number not in placed]
        if all(calls[number].returned_s == math.inf for number in rest):
            return True
        soonest = min(calls[number].returned_s for number in rest)
        for number in rest:
            call = calls[number]
            if call.called_s > soonest:
                break
            after = _after(call, there)
            if after is None:
                continue
            now = placed | {number}
            start = first
            while start in now:
                now -= {start}
                start += 1
            state = (start, now, after)
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def _after(call: Call, there: bool) -> bool | None:
    """Return whether the object is there after a call, None where the call cannot have come now."""
    if call.kind is Kind.PUT:
        return True
    if call.found is not None and call.found is not there:
        return None
    return there if call.kind is Kind.READ else False
