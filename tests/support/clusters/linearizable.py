"""Check whether a history of calls on named objects could have happened one call after the other.

The algorithm of Wing and Gong, per object, with the memory of Lowe: depth first over which call is next, where a call
may come next if no other one returned before it was called. A call without a reply has happened at any time since, or
never.
"""

import math
from bisect import bisect_right
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


class Used(NamedTuple):
    """How many calls without a reply have happened."""

    puts: int
    deletes: int


State = tuple[int, frozenset[int], bool]


def violated(history: Iterable[Call]) -> list[str]:
    """Return the objects whose calls cannot have happened one after the other; each is absent at first."""
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in history:
        if call.kind is not Kind.READ or call.returned_s < math.inf:
            by_key[call.key].append(call)
    return [key for key, calls in by_key.items() if not _is_possible(sorted(calls, key=lambda call: call.called_s))]


def _is_possible(calls: Sequence[Call]) -> bool:
    """Search for an order. A state: the first call with a reply that is not placed, those placed after it, the object.

    Calls without a reply are interchangeable once they were called, so a state needs only how many are used of either
    kind, and is left where it was reached with fewer: a fault leaves hundreds of them.
    """
    certain = [call for call in calls if call.returned_s < math.inf]
    unknown = {kind: [call.called_s for call in calls if call.returned_s == math.inf and call.kind is kind]
               for kind in (Kind.PUT, Kind.DELETE)}  # fmt: skip
    seen: dict[State, list[Used]] = {}
    waiting = [((0, frozenset[int](), False), Used(0, 0))]
    while waiting:
        state, used = waiting.pop()
        if any(before.puts <= used.puts and before.deletes <= used.deletes for before in seen.get(state, ())):
            continue
        seen.setdefault(state, []).append(used)
        first, placed, there = state
        if first == len(certain):
            return True
        soonest, possible = _next(certain, first, placed)
        if there and bisect_right(unknown[Kind.DELETE], soonest) > used.deletes:
            waiting.append(((first, placed, False), Used(used.puts, used.deletes + 1)))
        elif not there and bisect_right(unknown[Kind.PUT], soonest) > used.puts:
            waiting.append(((first, placed, True), Used(used.puts + 1, used.deletes)))
        waiting += [
            ((*_placed(first, placed, number), after), used)
            for number in possible
            if (after := _after(certain[number], there)) is not None
        ]
    return False


def _next(certain: Sequence[Call], first: int, placed: frozenset[int]) -> tuple[float, list[int]]:
    """Return when the first of the calls that are left returned, and those that were called before."""
    soonest, possible = math.inf, []
    for number in range(first, len(certain)):
        if certain[number].called_s > soonest:
            break
        if number not in placed:
            possible.append(number)
            soonest = min(soonest, certain[number].returned_s)
    return soonest, possible


def _placed(first: int, placed: frozenset[int], number: int) -> tuple[int, frozenset[int]]:
    now = placed | {number}
    while first in now:
        now -= {first}
        first += 1
    return first, now


def _after(call: Call, there: bool) -> bool | None:
    """Return whether the object is there after a call, None where the call cannot have come now."""
    if call.kind is Kind.PUT:
        return True
    if call.found is not None and call.found is not there:
        return None
    return there if call.kind is Kind.READ else False
