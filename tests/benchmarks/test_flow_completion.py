"""Flow completion times beside an exact oracle in fractions, and properties of max-min rates."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.planner.proof.fluid import max_min_rates
from heddle.library.fluid.completion import completion_times
from tests.benchmarks import exact_fluid

LINKS = 5


@st.composite
def networks(draw):
    """Some links and flows: (links, cap, bytes, start in ns) each."""
    capacity = draw(st.lists(st.integers(1, 12), min_size=LINKS, max_size=LINKS))
    flow = st.tuples(
        st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=3),
        st.integers(1, 12),
        st.integers(1, 30),
        st.sampled_from([0, 0, 0, 1, 2, 7]),
    )
    return capacity, draw(st.lists(flow, min_size=1, max_size=10))


def rows_of(flows):
    places = np.full((len(flows), 3), -1, dtype=np.int64)
    for row, (links, *_) in enumerate(flows):
        places[row, : len(links)] = sorted(links)
    return places


def simulated(capacity, flows, **options):
    """Simulate with sizes in bits and rates in bit/ns, the units of the oracle."""
    _, caps, sizes, starts = (list(column) for column in zip(*flows, strict=True))
    return completion_times(
        rows_of(flows),
        np.array(capacity) * 1e9,
        np.array(sizes) / 8,
        start_ns=np.array(starts, dtype=np.float64),
        max_bps=np.array(caps) * 1e9,
        **options,
    )


def by_the_oracle(capacity, flows):
    fractions = {link: Fraction(rate) for link, rate in enumerate(capacity)}
    found = exact_fluid.completions(dict(enumerate(flows)), fractions)
    return np.array([float(found[row]) for row in range(len(flows))])


@settings(max_examples=150)
@given(networks())
def test_completion_times_equal_those_of_exact_fractions(network):
    found = simulated(*network)
    assert found.finished
    assert np.allclose(found.completion_ns, by_the_oracle(*network), rtol=1e-7)


@settings(max_examples=50)
@given(networks())
def test_no_flow_is_faster_than_alone(network):
    capacity, flows = network
    alone = [size / min(cap, *(capacity[link] for link in links)) for links, cap, size, _ in flows]
    for tolerance in (0.0, 0.03):
        found = simulated(capacity, flows, tolerance=tolerance)
        assert (found.completion_ns >= np.array(alone) * (1 - 1e-9)).all()


@settings(max_examples=50)
@given(networks())
def test_no_link_carries_more_bytes_than_it_can_until_the_last_flow_is_done(network):
    capacity, flows = network
    ends = simulated(capacity, flows).completion_ns + [start for *_, start in flows]
    for link, rate in enumerate(capacity):
        rows = [row for row, (links, *_) in enumerate(flows) if link in links]
        carried = sum(flows[row][2] for row in rows)
        if rows:
            assert carried <= rate * (max(ends[rows]) - min(flows[row][3] for row in rows)) * (1 + 1e-9)


@settings(max_examples=50)
@given(st.integers(1, 20), st.lists(st.tuples(st.integers(1, 20), st.integers(1, 50)), min_size=1, max_size=8))
def test_on_one_link_more_capacity_makes_no_flow_later(capacity, drawn):
    # Only there: in a network, room on one link may let a rival take more of another.
    flows = [({0}, cap, size, 0) for cap, size in drawn]
    slow, fast = (simulated([rate], flows).completion_ns for rate in (capacity, capacity + 1))
    assert (fast <= slow * (1 + 1e-9)).all()


@settings(max_examples=50)
@given(networks())
def test_the_order_of_flows_changes_no_completion(network):
    capacity, flows = network
    found, backwards = simulated(capacity, flows).completion_ns, simulated(capacity, flows[::-1]).completion_ns
    assert np.allclose(found, backwards[::-1], rtol=1e-7)


@settings(max_examples=100)
@given(networks())
def test_a_flow_is_at_its_cap_or_on_a_full_link_where_none_is_faster(network):
    capacity, flows = network
    most = np.array([cap for _, cap, *_ in flows], dtype=np.float64)
    rates = max_min_rates(rows_of(flows), np.array(capacity, dtype=np.float64), most)
    on = [[row for row, (links, *_) in enumerate(flows) if link in links] for link in range(LINKS)]
    full = [rates[rows].sum() >= rate * (1 - 1e-9) for rows, rate in zip(on, capacity, strict=True)]
    assert all(rates[rows].sum() <= rate * (1 + 1e-9) for rows, rate in zip(on, capacity, strict=True))
    for row, (links, cap, *_) in enumerate(flows):
        held = any(full[link] and rates[on[link]].max() <= rates[row] * (1 + 1e-9) for link in links)
        assert rates[row] <= cap
        assert held or rates[row] >= cap * (1 - 1e-9)
