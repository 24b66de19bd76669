"""Max-min fairness by definition: no link is overloaded, and each flow crosses a full link where none is faster."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.traffic.maxmin import max_min_shares, utilisation

LINKS = [f"l{number}" for number in range(8)]
paths = st.lists(st.lists(st.sampled_from(LINKS), min_size=1, max_size=4, unique=True), min_size=1, max_size=12)
capacities = st.fixed_dictionaries({link: st.integers(1, 10**9) for link in LINKS})


def load_of(link, flows, rates):
    return sum((rate for path, rate in zip(flows, rates, strict=True) if link in path), Fraction(0))


@given(paths, capacities)
def test_no_link_carries_more_than_it_can(flows, capacity):
    rates = max_min_shares(flows, capacity)
    assert all(load_of(link, flows, rates) <= capacity[link] for link in LINKS)


@given(paths, capacities)
def test_every_flow_crosses_a_full_link_on_which_no_flow_is_faster(flows, capacity):
    rates = max_min_shares(flows, capacity)
    for path, rate in zip(flows, rates, strict=True):
        assert any(
            load_of(link, flows, rates) == capacity[link]
            and all(other <= rate for way, other in zip(flows, rates, strict=True) if link in way)
            for link in path
        )


@given(paths, capacities)
def test_the_order_of_flows_does_not_matter(flows, capacity):
    assert max_min_shares(flows[::-1], capacity) == max_min_shares(flows, capacity)[::-1]


@given(paths, capacities)
def test_utilisation_is_the_load_that_the_shares_make(flows, capacity):
    rates = max_min_shares(flows, capacity)
    for link, share in utilisation(flows, rates, capacity).items():
        assert share == float(load_of(link, flows, rates) / capacity[link])
