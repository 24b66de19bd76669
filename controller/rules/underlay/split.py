"""Compute blocks of UDP source ports as masked matches, and divide the block of an unusable choice among the others.

The top two bits of a port are never matched: a port outside 0xC000..0xFFFF is forwarded like any other.
"""

from functools import lru_cache
from typing import NamedTuple

from heddle.controller.model.port_layout import PORT_BITS, PortField, blocks
from heddle.controller.model.rule import Masked
from heddle.foundation.bits import lowest_bit

MAX_PIECE_BITS = 3
"""A divided block has at most 2^3 pieces: it is only 1/k of the load."""


class PortBlock(NamedTuple):
    """The source ports equal to `value` in the bits of `mask`; they select `choice`. Mask 0 is every port."""

    value: int
    mask: int
    choice: int

    @property
    def masked(self) -> Masked | None:
        """Return the match on udp_src, None for every port."""
        return Masked(self.value, self.mask) if self.mask else None


@lru_cache(maxsize=4096)
def port_blocks(weights: tuple[int, ...], port_field: PortField) -> tuple[PortBlock, ...]:
    """Return the blocks of a stage's field among weighted choices, as masks of the port."""
    return tuple(
        _cut(0, 0, port_field.shift + port_field.width, block.value, block.length, block.choice)
        for block in blocks(weights, port_field)
    )


@lru_cache(maxsize=4096)
def divided(weights: tuple[int, ...], port_field: PortField, usable: int, turn: int) -> tuple[PortBlock, ...]:
    """Return the blocks of all choices outside the mask `usable`, divided among the choices inside it.

    `turn` (such as the switch's position) rotates the survivors, so that switches with the same failure do not favour
    the same few. Empty where no choice, or every choice, is usable.
    """
    survivors = [choice for choice in range(len(weights)) if usable >> choice & 1]
    if not survivors:
        return ()
    found: list[PortBlock] = []
    for block in port_blocks(weights, port_field):
        if not usable >> block.choice & 1:
            found += _pieces(block, port_field, weights, survivors, turn + len(found))
    return tuple(found)


def full_cover(weights: tuple[int, ...], port_field: PortField, usable: int, turn: int) -> tuple[PortBlock, ...]:
    """Return a full cover of the ports: usable choices keep their blocks, those of the others are divided."""
    kept = tuple(block for block in port_blocks(weights, port_field) if usable >> block.choice & 1)
    return kept + divided(weights, port_field, usable, turn)


def _pieces(
    block: PortBlock, port_field: PortField, weights: tuple[int, ...], survivors: list[int], turn: int
) -> list[PortBlock]:
    """Divide one block by the port's next lower bits among up to 2^3 survivors."""
    lowest = lowest_bit(block.mask) if block.mask else PORT_BITS
    width = min(MAX_PIECE_BITS, lowest)
    count = min(len(survivors), 1 << width)
    chosen = [survivors[(turn + i) % len(survivors)] for i in range(count)]
    shares = blocks(tuple(weights[choice] for choice in chosen), PortField(shift=lowest - width, width=width))
    return [_cut(block.value, block.mask, lowest, piece.value, piece.length, chosen[piece.choice]) for piece in shares]


def _cut(value: int, mask: int, lowest: int, piece: int, length: int, choice: int) -> PortBlock:
    """Return the piece of a block whose next `length` bits below bit `lowest` equal `piece`."""
    shift = lowest - length
    return PortBlock(value | piece << shift, mask | ((1 << length) - 1) << shift, choice)
