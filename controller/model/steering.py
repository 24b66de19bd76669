"""Define which bits of a RoCEv2 UDP source port select which cable at which kind of switch.

This module is all that planner and rules share: the planner encodes a path in a port number, and the rules decode the
path from it. A port is 0xC000 | p with 14 bits p; each *stage* of a path has a field of p. Within a field every choice
has a *home block*, which holds the planner's ports. Where the number of choices is no power of two, or their weights
differ, it also has surplus blocks that only unplanned traffic uses. Blocks are aligned powers of two, so that each is
one masked match.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric, Role

PORT_BASE = 0xC000
PORT_BITS = 14
BUCKETS_PER_CHOICE = 8
"""Minimum number of blocks per choice to approximate an even share, where the port has enough bits."""


class Stage(IntEnum):
    """The switch on a path that reads a field; in the order of the fields, from the top bit."""

    LEAF_UP = 0
    AGG_UP = 1
    TOP_DOWN = 2
    AGG_DOWN = 3


class Block(NamedTuple):
    """The field values whose top `length` bits equal `value`; they select `choice`."""

    value: int
    length: int
    choice: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortField:
    """A field of p: `width` bits at bit `shift`; width 0 where there is no choice."""

    shift: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringLayout:
    """The field of each stage in one fabric; no switch reads the lowest `spare_bits`."""

    fields: tuple[PortField, PortField, PortField, PortField]

    @property
    def spare_bits(self) -> int:
        """Return the number of the port's lowest bits that select nothing (entropy)."""
        return min((field.shift for field in self.fields if field.width), default=PORT_BITS)


def stage_up(role: Role) -> Stage:
    """Return the stage at which a switch of this role selects a cable upwards."""
    return Stage.LEAF_UP if role is Role.LEAF else Stage.AGG_UP


def stage_down(role: Role) -> Stage:
    """Return the stage at which a switch of this role selects a cable down to one leaf."""
    return Stage.AGG_DOWN if role is Role.AGG else Stage.TOP_DOWN


def _home_bits(choices: int) -> int:
    return (choices - 1).bit_length()


def _wanted_extra(weight_sets: set[tuple[int, ...]]) -> int:
    """Return the bits beyond the home bits that an even (or weighted) split needs."""
    exact = all(len(set(w)) <= 1 and len(w) & (len(w) - 1) == 0 for w in weight_sets)
    return 0 if exact else (BUCKETS_PER_CHOICE - 1).bit_length()


def layout_of(fabric: Fabric) -> SteeringLayout:
    """Divide the port's 14 bits among the stages of this fabric, home bits first, then evenness.

    Raises ValueError where the home bits of all stages exceed 14 (more than 2^14 paths).
    """
    weights: dict[Stage, set[tuple[int, ...]]] = {stage: set() for stage in Stage}
    for switch in fabric.switches:
        up = tuple(cable.capacity_bps for cable in fabric.up_choices[switch.id])
        if len(up) > 1:
            weights[stage_up(switch.role)].add(up)
        for group in fabric.down_groups.get(switch.id, ()):
            if len(group.cables) > 1:
                weights[stage_down(switch.role)].add(tuple(cable.capacity_bps for cable in group.cables))
    least = [max((_least_width(w) for w in weights[stage]), default=0) for stage in Stage]
    if sum(least) > PORT_BITS:
        raise ValueError(f"a path of this fabric takes {sum(least)} bits to name, a UDP source port has {PORT_BITS}")
    wanted = [_wanted_extra(weights[stage]) for stage in Stage]
    extra = [0] * len(Stage)
    for _ in range(max(wanted)):
        for stage in Stage:
            if extra[stage] < wanted[stage] and sum(least) + sum(extra) < PORT_BITS:
                extra[stage] += 1
    fields, top = [], PORT_BITS
    for stage in Stage:
        top -= least[stage] + extra[stage]
        fields.append(PortField(shift=top, width=least[stage] + extra[stage]))
    return SteeringLayout(fields=(fields[0], fields[1], fields[2], fields[3]))


def _least_width(weights: tuple[int, ...]) -> int:
    """Return the bits that a field needs so that the lightest choice has one value."""
    heavy = -(-sum(weights) // min(weights))
    return max(_home_bits(len(weights)), min(_home_bits(heavy), _home_bits(len(weights)) + 3))


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
def blocks(weights: tuple[int, ...], width: int) -> tuple[Block, ...]:
    """Divide a field of `width` bits among weighted choices into aligned blocks, home blocks first.

    Choice s has its home block [s*h, (s+1)*h), h a power of two and the same for all, and enough surplus
    to make up its share. Raises ValueError where the field is too narrow for the choices.
    """
    if len(weights) == 1:
        return (Block(0, 0, 0),)
    if len(weights) > 1 << width:
        raise ValueError(f"{len(weights)} choices do not fit a field of {width} bits")
    owed = list(shares(weights, width))
    home = home_size(weights, width)
    home_length = width - (home.bit_length() - 1)
    found = [Block(choice, home_length, choice) for choice in range(len(weights))]
    owed = [share - home for share in owed]
    free = _aligned(home * len(weights), 1 << width)
    while free:
        free.sort(key=lambda block: (-block[1], block[0]))
        start, size = free.pop(0)
        neediest = max(range(len(owed)), key=lambda i: (owed[i], -i))
        if owed[neediest] >= size:
            found.append(Block(start // size, width - (size.bit_length() - 1), neediest))
            owed[neediest] -= size
        else:
            free += [(start, size // 2), (start + size // 2, size // 2)]
    return tuple(found)


def _aligned(start: int, end: int) -> list[tuple[int, int]]:
    """Cut [start, end) into aligned power-of-two blocks (start, size)."""
    found = []
    while start < end:
        size = start & -start if start else 1 << (end - 1).bit_length()
        while start + size > end:
            size //= 2
        found.append((start, size))
        start += size
    return found


def home_size(weights: Sequence[int], width: int) -> int:
    """Return the size of every choice's home block in values of the field, a power of two."""
    smallest = min(shares(weights, width))
    return 1 << (smallest.bit_length() - 1)


def home_value(weights: Sequence[int], width: int, choice: int) -> int:
    """Return the field value by which a planned port selects `choice`: the first of its home block."""
    return choice * home_size(weights, width) if len(weights) > 1 else 0


def choice_of(weights: Sequence[int], width: int, value: int) -> int:
    """Return the choice that a field value selects."""
    return next(b.choice for b in blocks(tuple(weights), width) if value >> (width - b.length) == b.value)


def imbalance(weights: Sequence[int], width: int) -> float:
    """Return the excess of the most favoured choice over its fair share, 0.03 for 3 %."""
    total, size = sum(weights), 1 << width
    return (
        max(share * total / (size * weight) for share, weight in zip(shares(weights, width), weights, strict=True)) - 1
    )
