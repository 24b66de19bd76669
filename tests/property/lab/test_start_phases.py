"""Start phases of queue pairs: at the rates of a plan, frames of different senders never queue at their receiver."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.measure.start_phases import start_offset_ns, start_phases

FRAME_BITS = 4154 * 8
PLANNED_SHARE = 0.95


def incast(senders: int) -> list[tuple[str, str]]:
    return [(f"h{number}", "receiver") for number in range(senders)]


def max_queue(offsets_ns: list[int], interval_ns: float, frame_ns: float, rounds: int = 3) -> int:
    """Serve the frames one by one in order of arrival; return the maximum number queued at once."""
    arrivals = sorted(offset + number * interval_ns for offset in offsets_ns for number in range(rounds))
    free, departures, longest = 0.0, [], 0
    for arrival in arrivals:
        free = max(free, arrival) + frame_ns
        departures.append(free)
        longest = max(longest, sum(departure > arrival for departure in departures))
    return longest


@given(senders=st.integers(2, 128), line_bps=st.sampled_from([1_000_000, 10_000_000, 20_000_000, 10**9]))
def test_frames_of_senders_at_equal_rates_never_wait_for_each_other(senders, line_bps):
    rate_bps = int(PLANNED_SHARE * line_bps / senders)
    offsets = [start_offset_ns(phase, FRAME_BITS, rate_bps) for phase in start_phases(incast(senders))]
    assert max_queue(offsets, FRAME_BITS * 1e9 / rate_bps, FRAME_BITS * 1e9 / line_bps) == 1


def test_senders_that_begin_at_one_instant_would_all_wait():
    frame_ns = FRAME_BITS * 1e9 / 10_000_000
    assert max_queue([0] * 31, 31 * frame_ns / PLANNED_SHARE, frame_ns) == 31


@given(senders=st.integers(1, 64))
def test_the_first_of_many_to_one_begins_at_once_and_the_last_within_an_interval(senders):
    phases = start_phases(incast(senders))
    if senders > 1:
        assert phases == pytest.approx([number / senders for number in range(senders)])
    assert all(0 <= phase < 1 for phase in phases)


@given(receivers=st.integers(2, 40))
def test_the_queue_pairs_of_one_sender_are_spread_evenly(receivers):
    phases = sorted(start_phases([("h0", f"r{number}") for number in range(receivers)]))
    assert [after - before for before, after in pairwise(phases)] == pytest.approx([1 / receivers] * (receivers - 1))


@given(ranks=st.integers(3, 9))
def test_in_an_all_to_all_every_sender_is_spread_evenly(ranks):
    pairs = [(str(src), str(dst)) for src, dst in permutations(range(ranks), 2)]
    phases = start_phases(pairs)
    for rank in range(ranks):
        mine = sorted(phase for phase, (src, _) in zip(phases, pairs, strict=True) if src == str(rank))
        gaps = [after - before for before, after in pairwise([*mine, mine[0] + 1])]
        assert gaps == pytest.approx([1 / (ranks - 1)] * (ranks - 1))


def test_a_bystander_does_not_change_the_phases_of_an_incast():
    assert start_phases([*incast(7), ("h0", "other")])[:7] == start_phases(incast(7))


def test_phases_are_deterministic():
    assert start_phases(incast(31)) == start_phases(incast(31))
