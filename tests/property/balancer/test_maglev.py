"""Slots are shared in proportion to weights, change little, and are the same in every process and at any time."""

import hashlib
import subprocess
import sys
from ipaddress import IPv4Address, IPv6Address

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.balancer.maglev import NO_BACK_END, SLOTS, maglev_table, write_changes
from tests.oracles.maglev_by_hand import maglev_by_hand
from tests.support.examples import examples

HUNDRED = [(IPv4Address("10.0.0.1") + row, 80, 1) for row in range(100)]
addresses = st.one_of(st.integers(1, 2**32 - 1).map(IPv4Address), st.integers(1, 2**128 - 1).map(IPv6Address))
ends = st.tuples(addresses, st.integers(1, 65535))


def back_ends(weights, most):
    pairs = st.lists(ends, min_size=1, max_size=most, unique=True)
    return pairs.flatmap(lambda found: st.tuples(*[st.tuples(st.just(a), st.just(p), weights) for a, p in found]))


def test_a_hundred_equal_back_ends_get_almost_equal_numbers_of_slots():
    counts = np.bincount(maglev_table(HUNDRED))
    assert len(counts) == 100
    assert counts.sum() == SLOTS
    assert counts.max() / counts.min() <= 1.005


@settings(max_examples=examples(12))
@given(found=back_ends(st.integers(0, 1000), 60))
def test_shares_follow_the_weights_within_one_slot(found):
    table = maglev_table(found)
    whole = sum(weight for *_, weight in found)
    if whole == 0:
        assert (table == NO_BACK_END).all()
        return
    counts = np.bincount(table, minlength=len(found))
    assert all(abs(count - SLOTS * b[2] / whole) < 1 for count, b in zip(counts, found, strict=True))


@settings(max_examples=examples(4))
@given(found=back_ends(st.sampled_from([0, 1, 3, 1000]), 8))
def test_the_table_is_that_of_the_papers_pseudocode(found):
    table = maglev_table(found)
    wanted = maglev_by_hand(found)
    assert {slot: found[row][:2] for slot, row in enumerate(table.tolist()) if row >= 0} == wanted


@settings(max_examples=examples(8))
@given(left_out=st.integers(0, 99))
def test_removing_one_of_a_hundred_moves_at_most_one_percent_of_the_others_slots(left_out):
    before, after = maglev_table(HUNDRED), maglev_table([*HUNDRED[:left_out], *HUNDRED[left_out + 1 :]])
    kept = before != left_out
    renumbered = np.where(before > left_out, before - 1, before)
    assert (renumbered[kept] != after[kept]).mean() <= 0.01


@settings(max_examples=examples(8))
@given(data=st.data(), found=back_ends(st.integers(1, 9), 20))
def test_the_order_of_the_back_ends_does_not_matter(data, found):
    order = data.draw(st.permutations(range(len(found))))
    here, there = maglev_table(found), maglev_table([found[row] for row in order])
    assert (here == np.array(order, dtype=np.int32)[there]).all()


@settings(max_examples=examples(8))
@given(data=st.data())
def test_a_rebuild_writes_the_slots_that_changed_and_no_others(data):
    rows = data.draw(st.sets(st.integers(0, 99), min_size=1, max_size=5))
    before = maglev_table(HUNDRED)
    wanted = maglev_table([(a, p, 0 if row in rows else 1) for row, (a, p, _) in enumerate(HUNDRED)])
    current = before.copy()
    assert write_changes(current, wanted) == (before != wanted).sum()
    assert (current == wanted).all()
    assert write_changes(current, wanted) == 0


def test_another_process_computes_the_same_table():
    program = (
        "import hashlib; from ipaddress import IPv4Address; from heddle.dataplane.balancer.maglev import maglev_table;"
        "back_ends = [(IPv4Address('10.0.0.1') + row, 80, 1) for row in range(100)];"
        "print(hashlib.sha256(maglev_table(back_ends).tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == hashlib.sha256(maglev_table(HUNDRED).tobytes()).hexdigest()
