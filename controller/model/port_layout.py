"""Define what the bits of a RoCEv2 UDP source port mean: a field for each stage of a path, and blocks of its values.

A port is 0xC000 | p with 14 bits p. Within a field every choice has a *home block*, which holds the planner's ports,
and perhaps surplus blocks, which only unplanned traffic uses. Blocks are aligned powers of two, so that each is one
masked match. Home blocks begin at fixed places: neither the number of choices nor their rates move one
(`PortField.reserve_bits`). In layouts of before that was so, their places follow from the choices and their rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

PORT_BASE = 0xC000
PORT_BITS = 14


class Stage(IntEnum):
    """The switch on a path that reads a field; in the order of the fields, from the top bit."""

    LEAF_UP = 0
    AGG_UP = 1
    TOP_DOWN = 2
    AGG_DOWN = 3


class Reserve(NamedTuple):
    """The numbers of cables of a switch that a fabric file wants ports to have room for; 0 where it does not say."""

    leaf_uplinks: int = 0
    agg_uplinks: int = 0
    parallel_cables: int = 0

    def of(self, stage: Stage) -> int:
        """Return the choices of a stage that ports are to have room for."""
        return self[min(stage, Stage.TOP_DOWN)]


NO_RESERVE = Reserve()


class Block(NamedTuple):
    """The field values whose top `length` bits equal `value`; they select `choice`."""

    value: int
    length: int
    choice: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortField:
    """A field of p: `width` bits at bit `shift`; width 0 where there is no choice.

    It has places for 2^reserve_bits home blocks. The places of the first 2^first_bits choices are evenly spaced, and
    later choices have those in between: so many equal choices need one block each. `reserve_bits` is None in layouts of
    before there was a reserve: home blocks follow each other, as large as the smallest share.
    """

    shift: int
    width: int
    reserve_bits: int | None = None
    first_bits: int = 0

    @property
    def room(self) -> int:
        """Return how many choices the field has places for."""
        return 1 << (self.width if self.reserve_bits is None else self.reserve_bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringLayout:
    """The field of each stage in one fabric; no switch reads the lowest `spare_bits`."""

    fields: tuple[PortField, PortField, PortField, PortField]

    @property
    def spare_bits(self) -> int:
        """Return the number of the port's lowest bits that select nothing (entropy)."""
        return min((field.shift for field in self.fields if field.width), default=PORT_BITS)


def shares(weights: Sequence[int], width: int) -> tuple[int, ...]:
    """Divide 2^width values among the choices by largest remainder, at least one value each."""
    total, size = sum(weights), 1 << width
    floors = [max(1, size * weight // total) for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(size * weights[i] % total), i))
    left = size - sum(floors)
    for i in range(max(0, left)):
        floors[by_remainder[i % len(floors)]] += 1
    while left < 0:
        heaviest = max(range(len(floors)), key=lambda i: (floors[i], -i))
        floors[heaviest] -= 1
        left += 1
    return tuple(floors)


@lru_cache(maxsize=4096)
def blocks(weights: tuple[int, ...], field: PortField) -> tuple[Block, ...]:
    """Divide a field among weighted choices into aligned blocks: home blocks first, then surplus up to each share.

    Raises ValueError where the field has no place for so many choices.
    """
    if len(weights) == 1:
        return (Block(0, 0, 0),)
    if len(weights) > field.room:
        raise ValueError(f"{len(weights)} choices do not fit a field with {field.room} places")
    owed = list(shares(weights, field.width))
    homes = _homes(weights, field, owed)
    found = [_block(start, size, field.width, choice) for choice, (start, size) in enumerate(homes)]
    owed = [share - size for share, (_, size) in zip(owed, homes, strict=True)]
    free = _between(homes, 1 << field.width)
    while free:
        free.sort(key=lambda block: (-block[1], block[0]))
        start, size = free.pop(0)
        neediest = max(range(len(owed)), key=lambda i: (owed[i], -i))
        if owed[neediest] >= size:
            found.append(_block(start, size, field.width, neediest))
            owed[neediest] -= size
        else:
            free += [(start, size // 2), (start + size // 2, size // 2)]
    return tuple(found)


def _block(start: int, size: int, width: int, choice: int) -> Block:
    return Block(start // size, width - (size.bit_length() - 1), choice)


def _homes(weights: Sequence[int], field: PortField, owed: Sequence[int]) -> list[tuple[int, int]]:
    """Return the home block (start, size) of each choice: as large as its share and the next home block allow."""
    if field.reserve_bits is None:
        size = home_size(weights, field)
        return [(choice * size, size) for choice in range(len(weights))]
    starts = [home_value(weights, field, choice) for choice in range(len(weights))]
    limits = dict(zip(sorted(starts), [*sorted(starts)[1:], 1 << field.width], strict=True))
    return [(start, _aligned_size(start, min(limits[start] - start, owed[i]))) for i, start in enumerate(starts)]


def _aligned_size(start: int, most: int) -> int:
    """Return the largest power of two up to `most` to which `start` is aligned."""
    size = 1 << (most.bit_length() - 1)
    return min(size, start & -start) if start else size


def _between(homes: Sequence[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the aligned blocks (start, size) of what no home block covers."""
    found: list[tuple[int, int]] = []
    at = 0
    for start, size in sorted(homes):
        found += _aligned(at, start)
        at = start + size
    return found + _aligned(at, end)


def _aligned(start: int, end: int) -> list[tuple[int, int]]:
    """Cut [start, end) into aligned power-of-two blocks (start, size)."""
    found = []
    while start < end:
        size = _aligned_size(start, end - start)
        found.append((start, size))
        start += size
    return found


def home_size(weights: Sequence[int], field: PortField) -> int:
    """Return the number of values from one place of a home block to the next, a power of two."""
    if field.reserve_bits is not None:
        return 1 << (field.width - field.reserve_bits)
    smallest = min(shares(weights, field.width))
    return 1 << (smallest.bit_length() - 1)


def home_value(weights: Sequence[int], field: PortField, choice: int) -> int:
    """Return the field value by which a planned port selects `choice`: the first of its home block."""
    if len(weights) == 1:
        return 0
    return home_place(field, choice) * home_size(weights, field)


def home_place(field: PortField, choice: int) -> int:
    """Return the number of a choice's place: the first 2^first_bits choices are far apart, later ones in between."""
    if field.reserve_bits is None:
        return choice
    later_bits = field.reserve_bits - field.first_bits
    turn, first = choice >> field.first_bits, choice & ((1 << field.first_bits) - 1)
    reversed_turn = sum((turn >> bit & 1) << (later_bits - 1 - bit) for bit in range(later_bits))
    return (first << later_bits) + reversed_turn


def choice_of(weights: Sequence[int], field: PortField, value: int) -> int:
    """Return the choice that a field value selects."""
    return next(b.choice for b in blocks(tuple(weights), field) if value >> (field.width - b.length) == b.value)


def imbalance(weights: Sequence[int], width: int) -> float:
    """Return the excess of the most favoured choice over its fair share, 0.03 for 3 %."""
    total, size = sum(weights), 1 << width
    return (
        max(share * total / (size * weight) for share, weight in zip(shares(weights, width), weights, strict=True)) - 1
    )
