"""Detection of a hanging and a stuck data process; late samples do not count as a hang."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.control.process.liveness import HUNG_SAMPLES, LATE, STUCK_SAMPLES, Liveness
from tests.support.examples import examples

INTERVAL_S = 0.05


def sampled(steps: list[tuple[bool, bool]]) -> Liveness:
    """Take samples, each with whether the counter changed and whether the sample was late."""
    now_s, count = 0.0, 7
    made = Liveness(INTERVAL_S, now_s)
    made.sample(count, now_s)
    for moved, late in steps:
        now_s += (LATE + 1 if late else 1) * INTERVAL_S
        count += moved
        made.sample(count, now_s)
    return made


STILL, MOVED, LATE_STILL = (False, False), (True, False), (False, True)


def test_a_process_whose_counter_stands_still_hangs_and_is_stuck_much_later() -> None:
    assert not sampled([STILL] * (HUNG_SAMPLES - 1)).hangs
    assert sampled([STILL] * HUNG_SAMPLES).hangs
    assert not sampled([STILL] * (STUCK_SAMPLES - 1)).is_stuck
    assert sampled([STILL] * STUCK_SAMPLES).is_stuck


def test_a_process_that_resumes_does_not_hang() -> None:
    made = sampled([STILL] * (HUNG_SAMPLES + 3) + [MOVED])
    assert not made.hangs
    assert not made.is_stuck


def test_late_samples_detect_a_stuck_process_but_no_hang() -> None:
    made = sampled([LATE_STILL] * (STUCK_SAMPLES - 1))
    assert not made.hangs
    assert not made.is_stuck
    assert sampled([LATE_STILL] * STUCK_SAMPLES).is_stuck


@settings(max_examples=examples(200), deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_it_hangs_exactly_if_the_last_samples_in_time_saw_no_change(steps: list[tuple[bool, bool]]) -> None:
    last = steps[-HUNG_SAMPLES:]
    assert sampled(steps).hangs == (len(last) == HUNG_SAMPLES and all(step == STILL for step in last))
