"""A planned run is repeated where a measure was missed, and never where a decision is missing."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from heddle.mininet_topos.demo.options import build_options
from heddle.mininet_topos.demo.results.judgement import Attempt, Verdict
from heddle.mininet_topos.demo.scenes import playbill
from heddle.mininet_topos.traffic.cast import UnfitFabricError
from tests.fakes.demo_scenes import BUSY, FAILS, HOLDS, LATE, attempt, scene, scene_run

OPTIONS = build_options(
    fabric_file=None, sizes=dict.fromkeys(("spines", "leaves", "hosts", "gbps")), workloads="ring", seeds="1",
    modes="planned", scenes="cut", seconds=1.0,
)  # fmt: skip
SHOWN, MISSED, QUIET_MISS = attempt(HOLDS), attempt(HOLDS, LATE, machine=BUSY), attempt(HOLDS, LATE)
OVERLOADED = attempt(HOLDS, LATE, machine=BUSY, carried_part=0.4)
UNDECIDED = attempt(FAILS, LATE, machine=BUSY)


class Lines:
    """The progress of a demo, as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def play(monkeypatch):
    """Return a function that plays the cut with these attempts, and returns its result and the number of runs."""

    def play(outcomes: Sequence[Attempt | Exception], attempts: int, leaves_rest: bool = False) -> tuple[Any, int]:
        waiting, made = list(outcomes), []

        def run(*_: object) -> tuple[Any, Any]:
            made.append(waiting.pop(0))
            if isinstance(made[-1], Exception):
                raise made[-1]
            return made[-1], scene_run("planned", [80_000_000] * 60)

        progress: Any = Lines()
        bill = playbill._Playbill(OPTIONS, progress)
        monkeypatch.setattr(bill, "_attempt", run)
        monkeypatch.setattr(playbill, "attempt_of", lambda _, played, rate: played)
        stage: Any = SimpleNamespace()
        bill._play_planned(bill._scenes[0], stage, attempts, leaves_rest=leaves_rest)
        return bill.results.get("cut"), len(made)

    return play


def test_a_run_that_shows_its_scene_is_not_repeated(play):
    result, runs = play([SHOWN], attempts=2)
    assert (result.verdict, runs) == (Verdict.SHOWN, 1)


@pytest.mark.parametrize("first", [MISSED, QUIET_MISS])
def test_a_missed_measure_is_repeated_and_one_run_that_shows_everything_is_enough(play, first):
    result, runs = play([first, SHOWN], attempts=2)
    assert (result.verdict, runs, result.runs[0].attempts) == (Verdict.SHOWN, 2, 2)


def test_the_repetitions_are_bounded(play):
    result, runs = play([MISSED] * 9, attempts=2)
    assert (result.verdict, runs, result.missed) == (Verdict.NOT_SHOWN, 2, True)
    assert play([QUIET_MISS] * 9, attempts=2)[0].verdict is Verdict.FAILED


def test_a_missing_decision_is_not_tried_again(play):
    result, runs = play([UNDECIDED, SHOWN], attempts=2)
    assert (result.verdict, runs, result.missed) == (Verdict.FAILED, 1, False)


def test_a_rate_that_the_machine_does_not_carry_is_left_at_once_for_a_lower_one(play):
    assert play([OVERLOADED] * 2, attempts=2, leaves_rest=True)[1] == 1
    assert play([OVERLOADED] * 2, attempts=2, leaves_rest=False)[1] == 2


def test_a_scene_that_does_not_fit_the_second_time_keeps_the_first_result(play):
    assert play([MISSED, UnfitFabricError("x")], attempts=2)[0].verdict is Verdict.NOT_SHOWN
    assert play([UnfitFabricError("x")], attempts=2)[0] is None


@pytest.fixture
def shows(monkeypatch):
    """Return a function that plays all scenes: each attempt at a rate is what the function is given for that rate."""

    def shows(outcomes: dict[int, Attempt], options: Any = OPTIONS) -> tuple[Any, list[int]]:
        rates = []

        def play(bill: Any, attempts: int, *, leaves_rest: bool) -> None:
            rate_bps = bill._options.line_rate_bps
            rates.append(rate_bps)
            earlier = bill._earlier.get("cut")
            made = (*(earlier.attempts if earlier else ()), outcomes[rate_bps])
            bill.results["cut"] = replace(scene(), attempts=made)

        monkeypatch.setattr(playbill._Playbill, "play", play)
        progress: Any = Lines()
        (result,), _ = playbill.play_scenes(options, progress)
        return result, rates

    return shows


def test_a_scene_that_missed_a_measure_is_played_again_two_rates_below(shows):
    result, rates = shows({20_000_000: MISSED, 12_000_000: SHOWN})
    assert (result.verdict, rates, len(result.attempts)) == (Verdict.SHOWN, [20_000_000, 12_000_000], 2)
    result, rates = shows({20_000_000: MISSED, 12_000_000: MISSED})
    assert (result.verdict, len(rates)) == (Verdict.NOT_SHOWN, 2)


@pytest.mark.parametrize("first", [SHOWN, UNDECIDED])
def test_a_scene_that_is_decided_is_not_played_again(shows, first):
    assert shows({20_000_000: first})[1] == [20_000_000]


def test_at_the_lowest_rate_no_other_follows(shows):
    lowest = OPTIONS.slower[-1]
    assert shows({8_000_000: MISSED}, lowest)[1] == [8_000_000]
    above = OPTIONS.slower[-2]
    assert shows({12_000_000: MISSED, 8_000_000: SHOWN}, above)[1] == [12_000_000, 8_000_000]
