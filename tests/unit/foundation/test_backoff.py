"""Delays between attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.foundation.backoff import Backoff, doubled_ms


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_delay_is_at_least_half_of_its_doubling_and_never_over_the_maximum(attempt, jitter):
    backoff = Backoff(first_s=0.1, max_s=2.0)
    full = min(2.0, 0.1 * 2 ** min(attempt - 1, 30))
    assert full / 2 <= backoff.delay_s(attempt, jitter) <= full


def test_full_jitter_is_the_plain_doubling():
    backoff = Backoff(first_s=0.1, max_s=5.0)
    delays = [backoff.delay_s(attempt, jitter=1.0) for attempt in range(1, 9)]
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_a_connection_that_lasted_makes_the_next_delay_short_again():
    backoff = Backoff(steady_s=5)
    assert backoff.next_attempt(7, held_s=5.0) == 1
    assert backoff.next_attempt(7, held_s=4.9) == 8
    assert backoff.next_attempt(7, held_s=0.0) == 8


def test_a_pause_doubles_with_each_earlier_one_up_to_64_times_the_first():
    assert [doubled_ms(500, earlier) for earlier in (0, 1, 2, 6, 7, 100)] == [500, 1_000, 2_000, 32_000, 32_000, 32_000]
