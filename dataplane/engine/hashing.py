"""The hash functions of all tables, which use open addressing, linear probing and a power of two of slots.

All arithmetic is in uint64: Numba multiplies int64 without defined wrap-around, and an overflow was once compiled into
a table that found nothing. A signed word is converted once on input and once on output.
"""

from typing import Any

import numpy as np

from heddle.dataplane.jit import inline

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xD6E8FEB86659FD93)
_29, _32, _1 = np.uint64(29), np.uint64(32), np.uint64(1)


@inline
def mixed(word: int) -> Any:
    """Return a hash of 63 bits, never negative."""
    x = np.uint64(word) * GOLDEN
    x = (x ^ (x >> _29)) * MIX
    return np.int64((x ^ (x >> _32)) >> _1)


@inline
def mixed2(first: int, second: int) -> Any:
    """Return a hash of two words."""
    x = (np.uint64(first) * GOLDEN) ^ np.uint64(second)
    x = (x ^ (x >> _29)) * MIX
    x = (x ^ (x >> _32)) * GOLDEN
    return np.int64((x ^ (x >> _29)) >> _1)


@inline
def mixed3(first: int, second: int, third: int) -> Any:
    """Return a hash of three words."""
    return mixed2(mixed2(first, second), third)


@inline
def mixed5(first: int, second: int, third: int, fourth: int, fifth: int, seed: int) -> Any:
    """Return a keyed hash of five words, the key of a connection; it cannot be predicted without the seed.

    The seed is added before the multiplications, so that words chosen to collide under one seed collide under no
    other.
    """
    x = (np.uint64(first) * GOLDEN) ^ (np.uint64(second) * MIX) ^ np.uint64(seed)
    y = (np.uint64(third) * MIX) ^ (np.uint64(fourth) * GOLDEN) ^ np.uint64(seed)
    x = (x ^ (x >> _29)) * GOLDEN
    y = (y ^ (y >> _32)) * MIX
    z = x + y + np.uint64(fifth) * GOLDEN
    z = (z ^ (z >> _32)) * MIX
    return np.int64((z ^ (z >> _29)) >> _1)
