"""Look keys up in the tables' hash tables with numpy: the result of a packet's lookup, without the packet kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heddle.dataplane.jit import Grid, Ints
from heddle.dataplane.tables.schema import EMPTY

Words = NDArray[np.uint64]
_GOLDEN, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_29, _32, _1 = np.uint64(29), np.uint64(32), np.uint64(1)


def _hash2(first: Words, second: Words) -> Words:
    x = first * _GOLDEN ^ second
    x = (x ^ x >> _29) * _MIX
    x = (x ^ x >> _32) * _GOLDEN
    return (x ^ x >> _29) >> _1


def _hash(keys: Grid) -> Words:
    """Return the hash of each row, as `engine.hashing` defines it."""
    words = np.ascontiguousarray(keys).view(np.uint64)
    if keys.shape[1] == 1:
        x = words[:, 0] * _GOLDEN
        x = (x ^ x >> _29) * _MIX
        return (x ^ x >> _32) >> _1
    two = _hash2(words[:, 0], words[:, 1])
    return two if keys.shape[1] == 2 else _hash2(two, words[:, 2])


def rows_of(table: Grid, keys: Grid) -> Ints:
    """Return the row stored under each key, EMPTY for a key that is not found."""
    found = np.full(len(keys), EMPTY, dtype=np.int64)
    slots = (_hash(keys) & np.uint64(len(table) - 1)).astype(np.int64)
    left = np.arange(len(keys))
    for _ in range(len(table)):
        if not len(left):
            break
        at = table[slots[left]]
        empty = at[:, -1] == EMPTY
        hit = ~empty & (at[:, :-1] == keys[left]).all(axis=1)
        found[left[hit]] = at[hit, -1]
        left = left[~empty & ~hit]
        slots[left] = slots[left] + 1 & len(table) - 1
    return found


def entries(table: Grid) -> tuple[Grid, Ints]:
    """Return all distinct keys that a lookup finds, and their rows."""
    used = table[table[:, -1] != EMPTY]
    keys = np.unique(used[:, :-1], axis=0)
    rows = rows_of(table, keys)
    return keys[rows != EMPTY], rows[rows != EMPTY]


def row_of(table: Grid, *words: int) -> int:
    """Return the row stored under one key, EMPTY if it is not found."""
    return int(rows_of(table, np.array([[signed(word) for word in words]], dtype=np.int64))[0])


def signed(word: int) -> int:
    """Return the low 64 bits of a number as an int64."""
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


def unsigned128(high: Any, low: Any) -> int:
    """Return the 128-bit number of two int64 words."""
    return (int(high) & (1 << 64) - 1) << 64 | int(low) & (1 << 64) - 1
