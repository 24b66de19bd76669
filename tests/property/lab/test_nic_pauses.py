"""PFC at a NIC: pause state and counters against a list of intervals."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.nic.pause import STORM_PERIOD_NS, PauseStorm, PfcState
from heddle.mininet_topos.wire.pause_frame import MAX_QUANTA, quanta_ns

LINE_BPS = 20_000_000
QUANTUM_NS = 25_600
received = st.lists(st.tuples(st.integers(0, 3_000_000), st.sampled_from((0, 1, 5, 40, 65535))), max_size=30)


def intervals(frames):
    """Return the pauses of frames (time, quanta): each holds until it expires or the next frame arrives."""
    found = []
    for (start, quanta), following in pairwise([*frames, (float("inf"), 0)]):
        end = min(start + quanta * QUANTUM_NS, following[0])
        found += [(start, end)] if end > start else []
    return found


@given(gaps=received, later=st.integers(0, 200_000_000))
def test_the_paused_time_is_that_of_the_intervals(gaps, later):
    state, now, frames = PfcState(LINE_BPS), 0, []
    for gap, quanta in gaps:
        now += gap
        frames.append((now, quanta))
        state.on_pause({3: quanta}, now)
    later += now
    expected = sum(max(0, min(end, later) - start) for start, end in intervals(frames))
    assert state.paused_ns(3, later) == expected
    assert (later < state.until_ns[3]) == any(start <= later < end for start, end in intervals(frames))
    assert state.frames == [0, 0, 0, len(frames), 0, 0, 0, 0]


@given(gaps=received)
def test_a_transition_is_a_pause_that_begins_while_there_is_none(gaps):
    state, now, frames = PfcState(LINE_BPS), 0, []
    for gap, quanta in gaps:
        now += gap + 1
        frames.append((now, quanta))
        state.on_pause({1: quanta}, now)
    pauses = intervals(frames)
    begun = [start for start, _ in pauses if not any(end == start for _, end in pauses)]
    assert state.transitions[1] == len(begun)


def test_a_quantum_is_512_bit_times_of_the_link():
    state = PfcState(10_000_000)
    state.on_pause({0: 1}, 0)
    assert state.until_ns[0] == 51_200
    assert state.paused_ns(0, 10**9) == 51_200


def test_xon_ends_a_pause_at_once():
    state = PfcState(LINE_BPS)
    state.on_pause({3: 0xFFFF, 5: 7}, 100)
    state.on_pause({3: 0}, 5_100)
    assert (state.until_ns[3], state.paused_ns(3, 10**12), state.transitions[3]) == (5_100, 5_000, 1)


STORM_CHANGES = st.sampled_from([None, (3, True), (3, False), (4, True)])


@given(st.lists(st.tuples(st.integers(0, 2 * STORM_PERIOD_NS), STORM_CHANGES)))
def test_a_storm_sends_a_pause_every_period_that_none_of_it_expires_and_ends_with_a_resumption(steps):
    storm, now, running, sent_ns = PauseStorm(), 0, set(), -STORM_PERIOD_NS
    for later, change in steps:
        now += later
        if change is not None:
            priority, starts = change
            assert storm.change(priority, starts) == {priority: MAX_QUANTA if starts else 0}
            (running.add if starts else running.discard)(priority)
        due = bool(running) and now >= sent_ns + STORM_PERIOD_NS
        assert storm.due(now) == (dict.fromkeys(running, MAX_QUANTA) if due else {})
        sent_ns = now if due else sent_ns
        assert storm.wake_ns == (sent_ns + STORM_PERIOD_NS if running else float("inf"))
    assert quanta_ns(MAX_QUANTA, 400_000_000) > STORM_PERIOD_NS
