"""Undo what is left by single exchanges of two plugs: as few as possible, and of those the nearest.

Expected and observed cabling are two matchings on the same ends. What differs between them are alternating cycles and
paths. A cycle of k cables is undone by k - 1 exchanges and by no fewer; which ones is chosen by dynamic programming
over its intervals, so that the exchanged plugs are near each other: two of one switch are exchanged more easily.
"""

from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.cabling.ends import NONE, Ends
from heddle.controller.cabling.observed import Observed

MAX_CHOSEN = 32
"""Cables of a cycle whose exchanges are chosen; time grows with the cube. Longer ones are undone from one side."""
EQUALLY_NEAR = 0.5
_SAME_NODE, _OTHER_NODE, _NO_END = 1.0, 5.0, 50.0
_PER_PORT, _MAX_PORTS = 0.05, 20


class Loop(NamedTuple):
    """A cycle of expected cables: the second end of each is joined to the first end of the next one.

    A path is closed to a cycle: the last join of an open one is missing. `NONE` stands for an end that no cable has.
    """

    cables: list[tuple[int, int]]
    is_open: bool = False


class Exchange(NamedTuple):
    """Two plugs to exchange; `instead` has those at the cables' other ends where exchanging them is as easy."""

    first: int
    second: int
    instead: tuple[int, ...]


def loops(observed: Observed) -> list[Loop]:
    """Return the cycles and paths in which expected and observed cabling differ, without simple missing cables."""
    expected, met = observed.ends.expected, observed.met
    wrong = observed.wrong_ends()
    seen: set[int] = set()
    found = []
    for end in wrong:
        if end not in seen:
            start = _first_of_path(end, expected, met)
            chain = _chain(end if start == NONE else start, expected, met)
            seen.update(chain)
            found.append(_loop(chain, start != NONE, met))
    return found


def _first_of_path(end: int, expected: list[int], met: list[int]) -> int:
    """Return an end of the path through a wrong end; NONE if that is a cycle."""
    at, step = end, 0
    while True:
        far = (met, expected)[step % 2][at]
        if far == NONE:
            return at
        at, step = far, step + 1
        if at == end and step % 2 == 0:
            return NONE


def _chain(start: int, expected: list[int], met: list[int]) -> list[int]:
    """Return the ends along a cycle, or a path from its end."""
    chain = [start]
    sides = (met, expected) if expected[start] == NONE else (expected, met)
    step = 0
    while (far := sides[step % 2][chain[-1]]) != NONE and far != start:
        chain.append(far)
        step += 1
    return chain


def _loop(chain: list[int], is_path: bool, met: list[int]) -> Loop:
    if is_path and met[chain[0]] != NONE:  # it begins at a spare end
        if len(chain) % 2:
            chain.reverse()
        else:
            chain = [*chain[1:], chain[0]]
            return Loop(list(zip(chain[::2], chain[1::2], strict=True)))
    is_open = is_path and len(chain) % 2 == 0
    if len(chain) % 2:
        chain = [*chain, NONE]
    return Loop(list(zip(chain[::2], chain[1::2], strict=True)), is_open)


def exchanges(loop: Loop, ends: Ends) -> Iterator[Exchange]:
    """Yield exchanges of two plugs, in the order in which to make them, that make the cables of a loop right."""
    count = len(loop.cables)
    if count > MAX_CHOSEN:
        for at in range(count - 1, 0, -1):
            yield _nearest(loop, 0, at - 1, at, ends)
        return
    choice = _choices(loop, ends)
    intervals = [(0, count - 1)]
    while intervals:
        low, high = intervals.pop()
        if low < high:
            split = choice[low, high]
            yield _nearest(loop, low, split, high, ends)
            intervals += [(low, split), (split + 1, high)]


def _choices(loop: Loop, ends: Ends) -> dict[tuple[int, int], int]:
    """Return where to split each interval of the cycle's cables, for the least distance in all."""
    count = len(loop.cables)
    cost: dict[tuple[int, int], float] = {(at, at): 0.0 for at in range(count)}
    choice = {}
    for span in range(1, count):
        for low in range(count - span):
            high = low + span
            best = min(
                (_cost(loop, low, split, high, ends) + cost[low, split] + cost[split + 1, high], split)
                for split in range(low, high)
            )
            cost[low, high], choice[low, high] = best
    return choice


def _sides(loop: Loop, low: int, split: int, high: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the two pairs of plugs, either of which divides the cycle low..high after `split`."""
    cables = loop.cables
    return (cables[split][1], cables[high][1]), (cables[split + 1][0], cables[low][0])


def _cost(loop: Loop, low: int, split: int, high: int, ends: Ends) -> float:
    return min(_distance(ends, *pair) for pair in _sides(loop, low, split, high))


def _nearest(loop: Loop, low: int, split: int, high: int, ends: Ends) -> Exchange:
    pair, other = sorted(_sides(loop, low, split, high), key=lambda pair: _distance(ends, *pair))
    if _distance(ends, *other) - _distance(ends, *pair) >= EQUALLY_NEAR:
        return Exchange(*pair, ())
    # Of equally near ones those at the leaves come first, where most plugs are within reach; NICs last.
    pair, other = sorted((pair, other), key=lambda pair: max(ends.tier[ends.node[end]] for end in pair))
    return Exchange(*pair, other)


def _distance(ends: Ends, first: int, second: int) -> float:
    if NONE in (first, second):
        return _NO_END
    if ends.node[first] != ends.node[second]:
        return _OTHER_NODE
    return _SAME_NODE + min(abs(ends.number[first] - ends.number[second]) - 1, _MAX_PORTS) * _PER_PORT
