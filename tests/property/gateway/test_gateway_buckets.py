"""The index of connections: the vectorised search for a slot against a search slot by slot."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.elements.memory.buckets import SLOTS, likely_slot
from heddle.dataplane.jit import kernel

BUCKETS = 4
HASHES = st.integers(0, (1 << 63) - 1)
NEAR = st.sampled_from([0, 1, 2, (1 << 31) - 1, 1 << 30]).map(lambda part: part << 32)
"""Parts of hashes as slots have them, few enough to meet often."""


@kernel
def kernel_slot(index, hashed):
    """Return the slot that the kernel finds."""
    return likely_slot(index, hashed)


def searched(index, hashed):
    """Return the first slot of the hash's bucket with its upper half, or -1."""
    first = hashed % BUCKETS * SLOTS
    for slot in range(first, first + SLOTS):
        if int(index[slot]) >> 32 == hashed >> 32:
            return slot
    return -1


@given(
    st.lists(st.tuples(st.one_of(NEAR, HASHES), st.integers(0, (1 << 32) - 1)), max_size=BUCKETS * SLOTS),
    st.one_of(st.builds(lambda part, low: part | low, NEAR, st.integers(0, 63)), HASHES),
)
def test_the_slot_of_a_hash_is_the_first_with_its_upper_half(entries, hashed):
    index = np.zeros(BUCKETS * SLOTS, np.int64)
    for slot, (part, row) in enumerate(entries):
        index[slot] = part >> 32 << 32 | row
    assert kernel_slot(index, np.int64(hashed)) == searched(index, hashed)


@given(st.integers(0, BUCKETS * SLOTS - 1), st.integers(1 << 32, (1 << 63) - 1), st.integers(1, (1 << 32) - 1))
def test_a_slot_is_found_at_every_place_of_its_bucket(place, hashed, row):
    index = np.zeros(BUCKETS * SLOTS, np.int64)
    index[place] = hashed >> 32 << 32 | row
    mine = place // SLOTS == hashed % BUCKETS
    assert kernel_slot(index, np.int64(hashed)) == (place if mine else -1)
