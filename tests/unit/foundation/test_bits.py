"""The lowest bit of an integer."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.bits import lowest_bit


@given(st.sets(st.integers(0, 200), min_size=1))
def test_the_lowest_bit_is_the_least_member_of_the_set(members):
    assert lowest_bit(sum(1 << member for member in members)) == min(members)


def test_zero_has_no_lowest_bit():
    assert lowest_bit(0) == -1
