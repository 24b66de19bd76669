"""Find runs of neighbouring ports whose plugs moved alike: shifted, reversed, in pairs, or exchanged with another run.

Such runs are what one mistake at a trunk, a cassette or a panel leaves behind. A run is described by a permutation of
plugs, so that undoing it shows what is wrong besides.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from heddle.controller.cabling.ends import NONE
from heddle.controller.cabling.observed import Observed

MIN_RUN = 3
"""Fewer neighbours that moved alike are no run: single exchanges describe them as shortly."""
MIN_MIRRORED = 4
"""Three ports in reverse order are one exchange, as are two in a pair."""


class Shape(IntEnum):
    """How a run moved; of two that explain as much the smaller is preferred."""

    SHIFTED = 0
    EXCHANGED = 1
    REVERSED = 2
    PAIRS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A run of ports of `node`, from `first` to `last`, whose plugs belong at `place` from number `at` on.

    `places` maps each plug's end to the one where it belongs. `gain` is how many plugs this puts right.
    """

    shape: Shape
    node: int
    first: int
    last: int
    place: int
    at: int
    places: Mapping[int, int]
    gain: int

    @property
    def order(self) -> tuple[int, ...]:
        """Return the order of preference: the most plugs first."""
        return (-self.gain, self.shape, self.node, self.place, self.first)


def moved_blocks(observed: Observed) -> list[Block]:
    """Return runs that do not overlap, those of the most plugs first."""
    homes = homes_of(observed)
    found: list[Block] = []
    taken: set[int] = set()
    for block in sorted(_Runs(observed, homes).blocks(), key=lambda block: block.order):
        # The other end of the same fault may look like a run as well.
        touched = {*block.places, *(observed.met[end] for end in block.places)} - {NONE}
        if taken.isdisjoint(touched):
            taken |= touched
            found.append(block)
    return found


def homes_of(observed: Observed) -> dict[int, int]:
    """Return, for each plug in a wrong end, the end where it belongs if its cable's far end is right."""
    expected, met = observed.ends.expected, observed.met
    return {end: expected[met[end]] for end in observed.wrong_ends() if expected[met[end]] != NONE}


class _Runs:
    """Finds runs among the plugs that one node holds and another, or the same, should hold."""

    def __init__(self, observed: Observed, homes: Mapping[int, int]) -> None:
        self._observed = observed
        self._ends = observed.ends
        self._homes = homes
        self._moves: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        ends = observed.ends
        for end, home in homes.items():
            if ends.number[end] >= 0:
                self._moves[ends.node[end], ends.node[home]][ends.number[end]] = ends.number[home]

    def blocks(self) -> Iterator[Block]:
        for (node, place), moves in self._moves.items():
            if len(moves) < MIN_RUN - 1:
                continue
            for first, last in self._runs(node, moves, 1):
                yield from self._parallel(node, place, moves, first, last)
            for first, last in self._runs(node, moves, -1):
                yield from self._mirrored(node, place, moves, first, last)
            if node == place:
                yield from self._paired(node, moves)

    def _runs(self, node: int, moves: Mapping[int, int], step: int) -> Iterator[tuple[int, int]]:
        """Yield the first and last number of each run of two or more whose places rise (1) or fall (-1) with them.

        A port of which nothing is heard does not end a run, nor does the fixed middle of a reversal.
        """
        alike: dict[int, list[int]] = defaultdict(list)
        for number in sorted(moves):
            alike[moves[number] - step * number].append(number)
        for shared, numbers in alike.items():
            first = last = numbers[0]
            for number in numbers[1:]:
                middle = shared / 2 if step < 0 else None
                if not all(between == middle or self._is_silent(node, between) for between in range(last + 1, number)):
                    if last > first:
                        yield first, last
                    first = number
                last = number
            if last > first:
                yield first, last

    def _is_silent(self, node: int, number: int) -> bool:
        end = self._ends.find(node, number)
        return end != NONE and self._observed.met[end] == NONE

    def _parallel(self, node: int, place: int, moves: Mapping[int, int], first: int, last: int) -> Iterator[Block]:
        offset = moves[first] - first
        length = last - first + 1
        if node != place or abs(offset) >= length:
            if sum(number in moves for number in range(first, last + 1)) >= MIN_RUN:
                numbers = {number: number + offset for number in range(first, last + 1)}
                yield from self._block(Shape.EXCHANGED, node, place, numbers, exchange=True)
            return
        # A shift within one node: the ports that it leaves get the plugs of those that it takes.
        low, high = (first, last + offset) if offset > 0 else (first + offset, last)
        size = high - low + 1
        numbers = {number: low + (number - low + offset) % size for number in range(low, high + 1)}
        yield from self._block(Shape.SHIFTED, node, node, numbers)

    def _mirrored(self, node: int, place: int, moves: Mapping[int, int], first: int, last: int) -> Iterator[Block]:
        shared = moves[first] + first
        if node == place:
            if first + last == shared and last - first + 1 >= MIN_MIRRORED:
                numbers = {number: shared - number for number in range(first, last + 1)}
                yield from self._block(Shape.REVERSED, node, node, numbers)
        elif last - first + 1 >= MIN_RUN:
            numbers = {number: shared - number for number in range(first, last + 1)}
            yield from self._block(Shape.REVERSED, node, place, numbers, exchange=True)

    def _paired(self, node: int, moves: Mapping[int, int]) -> Iterator[Block]:
        end = 0
        for first in sorted(moves):
            if first < end:
                continue
            end = first
            while moves.get(end) == end + 1 and moves.get(end + 1) == end:
                end += 2
            if end - first >= MIN_MIRRORED:
                numbers = {at: at + 1 if (at - first) % 2 == 0 else at - 1 for at in range(first, end)}
                yield from self._block(Shape.PAIRS, node, node, numbers)

    def _block(
        self, shape: Shape, node: int, place: int, numbers: Mapping[int, int], exchange: bool = False
    ) -> Iterator[Block]:
        """Yield the block if all of its ends exist and it puts enough plugs right."""
        ends = self._ends
        places = {ends.find(node, number): ends.find(place, to) for number, to in numbers.items()}
        if exchange:
            places |= {to: end for end, to in places.items()}
        if NONE in places or NONE in places.values():
            return
        gain = sum(self._homes.get(end) == to for end, to in places.items())
        if gain >= MIN_RUN:
            at = min(numbers.values())
            first, last = min(numbers), max(numbers)
            yield Block(shape=shape, node=node, first=first, last=last, place=place, at=at, places=places, gain=gain)
