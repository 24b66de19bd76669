"""The liveness of a switch, from the bytes and messages of each echo period."""

from heddle.controller.southbound.liveness import Liveness, Verdict
from heddle.controller.southbound.settings import SouthboundSettings

SETTINGS = SouthboundSettings(suspect_after=2, close_after=4, silent_periods=8)


def verdicts(totals):
    liveness = Liveness(SETTINGS)
    return [liveness.after_period(*total) for total in totals]


def test_a_silent_switch_is_suspect_after_two_periods_and_dead_after_four():
    assert verdicts([(8, 1)] * 5) == [
        Verdict.UNCHANGED, Verdict.UNCHANGED, Verdict.SUSPECT, Verdict.UNCHANGED, Verdict.DEAD,
    ]  # fmt: skip


def test_any_byte_ends_the_suspicion():
    assert verdicts([(8, 1), (8, 1), (8, 1), (9, 1)])[-1] is Verdict.RECOVERED


def test_bytes_without_a_whole_message_count_for_eight_periods_only():
    assert verdicts([(8 + i, 1) for i in range(9)]) == [Verdict.UNCHANGED] * 8 + [Verdict.DEAD]
