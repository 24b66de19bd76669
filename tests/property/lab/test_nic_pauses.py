"""PFC as a NIC honours it: pauses against a plain account of intervals."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mininet_topos.nic.pause import PfcState

LINE_BPS = 20_000_000
QUANTUM_NS = 25_600
heard = st.lists(st.tuples(st.integers(0, 3_000_000), st.sampled_from((0, 1, 5, 40, 65535))), max_size=30)


def intervals(frames):
    """Return the pauses that frames of (time, quanta) ask for: each holds until it is over or the next frame comes."""
    found = []
    for (start, quanta), following in pairwise([*frames, (float("inf"), 0)]):
        end = min(start + quanta * QUANTUM_NS, following[0])
        found += [(start, end)] if end > start else []
    return found


@given(gaps=heard, look=st.integers(0, 200_000_000))
def test_the_time_paused_is_that_of_the_intervals_asked_for(gaps, look):
    clock, now, frames = PfcState(LINE_BPS), 0, []
    for gap, quanta in gaps:
        now += gap
        frames.append((now, quanta))
        clock.on_pause({3: quanta}, now)
    look += now
    expected = sum(max(0, min(end, look) - start) for start, end in intervals(frames))
    assert clock.paused_ns(3, look) == expected
    assert (look < clock.until_ns[3]) == any(start <= look < end for start, end in intervals(frames))
    assert clock.frames == [0, 0, 0, len(frames), 0, 0, 0, 0]


@given(gaps=heard)
def test_a_transition_is_a_pause_that_begins_while_there_is_none(gaps):
    clock, now, frames = PfcState(LINE_BPS), 0, []
    for gap, quanta in gaps:
        now += gap + 1
        frames.append((now, quanta))
        clock.on_pause({1: quanta}, now)
    pauses = intervals(frames)
    begun = [start for start, _ in pauses if not any(end == start for _, end in pauses)]
    assert clock.transitions[1] == len(begun)


def test_a_quantum_is_512_bit_times_of_the_link():
    clock = PfcState(10_000_000)
    clock.on_pause({0: 1}, 0)
    assert clock.until_ns[0] == 51_200
    assert clock.paused_ns(0, 10**9) == 51_200


def test_xon_ends_a_pause_at_once():
    clock = PfcState(LINE_BPS)
    clock.on_pause({3: 0xFFFF, 5: 7}, 100)
    clock.on_pause({3: 0}, 5_100)
    assert (clock.until_ns[3], clock.paused_ns(3, 10**12), clock.transitions[3]) == (5_100, 5_000, 1)
