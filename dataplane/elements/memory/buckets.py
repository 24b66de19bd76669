"""A hash index with bounded cost for any choice of keys: each key has two buckets of eight slots.

A key is stored in the bucket of its hash or, if that bucket is full, in the bucket of other bits of the hash; if both
are full, the key is refused. A search reads at most 16 slots and a removal moves at most one, even for keys chosen by
an attacker. With four slots per row, a uniform hash fills both buckets with a probability of about 10^-7.

A slot is `31 bits of the hash << 32 | row + 1`, or 0 if it is free; the used slots of a bucket come first. An index of
zeros is empty. The caller of a search compares the keys of the rows:

    for bucket in range(2):
        at = first_slot(index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            if index[slot] == 0: break
            if index[slot] >> 32 == hashed >> 32 and the key of row (index[slot] & ROW) - 1 is equal: found
"""

from heddle.dataplane.jit import CHECKED, Ints, element, inline
from heddle.dataplane.packet.intrinsics import first_of_eight

SLOTS = 8
"""Slots of a bucket: one cache line. `first_slot` contains this number as shifts."""
SLOTS_PER_ROW = 4
ROW = 0xFFFF_FFFF


def index_slots(rows: int) -> int:
    """Return the number of slots of an index for `rows` rows, a power of two."""
    return max(rows * SLOTS_PER_ROW, SLOTS)


@inline
def first_slot(index: Ints, hashed: int, bucket: int) -> int:
    """Return the first slot of a key's first (0) or second (1) bucket."""
    return (hashed >> (bucket * 24) & ((index.shape[0] >> 3) - 1)) << 3


@inline
def likely_slot(index: Ints, hashed: int) -> int:
    """Return the first slot of a key's first bucket with the same part of the hash, or -1."""
    at = first_slot(index, hashed, 0)
    if CHECKED and not 0 <= at <= index.shape[0] - SLOTS:
        raise IndexError("a bucket beyond its index")
    place = first_of_eight(index, at, hashed)
    return at + place if place < SLOTS else -1


@element
def put(index: Ints, hashed: int, row: int) -> bool:
    """Insert a row under a hash; return False if both buckets are full."""
    for bucket in range(2):
        at = first_slot(index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            if index[slot] == 0:
                index[slot] = hashed >> 32 << 32 | row + 1
                return True
    return False


@element
def take_out(index: Ints, hashed: int, row: int) -> bool:
    """Remove a row; return False if it is not in the index."""
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
    """Allocate a row, or return -1: the row freed last, otherwise the next row that was never used.

    `counts[word]` is the number of freed rows, which are in `returned`; the next word is the number of rows ever used.
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
    """Return a row to the stack of freed rows."""
    returned[counts[word]] = row
    counts[word] += 1
