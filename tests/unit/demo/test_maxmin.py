from fractions import Fraction

import pytest

from heddle.mininet_topos.traffic.maxmin import max_min_shares


def test_three_flows_on_one_link_get_a_third_each():
    assert max_min_shares([["a"], ["a"], ["a"]], {"a": 10}) == [Fraction(10, 3)] * 3


def test_a_flow_freed_of_a_slow_one_takes_what_that_leaves():
    assert max_min_shares([["a", "b"], ["b"]], {"a": 2, "b": 10}) == [2, 8]


def test_a_flow_without_links_is_refused():
    with pytest.raises(ValueError, match="without a link"):
        max_min_shares([[]], {})
