"""Compare the figures of one run with the planner's goals; goals that a short run does not measure are left out."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from heddle.benchmarks.planning.methods import NETWORKX, OURS

FULL = 131_072
SOLVE_MS, PROCESS_S, PEAK_MB = 50.0, 3.0, 400.0
GROWTH, FASTER, FIRST_PLAN_S = 3.0, 1000.0, 1.5


class Goal(NamedTuple):
    """A goal with the measured value and its limit as text."""

    goal: str
    found: float
    limit: str
    met: bool


def goals(found: dict[str, Any]) -> Iterator[Goal]:
    """Yield every goal that the figures cover."""
    for case in found["cases"]:
        ratio = case["methods"][0]["ratio"]
        limit = f"at most {case['allowed_ratio']:.4g} x bound"
        yield Goal(f"{case['case']}, {case['flows']:,} flows: x bound", ratio, limit, case["met"])
    for case in found["cases"]:
        by_name = {row["method"]: row for row in case["methods"]}
        slow = by_name.get(NETWORKX, {})
        if case["family"].startswith("equal") and case["flows"] > FULL // 32 and "ratio" in slow:
            times = by_name[OURS]["times_faster_than_networkx"]
            yield Goal(f"{case['case']}: times faster than networkx", times, f"at least {FASTER:,.0f}", times >= FASTER)
            less = slow["max_utilisation"] - by_name[OURS]["max_utilisation"]
            yield Goal(f"{case['case']}: fullest link below networkx's by", less, "more than 0", less > 0)
    process = found["process"]
    if process["flows"] >= FULL:
        yield _below("131,000 flows solved, ms", process["solve_ms"], SOLVE_MS)
        yield _below("heddle plan --json of them, s", process["process_s"], PROCESS_S)
        yield _below("its peak resident memory, MB", process["peak_rss_mb"], PEAK_MB)
    yield _below("a later start of heddle plan to its first plan, s", found["start"]["next_process_s"], FIRST_PLAN_S)
    if found["growth"]["time_per_flow_131k_to_8k"]:
        grown = found["growth"]["time_per_flow_131k_to_8k"]
        yield _below("time per flow, 131,000 flows over 8,000", grown, GROWTH)


def _below(goal: str, found: float, limit: float) -> Goal:
    return Goal(goal, found, f"below {limit:g}", found < limit)
