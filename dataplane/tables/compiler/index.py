"""Build the hash tables of a generation from all their keys."""

import numpy as np

from heddle.dataplane.engine.hashing import mixed, mixed2, mixed3
from heddle.dataplane.jit import Grid, Ints, kernel
from heddle.dataplane.tables.schema import EMPTY

MIN_SLOTS = 8


def indexed(keys: Grid, rows: Ints) -> Grid:
    """Return a table (`tables.schema`) that maps `keys[i]` to `rows[i]`; of equal keys the first counts.

    `keys` has shape (n, words), with one to three words.
    """
    count, words = keys.shape
    slots = max(MIN_SLOTS, 1 << max(2 * count - 1, 1).bit_length())
    table = np.full((slots, words + 1), EMPTY, dtype=np.int64)
    fill(table, np.ascontiguousarray(keys, dtype=np.int64), np.ascontiguousarray(rows, dtype=np.int64))
    return table


@kernel
def fill(table: Grid, keys: Grid, rows: Ints) -> None:
    """Insert every key at the first free slot from its hash on."""
    words = keys.shape[1]
    last = np.int64(table.shape[0] - 1)
    for i in range(keys.shape[0]):
        if words == 1:
            slot = mixed(keys[i, 0]) & last
        elif words == 2:
            slot = mixed2(keys[i, 0], keys[i, 1]) & last
        else:
            slot = mixed3(keys[i, 0], keys[i, 1], keys[i, 2]) & last
        known = False
        while table[slot, words] != EMPTY and not known:
            known = True
            for word in range(words):
                known = known and table[slot, word] == keys[i, word]
            if not known:
                slot = (slot + 1) & last
        if not known:
            for word in range(words):
                table[slot, word] = keys[i, word]
            table[slot, words] = rows[i]
