"""An index from hashes to rows that no choice of keys can make slow: two buckets of eight slots for each key.

A key lives in the bucket of its hash or, where that one is full, in that of other bits of it; where both are full the
key is refused. So a search looks at 16 slots at most and an end moves one slot at most, whoever chose the keys. With
four slots a row the chance that a fair hash fills both buckets is some 10^-7.

A slot is `31 bits of the hash << 32 | row + 1`, or 0; the slots in use of a bucket come first in it. So an index that
is all 0 is an empty one. Whoever searches compares the rows' keys:

    for bucket in range(2):
        at = first_slot(index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            if index[slot] == 0: break
            if index[slot] >> 32 == hashed >> 32 and (key of row index[slot] & ROW) - 1 is the one: found
"""

from dataplane.jit import CHECKED, Ints, element, inline
from dataplane.packet.intrinsics import first_of_eight

SLOTS = 8
"""A cache line; `first_slot` has it as shifts."""
SLOTS_PER_ROW = 4
ROW = 0xFFFF_FFFF


def index_slots(rows: int) -> int:
    """Return how many slots an index of so many rows has; `rows` is a power of two."""
    return max(rows * SLOTS_PER_ROW, SLOTS)


@inline
def first_slot(index: Ints, hashed: int, bucket: int) -> int:
    """Return the first slot of a key's first (0) or second (1) bucket."""
    return (hashed >> (bucket * 24) & ((index.shape[0] >> 3) - 1)) << 3


@inline
def likely_slot(index: Ints, hashed: int) -> int:
    """Return the first slot of a key's first bucket that has its part of the hash, or -1."""
    at = first_slot(index, hashed, 0)
    if CHECKED and not 0 <= at <= index.shape[0] - SLOTS:
        raise IndexError("a bucket beyond its index")
    place = first_of_eight(index, at, hashed)
    return at + place if place < SLOTS else -1


@element
def put(index: Ints, hashed: int, row: int) -> bool:
    """Put a row under a hash; False where there is no room for it."""
    for bucket in range(2):
        at = first_slot(index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            if index[slot] == 0:
                index[slot] = hashed >> 32 << 32 | row + 1
                return True
    return False


@element
def take_out(index: Ints, hashed: int, row: int) -> bool:
    """Take a row out again; False where it was not there."""
    for bucket in range(2):
        at = first_slot(index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            if index[slot] & ROW == row + 1:
                last = slot
                while last + 1 < at + SLOTS and index[last + 1] != 0:
                    last += 1
                index[slot] = index[last]
                index[last] = 0
                return True
    return False


@inline
def take_row(returned: Ints, counts: Ints, word: int) -> int:
    """Return a free row, or -1: one given back, else the next that was never used.

    `counts[word]` is the number of rows given back, which are in `returned`; the next word that of rows ever used.
    """
    if counts[word] > 0:
        counts[word] -= 1
        return returned[counts[word]]
    if counts[word + 1] < returned.shape[0]:
        counts[word + 1] += 1
        return counts[word + 1] - 1
    return -1


@inline
def free_row(returned: Ints, counts: Ints, word: int, row: int) -> None:
    """Make a row free again."""
    returned[counts[word]] = row
    counts[word] += 1
