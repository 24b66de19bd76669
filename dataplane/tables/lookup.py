"""Search the hash tables of a generation: open addressing (`engine.hashing`), keys of one to three words.

A search ends at an EMPTY slot, or after as many steps as there are slots, so that a damaged table without an empty
slot cannot loop forever.
"""

from typing import Any

import numpy as np

from heddle.dataplane.engine.hashing import mixed, mixed2, mixed3
from heddle.dataplane.jit import Grid, inline
from heddle.dataplane.packet.intrinsics import prefetch
from heddle.dataplane.tables.schema import EMPTY


@inline
def place(row: int) -> Any:
    """Return a row known not to be negative as an unsigned index, which saves the instructions for negative indices."""
    return np.uint64(row)


@inline
def row1(grid: Grid, first: int) -> int:
    """Return the row of a key of one word, or EMPTY."""
    slots = grid.shape[0]
    slot = mixed(first) & (slots - 1)
    for _ in range(slots):
        if grid[slot, 1] == EMPTY or grid[slot, 0] == first:
            return grid[slot, 1]
        slot = (slot + 1) & (slots - 1)
    return EMPTY


@inline
def row2(grid: Grid, first: int, second: int) -> int:
    """Return the row of a key of two words, or EMPTY."""
    slots = grid.shape[0]
    slot = mixed2(first, second) & (slots - 1)
    for _ in range(slots):
        if grid[slot, 2] == EMPTY or (grid[slot, 0] == first and grid[slot, 1] == second):
            return grid[slot, 2]
        slot = (slot + 1) & (slots - 1)
    return EMPTY


@inline
def row3(grid: Grid, first: int, second: int, third: int) -> int:
    """Return the row of a key of three words, or EMPTY."""
    return row3_hashed(grid, mixed3(first, second, third), first, second, third)


@inline
def ahead3(grid: Grid, hashed: int) -> None:
    """Prefetch the first slot of a search for a key of three words."""
    prefetch(grid, (hashed & (grid.shape[0] - 1)) * grid.shape[1], 0)


@inline
def row3_hashed(grid: Grid, hashed: int, first: int, second: int, third: int) -> int:
    """Return the row of a key of three words with a known hash (`mixed3`), or EMPTY."""
    slots = grid.shape[0]
    slot = hashed & (slots - 1)
    for _ in range(slots):
        found = grid[slot, 0] == first and grid[slot, 1] == second and grid[slot, 2] == third
        if found or grid[slot, 3] == EMPTY:
            return grid[slot, 3]
        slot = (slot + 1) & (slots - 1)
    return EMPTY
