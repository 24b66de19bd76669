"""Addresses are aggregated into the fewest prefixes whose longest match has the owner of every address."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.rules.underlay.aggregate import aggregate, relabelled, runs_of
from tests.support.examples import examples

BITS = 4
BASE = 0x0A000010
"""A /28: a universe of sixteen addresses, small enough to count prefixes exhaustively."""


def longest_match(prefixes, address):
    found = [p for p in prefixes if address >> (32 - p.length) == p.value >> (32 - p.length)]
    return max(found, key=lambda p: p.length).label if found else None


def fewest_prefixes(owner_of: dict[int, int], background: int | None) -> int:
    """Return the optimum by trying, for every subtree and every label it may inherit, every label or none."""
    labels = sorted(set(owner_of.values()))

    @cache
    def cost(start: int, size: int, inherited: int | None) -> int:
        inside = [owner for address, owner in owner_of.items() if start <= address < start + size]
        if all(owner == inherited for owner in inside):
            return 0
        if size == 1:
            return 1
        half = size // 2
        below = {label: cost(start, half, label) + cost(start + half, half, label) for label in {*labels, inherited}}
        return min(count + (label != inherited) for label, count in below.items())

    return cost(BASE, 1 << BITS, background)


owners = st.dictionaries(st.integers(BASE, BASE + 15), st.integers(0, 3), min_size=1)


@given(owner_of=owners, background=st.sampled_from([None, 0]))
@settings(max_examples=examples(300))
def test_the_longest_match_finds_every_owner_and_no_fewer_prefixes_could(owner_of, background):
    prefixes = aggregate(runs_of(owner_of.items()), background)
    for address, owner in owner_of.items():
        found = longest_match(prefixes, address)
        assert (background if found is None else found) == owner
    assert len(prefixes) == fewest_prefixes(owner_of, background)


@given(owner_of=st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 5), min_size=1), unlabelled=st.integers(0, 5))
def test_owners_without_a_label_are_as_if_they_owned_nothing(owner_of, unlabelled):
    labels = [None if owner == unlabelled else owner for owner in range(6)]
    prefixes = aggregate(relabelled(runs_of(owner_of.items()), labels))
    kept = {address: owner for address, owner in owner_of.items() if owner != unlabelled}
    assert prefixes == aggregate(runs_of(kept.items()))
    assert all(longest_match(prefixes, address) == owner for address, owner in kept.items())


@given(owner_of=st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 3), min_size=1))
def test_no_prefix_reaches_beyond_what_holds_all_owned_addresses(owner_of):
    first, last = min(owner_of), max(owner_of)
    common = 32 - (first ^ last).bit_length()
    assert all(
        p.length >= common and p.value >> (32 - common) == first >> (32 - common)
        for p in aggregate(runs_of(owner_of.items()))
    )


@given(count=st.integers(1, 400), first=st.integers(1, 2**31))
def test_addresses_in_a_row_take_no_more_prefixes_than_their_binary_lengths(count, first):
    row = [(first + i, 0) for i in range(count)]
    around = [(first - 1, 1), (first + count, 1)]
    assert len(aggregate(runs_of(row + around))) <= 2 * count.bit_length() + 2
