"""When the collector looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.cadence import Cadence

MS = 1_000_000


@pytest.fixture
def cadence():
    """A period of 100 ms that begins at 0: 5 ms to settle, 25 ms between looks."""
    return Cadence(100 * MS, 0)


def test_without_messages_a_look_ends_the_period(cadence):
    assert cadence.due_ns() == 100 * MS


def test_a_message_is_looked_at_when_it_has_settled(cadence):
    cadence.came(40 * MS)
    assert cadence.due_ns() == 45 * MS


def test_what_comes_together_is_one_look(cadence):
    for at_ms in (40, 43, 47):
        cadence.came(at_ms * MS)
    assert cadence.due_ns() == 52 * MS


def test_an_unbroken_stream_is_looked_at_all_the_same(cadence):
    for at_ms in range(40, 80, 4):
        cadence.came(at_ms * MS)
    assert cadence.due_ns() == 65 * MS


def test_looks_keep_a_distance(cadence):
    cadence.looked(40 * MS)
    cadence.came(41 * MS)
    assert cadence.due_ns() == 65 * MS


def test_what_was_looked_at_calls_for_no_other_look(cadence):
    cadence.came(40 * MS)
    cadence.looked(45 * MS)
    assert cadence.due_ns() == 145 * MS


@given(st.integers(10, 60_000), st.lists(st.integers(0, 400), max_size=60))
def test_no_message_waits_longer_than_a_spread_nor_a_period_without_a_look(period_ms, gaps_ms):
    cadence, now, waiting, looks = Cadence(period_ms * MS, 0), 0, [], [0]
    for gap_ms in gaps_ms:
        coming = now + gap_ms * MS
        while (due := cadence.due_ns()) <= coming:
            cadence.looked(due)
            assert all(due - came <= cadence.spread_ns for came in waiting)
            assert due - looks[-1] <= period_ms * MS
            assert not waiting or due - looks[-1] >= cadence.spread_ns
            looks.append(due)
            waiting = []
        now = coming
        cadence.came(now)
        waiting.append(now)
