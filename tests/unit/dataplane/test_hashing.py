"""The hash functions give the same result for literals, arguments and values from memory."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.engine.hashing import mixed, mixed2, mixed5
from heddle.dataplane.jit import kernel
from tests.support.examples import examples

WORD = st.integers(-(1 << 63), (1 << 63) - 1)
MASK = (1 << 64) - 1
GOLDEN, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


def _modelled(word):
    x = word * GOLDEN & MASK
    x = (x ^ x >> 29) * MIX & MASK
    return (x ^ x >> 32) >> 1


@kernel
def _of_argument(word):
    return mixed(word)


@kernel
def _of_memory(words):
    return mixed(words[0])


@kernel
def _of_a_masked_word(word):
    return mixed((word & 0xFFFFFF) | (5 << 24))


@kernel
def _of_two(first, second):
    return mixed2(first, second)


@kernel
def _of_five(words, seed):
    return mixed5(words[0], words[1], words[2], words[3], words[4], seed)


@settings(max_examples=examples(200), deadline=None)
@given(WORD)
def test_a_word_has_the_hash_of_the_arithmetic_model_from_an_argument_and_from_memory(word):
    assert _of_argument(np.int64(word)) == _modelled(word)
    assert _of_memory(np.array([word])) == _modelled(word)


@settings(max_examples=examples(100), deadline=None)
@given(WORD)
def test_a_word_whose_range_the_compiler_knows_has_the_same_hash(word):
    assert _of_a_masked_word(np.int64(word)) == _modelled(word & 0xFFFFFF | 5 << 24)


def test_hashes_of_neighbouring_keys_spread_over_a_small_table():
    slots = 1 << 10
    used = {_of_two(np.int64(i % 8), np.int64(0xFFFF_0A00_0000 + i // 8)) % slots for i in range(slots)}
    assert len(used) > 0.55 * slots  # evenly drawn: 1 - 1/e of them


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(WORD, min_size=5, max_size=5), st.integers(0, 4), st.integers(0, 63), WORD)
def test_each_bit_of_each_word_of_a_key_changes_its_hash(words, which, bit, seed):
    other = np.array(words)
    other[which] ^= np.int64(np.uint64(1 << bit).astype(np.int64))
    assert _of_five(np.array(words), seed) != _of_five(other, seed)
