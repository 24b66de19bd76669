"""When an agent acts."""

from hypothesis import given
from hypothesis import strategies as st

from telemetry.agent.pace import Backoff, next_tick_ns


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_at_least_half_of_its_doubling_and_never_over_the_ceiling(attempt, chance):
    backoff = Backoff(first_s=0.1, ceiling_s=2.0)
    full = min(2.0, 0.1 * 2 ** min(attempt - 1, 30))
    assert full / 2 <= backoff.delay_s(attempt, chance) <= full


def test_a_connection_that_held_makes_the_next_pause_short_again():
    backoff = Backoff(steady_s=5)
    assert backoff.next_attempt(7, held_s=5.0) == 1
    assert backoff.next_attempt(7, held_s=4.9) == 8
    assert backoff.next_attempt(7, held_s=0.0) == 8


@given(st.integers(0, 10**18), st.integers(1, 10**12), st.integers(0, 10**15))
def test_the_next_tick_is_on_the_grid_and_in_the_next_period(start, period, passed):
    due, number = next_tick_ns(start, period, start + passed)
    assert due == start + number * period
    assert 0 < due - (start + passed) <= period
