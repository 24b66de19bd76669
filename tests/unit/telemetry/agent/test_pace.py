"""When an agent acts."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.agent.pace import next_tick_ns


@given(st.integers(0, 10**18), st.integers(1, 10**12), st.integers(0, 10**15))
def test_the_next_tick_is_on_the_grid_and_in_the_next_period(start, period, passed):
    due, number = next_tick_ns(start, period, start + passed)
    assert due == start + number * period
    assert 0 < due - (start + passed) <= period
