"""Blocks of UDP source ports as masked matches, and how the block of a choice that is out of use is shared out.

The top two bits of a port are never looked at: a sender outside 0xC000..0xFFFF is carried like any other.
"""

from functools import lru_cache
from typing import NamedTuple

from controller.model.rule import Masked
from controller.model.steering import PORT_BITS, PortField, blocks
from foundation.bits import lowest_bit

MAX_PIECE_BITS = 3
"""A block that is shared out is cut into at most 2^3 pieces: it is only 1/k of the load."""


class PortBlock(NamedTuple):
    """Source ports equal to `value` in the bits of `mask` belong to `choice`; mask 0 is every port."""

    value: int
    mask: int
    choice: int

    @property
    def masked(self) -> Masked | None:
        """Return the match on udp_src, None where every port is meant."""
        return Masked(self.value, self.mask) if self.mask else None


@lru_cache(maxsize=4096)
def port_blocks(weights: tuple[int, ...], port_field: PortField) -> tuple[PortBlock, ...]:
    """Return the blocks of a stage's field among weighted choices, as masks of the port."""
    return tuple(
        _cut(0, 0, port_field.shift + port_field.width, block.value, block.length, block.choice)
        for block in blocks(weights, port_field.width)
    )


@lru_cache(maxsize=4096)
def shared_out(weights: tuple[int, ...], port_field: PortField, usable: int, turn: int) -> tuple[PortBlock, ...]:
    """Return the blocks of all choices outside the mask `usable`, cut into pieces for the choices inside it.

    `turn` (any number, the switch's say) says where among the survivors to begin, so that switches with the
    same failure do not all favour the same few. Empty where no choice, or every choice, is usable.
    """
    survivors = [choice for choice in range(len(weights)) if usable >> choice & 1]
    if not survivors:
        return ()
    found: list[PortBlock] = []
    for block in port_blocks(weights, port_field):
        if not usable >> block.choice & 1:
            found += _pieces(block, port_field, weights, survivors, turn + len(found))
    return tuple(found)


def all_shared_out(weights: tuple[int, ...], port_field: PortField, usable: int, turn: int) -> tuple[PortBlock, ...]:
    """Return a full cover of the ports: every usable choice keeps its blocks, the others' are cut up."""
    kept = tuple(block for block in port_blocks(weights, port_field) if usable >> block.choice & 1)
    return kept + shared_out(weights, port_field, usable, turn)


def _pieces(
    block: PortBlock, port_field: PortField, weights: tuple[int, ...], survivors: list[int], turn: int
) -> list[PortBlock]:
    """Cut one block by the port's next lower bits among up to 2^3 survivors."""
    lowest = lowest_bit(block.mask) if block.mask else PORT_BITS
    width = min(MAX_PIECE_BITS, lowest)
    count = min(len(survivors), 1 << width)
    chosen = [survivors[(turn + i) % len(survivors)] for i in range(count)]
    shares = blocks(tuple(weights[choice] for choice in chosen), width)
    return [_cut(block.value, block.mask, lowest, piece.value, piece.length, chosen[piece.choice]) for piece in shares]


def _cut(value: int, mask: int, lowest: int, piece: int, length: int, choice: int) -> PortBlock:
    """Fix `length` more bits of the port, those below bit `lowest`, to `piece`."""
    shift = lowest - length
    return PortBlock(value | piece << shift, mask | ((1 << length) - 1) << shift, choice)
