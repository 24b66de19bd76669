"""Equivalence classes of addresses: those that no prefix of a set distinguishes form one group."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.dataplane.verify.view import BITS, Span, family_of

LOW = (1 << 64) - 1


class Group(NamedTuple):
    """A class of addresses."""

    one: int
    """A representative."""
    size: int


def grouped(addresses: Collection[int], prefixes: Iterable[tuple[int, int, int]]) -> list[Group]:
    """Partition addresses by the prefixes (family, first address, length) that contain them."""
    if not addresses:
        return []
    numbers = sorted(addresses)
    high = np.array([number >> 64 for number in numbers], dtype=np.uint64)
    low = np.array([number & LOW for number in numbers], dtype=np.uint64)
    is_v4 = np.array([family_of(number) == 4 for number in numbers])
    group = is_v4.astype(np.int64)
    for family, first, length in sorted(prefixes):
        mask = ((1 << BITS) - 1) ^ ((1 << (BITS - length)) - 1)
        inside = _matches(high, low, first, mask) & (is_v4 == (family == 4))
        _, group = np.unique(group * 2 + inside, return_inverse=True)
    _, places, counts = np.unique(group, return_index=True, return_counts=True)
    return [Group(numbers[place], count) for place, count in zip(places.tolist(), counts.tolist(), strict=True)]


def _matches(high: NDArray[np.uint64], low: NDArray[np.uint64], first: int, mask: int) -> NDArray[np.bool_]:
    masked_high = high & np.uint64(mask >> 64) == np.uint64(first >> 64)
    masked_low = low & np.uint64(mask & LOW) == np.uint64(first & LOW)
    matches: NDArray[np.bool_] = masked_high & masked_low
    return matches


def atoms(spans: Iterable[Span]) -> list[int]:
    """Return the first address of each interval into which prefixes divide the address space."""
    edges = {0}
    for span in spans:
        edges.add(span.first)
        after = span.first + (1 << (BITS - span.length))
        if after < 1 << BITS:
            edges.add(after)
    return sorted(edges)
