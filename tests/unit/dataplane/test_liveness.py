"""When a data process hangs and when it is stuck, by looks at a count: no stall of the looker is held against it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.control.liveness import HUNG_SAMPLES, LATE, STUCK_SAMPLES, Liveness
from tests.support.examples import examples

INTERVAL_S = 0.05


def looked(steps: list[tuple[bool, bool]]) -> Liveness:
    """Let looks pass, each with whether the count moved since the last one and whether the look was late."""
    now_s, count = 0.0, 7
    made = Liveness(INTERVAL_S, now_s)
    made.sample(count, now_s)
    for moved, late in steps:
        now_s += (LATE + 1 if late else 1) * INTERVAL_S
        count += moved
        made.sample(count, now_s)
    return made


STILL, MOVED, LATE_STILL = (False, False), (True, False), (False, True)


def test_one_whose_count_stands_still_hangs_and_is_stuck_much_later() -> None:
    assert not looked([STILL] * (HUNG_SAMPLES - 1)).hangs
    assert looked([STILL] * HUNG_SAMPLES).hangs
    assert not looked([STILL] * (STUCK_SAMPLES - 1)).is_stuck
    assert looked([STILL] * STUCK_SAMPLES).is_stuck


def test_one_that_goes_on_does_not_hang_any_more() -> None:
    made = looked([STILL] * (HUNG_SAMPLES + 3) + [MOVED])
    assert not made.hangs
    assert not made.is_stuck


def test_where_the_looker_gets_to_run_too_late_nobody_hangs_but_is_stuck_in_the_end() -> None:
    made = looked([LATE_STILL] * (STUCK_SAMPLES - 1))
    assert not made.hangs
    assert not made.is_stuck
    assert looked([LATE_STILL] * STUCK_SAMPLES).is_stuck


@settings(max_examples=examples(200), deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_it_hangs_exactly_where_the_last_looks_in_time_saw_nothing_move(steps: list[tuple[bool, bool]]) -> None:
    last = steps[-HUNG_SAMPLES:]
    assert looked(steps).hangs == (len(last) == HUNG_SAMPLES and all(step == STILL for step in last))
