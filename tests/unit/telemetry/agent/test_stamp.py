"""Sequence numbers, and samples without new counters."""

from heddle.telemetry.agent.stamp import Stamps
from tests.unit.telemetry.builders import START, S, sample

PERIOD = S // 10


def test_a_sequence_grows_by_one_for_each_port():
    stamps = Stamps(PERIOD)
    first = stamps.stamp([sample("leaf1:1", at=0), sample("leaf1:2", at=0)], START)
    second = stamps.stamp([sample("leaf1:2", at=0.3)], START + 3 * PERIOD)
    assert [one.sequence for one in first] == [START // PERIOD] * 2
    assert second[0].sequence == START // PERIOD + 1


def test_counters_taken_at_the_same_time_again_are_left_out():
    stamps = Stamps(PERIOD)
    stamps.stamp([sample(at=1)], START)
    assert stamps.stamp([sample(at=1)], START + PERIOD) == []
    assert stamps.unchanged == 1
    assert stamps.stamp([sample(at=2)], START + 2 * PERIOD)[0].sequence == START // PERIOD + 1


def test_a_clock_that_was_set_back_does_not_silence_the_agent():
    stamps = Stamps(PERIOD)
    stamps.stamp([sample(at=100)], START)
    assert len(stamps.stamp([sample(at=50)], START)) == 1


def test_a_restarted_agent_continues_above_its_earlier_sequence():
    before, after = Stamps(PERIOD), Stamps(PERIOD)
    for tick in range(50):
        last = before.stamp([sample(at=tick / 10)], START + tick * PERIOD)
    again = after.stamp([sample(at=7)], START + 70 * PERIOD)
    assert again[0].sequence - last[0].sequence == 70 - 49
