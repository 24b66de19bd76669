"""Rate limits of the slow path: never more than the bucket allows, and no key takes from another."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.control.slow.tokens import Buckets

SECOND = 1_000_000_000
STEPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, SECOND // 2)), max_size=200)


@given(steps=STEPS, per_second=st.integers(1, 50), burst=st.integers(1, 20), most=st.integers(1, 12))
def test_in_any_interval_a_key_gets_no_more_than_burst_and_rate(steps, per_second, burst, most):
    buckets = Buckets(per_second=per_second, burst=burst, max_keys=most)
    now, taken = 0, dict[int, list[int]]()
    for key, later in steps:
        now += later
        if buckets.take(key, now):
            taken.setdefault(key, []).append(now)
        assert len(buckets) <= most
    for times in taken.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                allowed = burst + (times[last] - times[first]) / SECOND * per_second
                assert last - first + 1 <= allowed + 1e-6


@given(steps=STEPS, per_second=st.integers(1, 50), burst=st.integers(1, 20))
def test_with_room_for_all_a_key_gets_what_it_would_get_alone(steps, per_second, burst):
    together, now = Buckets(per_second=per_second, burst=burst), 0
    alone = {key: Buckets(per_second=per_second, burst=burst) for key, _ in steps}
    for key, later in steps:
        now += later
        assert together.take(key, now) == alone[key].take(key, now)


@given(times=st.lists(st.integers(0, SECOND), min_size=1, max_size=100))
def test_a_clock_that_goes_back_adds_no_tokens(times):
    buckets = Buckets(per_second=1, burst=5)
    assert sum(buckets.take(1, now) for now in times) <= 6


def test_a_key_that_waited_long_enough_has_a_full_bucket_again():
    buckets = Buckets(per_second=10, burst=5)
    assert [buckets.take(1, 0) for _ in range(6)] == [True] * 5 + [False]
    assert [buckets.take(1, 10 * SECOND) for _ in range(6)] == [True] * 5 + [False]
