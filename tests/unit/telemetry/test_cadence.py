"""The times of the collector's scans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.cadence import Cadence

MS = 1_000_000


@pytest.fixture
def cadence():
    """A period of 100 ms that begins at 0: 5 ms to settle, 25 ms between scans."""
    return Cadence(100 * MS, 0)


def test_without_messages_a_scan_ends_the_period(cadence):
    assert cadence.due_ns() == 100 * MS


def test_a_message_is_scanned_when_it_has_settled(cadence):
    cadence.received(40 * MS)
    assert cadence.due_ns() == 45 * MS


def test_messages_that_arrive_together_cause_one_scan(cadence):
    for at_ms in (40, 43, 47):
        cadence.received(at_ms * MS)
    assert cadence.due_ns() == 52 * MS


def test_an_unbroken_stream_does_not_postpone_scans(cadence):
    for at_ms in range(40, 80, 4):
        cadence.received(at_ms * MS)
    assert cadence.due_ns() == 65 * MS


def test_scans_keep_a_minimum_distance(cadence):
    cadence.scanned(40 * MS)
    cadence.received(41 * MS)
    assert cadence.due_ns() == 65 * MS


def test_scanned_messages_cause_no_further_scan(cadence):
    cadence.received(40 * MS)
    cadence.scanned(45 * MS)
    assert cadence.due_ns() == 145 * MS


@given(st.integers(10, 60_000), st.lists(st.integers(0, 400), max_size=60))
def test_no_message_waits_longer_than_a_spread_nor_a_period_without_a_scan(period_ms, gaps_ms):
    cadence, now, waiting, scans = Cadence(period_ms * MS, 0), 0, [], [0]
    for gap_ms in gaps_ms:
        coming = now + gap_ms * MS
        while (due := cadence.due_ns()) <= coming:
            cadence.scanned(due)
            assert all(due - arrived <= cadence.spread_ns for arrived in waiting)
            assert due - scans[-1] <= period_ms * MS
            assert not waiting or due - scans[-1] >= cadence.spread_ns
            scans.append(due)
            waiting = []
        now = coming
        cadence.received(now)
        waiting.append(now)
