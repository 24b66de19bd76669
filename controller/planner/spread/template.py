"""Choose the rotations that give every flow of a job its paths: a list of entries, in the order of sending.

Where a leaf sends at least as many flows as it has uplinks, these are evenly used whatever the rotations. Then the
shifts differ from each other as variously as they can, so that flows that share a cable share few others: what a failed
cable carried spreads over many. Where fewer flows leave a leaf, the shifts are equally spaced, in bit-reversed order:
every beginning of the list is spread over the uplinks.
"""

from functools import lru_cache

import numpy as np

from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.rotations import Rotations

MAX_STARTS = 24
"""Second shifts that the search for various differences starts from."""


def template(rotations: Rotations, paths: int, *, full: bool) -> Ints:
    """Return the rotations of a list of so many entries; the first is 0, and all differ up to `rotations.count`.

    `full` is whether as many flows as there are uplinks leave a leaf.
    """
    columns, cores = rotations.columns, rotations.cores
    if cores == 1:
        chosen = various(columns, min(paths, columns)) if full else spaced(columns, min(paths, columns))
        return np.resize(np.array(chosen, dtype=np.int64), paths)
    order = np.array(spaced(columns, min(paths, columns)), dtype=np.int64)
    rounds = np.array(spaced(cores, cores), dtype=np.int64)
    entry = np.arange(min(paths, rotations.count), dtype=np.int64)
    turn, place = np.divmod(entry, len(order))
    found = order[place] + columns * ((rounds[turn] + place) % cores)
    found[0] = 0
    return np.resize(found, paths)


@lru_cache(maxsize=256)
def spaced(size: int, count: int) -> tuple[int, ...]:
    """Return so many equally spaced numbers below `size`, in bit-reversed order: 0, 1/2, 1/4, 3/4, … of the size."""
    bits = max(1, (count - 1).bit_length())
    reversed_bits = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return tuple(number * size // count for number in reversed_bits if number < count)


@lru_cache(maxsize=256)
def various(size: int, count: int) -> tuple[int, ...]:
    """Return so many numbers below `size`, from 0, whose differences modulo `size` repeat little."""
    if count >= size:
        return spaced(size, size)
    starts = range(1, 1 + min(MAX_STARTS if size * count <= 4_096 else 1, size // 2))
    found = [_greedy(size, count, start) for start in starts]
    return min(found)[1]


def _greedy(size: int, count: int, second: int) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Add the number whose differences repeat the least, again and again; return how they repeat, and them."""
    chosen, times = [0], np.zeros(size, dtype=np.int64)
    every = np.arange(size)
    while len(chosen) < count:
        there = (every[:, None] - np.array(chosen)) % size
        both = np.concatenate((there, -there % size), axis=1)
        after = times[both] + 1
        worth = after.max(axis=1) * size * size * 4 + after.sum(axis=1)
        worth[chosen] = np.iinfo(np.int64).max
        best = second if len(chosen) == 1 and count > 1 else int(worth.argmin())
        np.add.at(times, both[best], 1)
        chosen.append(best)
    return (int(times[1:].max(initial=0)), int((times**2).sum())), tuple(chosen)
