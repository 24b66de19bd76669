"""The results of scenes as values: goodput over time, events, the controller's decisions, and the verdict. Pure.

A scene is the same traffic under ECMP and on planned paths that follow the controller's decisions, while something
happens to the fabric. Times count from the start of a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from heddle.mininet_topos.demo.results.judgement import Attempt, Check, Verdict, busy_text, verdict_of
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS
from heddle.mininet_topos.traffic.cast import Mark

KINDS = ("cut", "hog", "arrival", "storm")
PERIOD_NS = GOODPUT_PERIOD_NS
FULL = 0.9
"""A series is at a rate if its mean over `WINDOW` periods is this part of it: less is one frame in a period."""
WINDOW = 6
DIP_PERIODS, DIP_WINDOW = 20, 3
"""The periods in which what happens shows its effect, a second; and those whose mean is a dip where it is too low."""
WARM_UP_PERIODS = 6
"""Periods at the start of a run that no mean counts: the first packets of all flows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneRun:
    """One run of a scene: the watched flows' goodput in each period of `PERIOD_NS`, and its marks in order of time.

    `rate_bps` is what the watched flows' rates allow after the decisions, in payload bits (0 under ECMP: not planned).
    `lost_packets` and `moved_flows` are of all flows. `problems` are why the run must not be judged.
    """

    mode: str
    attempts: int
    goodput_bps: tuple[int, ...]
    marks: tuple[Mark, ...]
    rate_bps: int
    moved_flows: int
    lost_packets: int
    retransmitted_packets: int
    problems: tuple[str, ...] = ()

    def before_bps(self, act_ns: int) -> float:
        """Return the mean goodput before something happened, without the start of the run."""
        return _mean(self.goodput_bps[WARM_UP_PERIODS : act_ns // PERIOD_NS])

    def lowest_bps(self, act_ns: int) -> float:
        """Return the lowest goodput of two periods in a row after something happened."""
        after = self.goodput_bps[act_ns // PERIOD_NS :]
        return min((_mean(after[first : first + 2]) for first in range(len(after) - 1)), default=0.0)

    def after_bps(self) -> float:
        """Return the mean goodput of the last second."""
        return _mean(self.goodput_bps[-(1_000_000_000 // PERIOD_NS) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult:
    """A scene: what it shows, when it happened, its runs (planned first) and its verdict, which is of planned runs.

    `watched` says whose goodput the series are. `attempts` are all planned runs in order; `runs` and `checks` are of
    the last one, which is the one that shows the scene if any does.
    """

    kind: str
    title: str
    watched: str
    act_ns: int
    runs: tuple[SceneRun, ...]
    checks: tuple[Check, ...]
    attempts: tuple[Attempt, ...]
    period_ns: int = PERIOD_NS

    @property
    def verdict(self) -> Verdict:
        """Return whether what the scene shows is so, is not, or could not be shown on this machine."""
        return verdict_of(self.attempts)

    @property
    def holds(self) -> bool:
        """Return whether what the scene shows is so: a planned run is valid, and all its checks hold."""
        return self.verdict is Verdict.SHOWN

    @property
    def missed(self) -> bool:
        """Return whether a measure alone was missed, which another attempt may not miss."""
        return self.verdict is not Verdict.SHOWN and all(attempt.missed for attempt in self.attempts)

    @property
    def why(self) -> str:
        """Return why the scene was not shown, with the figures of the machine; empty if it was shown or failed."""
        if self.verdict is not Verdict.NOT_SHOWN:
            return ""
        last = next(attempt for attempt in reversed(self.attempts) if attempt.excused)
        return f"{busy_text(last.machine)}"

    @property
    def failures(self) -> tuple[str, ...]:
        """Return what the first attempt that failed has not shown."""
        one = next(attempt for attempt in self.attempts if attempt.verdict is Verdict.FAILED)
        return (*one.faults, *(check.text for check in one.checks if not check.holds), *one.problems)

    @property
    def line_rate_bps(self) -> int:
        """Return the line rate of its runs."""
        return self.attempts[-1].line_rate_bps

    @property
    def stepped_down(self) -> bool:
        """Return whether it was played at a lower rate than at first, because it was not shown there."""
        return self.line_rate_bps < self.attempts[0].line_rate_bps

    @property
    def top_bps(self) -> float:
        """Return the highest mean goodput of `WINDOW` periods of all runs, the scale of drawings: bursts pass it."""
        return max(
            _mean(run.goodput_bps[first : first + WINDOW]) for run in self.runs for first in range(len(run.goodput_bps))
        )

    def run(self, mode: str) -> SceneRun | None:
        """Return the run of a mode, None if there is none."""
        return next((run for run in self.runs if run.mode == mode), None)


def recovered_ns(goodput_bps: Sequence[int], since_ns: int, rate_bps: float) -> int | None:
    """Return how long after `since_ns` goodput is at a rate and stays for `WINDOW` periods; None: it does not return.

    The time includes every dip in the `DIP_PERIODS` after `since_ns`; one period alone with a frame less is none.
    """
    first = since_ns // PERIOD_NS
    ends = range(first + 1, min(first + DIP_PERIODS, len(goodput_bps)) + 1)
    dips = (end for end in ends if _mean(goodput_bps[end - 1 : end - 1 + DIP_WINDOW]) < FULL * rate_bps)
    start = max(dips, default=first)
    for period in range(start, len(goodput_bps) - WINDOW + 1):
        if _mean(goodput_bps[period : period + WINDOW]) >= FULL * rate_bps:
            return max(0, period * PERIOD_NS - since_ns)
    return None


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0
