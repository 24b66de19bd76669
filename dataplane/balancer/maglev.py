"""Weighted Maglev hashing: which back end a new connection gets, by a table of SLOTS slots.

Eisenbud et al., "Maglev: a fast and reliable software network load balancer", NSDI 2016, 3.4. Each back end has a
permutation of all slots, by its address and port alone. The back ends take turns; in a turn a back end takes the first
free slot of its permutation. The same back ends and weights thus give the same table in every process, on every
balancer and after every restart, in whatever order they are listed.

Weights: before the turns, each back end gets a quota of slots in proportion to its weight, by largest remainders, so
its share is exact to one slot. A back end has a turn whenever its weights of the rounds so far add up to the largest
weight, and none once it has its quota. Weight 0 gets no slots: no new connections.
"""

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heddle.dataplane.jit import Ints, kernel

SLOTS = 65_537
"""A prime, as the permutations require."""
NO_BACK_END = -1
"""In every slot of a table without back ends."""
Slots = NDArray[np.int32]


def permutation_of(address: IPv4Address | IPv6Address, port: int) -> tuple[int, int]:
    """Return the offset and the skip of a back end's permutation: slot j of it is (offset + j * skip) % SLOTS."""
    digest = hashlib.blake2b(address.packed + port.to_bytes(2, "big"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big") % SLOTS, int.from_bytes(digest[8:], "big") % (SLOTS - 1) + 1


def quotas(weights: Sequence[int]) -> list[int]:
    """Return each back end's number of slots; of equal remainders, the first back ends get the slots left over."""
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    exact = [Fraction(SLOTS * weight, whole) for weight in weights]
    found = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda row: (found[row] - exact[row], row))
    for row in by_remainder[: SLOTS - sum(found)]:
        found[row] += 1
    return found


def maglev_table(back_ends: Sequence[tuple[IPv4Address | IPv6Address, int, int]]) -> Slots:
    """Return which back end each slot has, by its position in `back_ends`, or NO_BACK_END.

    Args:
        back_ends: address, port and weight of each; a pair of address and port occurs once.

    Returns:
        Shape (SLOTS,), int32.
    """
    order = sorted(range(len(back_ends)), key=lambda row: _key(*back_ends[row][:2]))
    weights = [back_ends[row][2] for row in order]
    turns = [row for row, weight in enumerate(weights) if weight]
    found = np.full(SLOTS, NO_BACK_END, dtype=np.int32)
    if turns:
        permutations = [permutation_of(*back_ends[order[row]][:2]) for row in turns]
        rows = np.array([order[row] for row in turns], dtype=np.int32)
        left = quotas(weights)
        next_slots, skips = (np.array(column, dtype=np.int64) for column in zip(*permutations, strict=True))
        parts, shares = (np.array([column[row] for row in turns], dtype=np.int64) for column in (weights, left))
        _fill(found, rows, next_slots, skips, parts, shares, np.zeros(len(turns), dtype=np.int64), max(weights))
    return found


def _key(address: IPv4Address | IPv6Address, port: int) -> tuple[int, int, int]:
    return address.version, int(address), port


@kernel
def _fill(
    slots: Any, rows: Any, next_slot: Ints, skips: Ints, weights: Ints, left: Ints, credit: Ints, most: int
) -> None:
    """Let the back ends take turns until each has its quota; `left`, `next_slot` and `credit` change."""
    free = slots.size
    while free > 0:
        for row in range(rows.size):
            credit[row] += weights[row]
            if credit[row] < most:
                continue
            credit[row] -= most
            if left[row] == 0:
                continue
            slot = next_slot[row]
            while slots[slot] != NO_BACK_END:
                slot += skips[row]
                if slot >= slots.size:
                    slot -= slots.size
            slots[slot] = rows[row]
            next_slot[row] = slot
            left[row] -= 1
            free -= 1


@kernel
def write_changes(current: Any, wanted: Any) -> int:
    """Write the slots of `current` that differ from `wanted`, and no others; return how many they are.

    A data process may read `current` meanwhile: each slot has its old or its new back end at any moment.
    """
    count = 0
    for slot in range(current.size):
        if current[slot] != wanted[slot]:
            current[slot] = wanted[slot]
            count += 1
    return count
