"""The checker of histories: planted faults are found, and on small histories it agrees with trying every order."""

import math
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clusters.linearizable import Call, Kind, violated

PUT, DELETE, READ = Kind.PUT, Kind.DELETE, Kind.READ
FAULTS = {
    "an acknowledged write is lost": [Call("a", PUT, 0, 1), Call("a", READ, 2, 3, found=False)],
    "a released object returns": [
        Call("a", PUT, 0, 1), Call("a", DELETE, 2, 3, found=True), Call("a", READ, 4, 5, found=True)
    ],
    "an old leader serves an old read": [
        Call("a", PUT, 0, 1), Call("a", DELETE, 2, 5, found=True), Call("a", READ, 3, 4, found=False),
        Call("a", READ, 4.5, 6, found=True),
    ],
    "a write without a reply is seen and then gone": [
        Call("a", PUT, 0), Call("a", READ, 1, 2, found=True), Call("a", READ, 3, 4, found=False)
    ],
    "two releases of one object both find it": [
        Call("a", PUT, 0, 1), Call("a", DELETE, 2, 3, found=True), Call("a", DELETE, 2, 3, found=True)
    ],
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    assert violated([*FAULTS[fault], Call("b", PUT, 0, 1)]) == ["a"]


@st.composite
def histories(draw):
    calls = []
    for _ in range(draw(st.integers(0, 5))):
        called = draw(st.integers(0, 6))
        returned = draw(st.one_of(st.just(math.inf), st.integers(called, 8)))
        kind = draw(st.sampled_from(Kind))
        found = draw(st.booleans()) if kind is not PUT and returned < math.inf else None
        calls.append(Call("a", kind, called, returned, found))
    return calls


def in_some_order(history):
    """Try every order of every choice of the calls without a reply."""
    certain = [call for call in history if call.returned_s < math.inf]
    open_ones = [call for call in history if call.returned_s == math.inf and call.kind is not READ]
    for count in range(len(open_ones) + 1):
        for chosen in combinations(open_ones, count):
            if any(is_legal(order) for order in permutations([*certain, *chosen])):
                return True
    return False


def is_legal(order):
    there = False
    for number, call in enumerate(order):
        if any(later.returned_s < call.called_s for later in order[number:]):
            return False
        if call.found is not None and call.found != there:
            return False
        there = True if call.kind is PUT else False if call.kind is DELETE else there
    return True


@given(histories())
def test_it_agrees_with_trying_every_order(history):
    assert (violated(history) == []) == in_some_order(history)
