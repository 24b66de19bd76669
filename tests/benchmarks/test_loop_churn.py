"""`heddle bench loop`, part churn: short, without a process."""

import pytest

from heddle.benchmarks.loop.churn import BY_DEFAULT, NEVER_MOVE, Loop, churn, in_this_process
from heddle.benchmarks.planning.cases import three_tiers, two_tiers
from heddle.benchmarks.planning.events.arrivals import Scene

SCENE = Scene(fabric="", placement="random", sends="rings", qps=1)


def rows_of(fabric, settings):
    return churn(Loop(fabric, settings, in_this_process(fabric)), SCENE, 40, 1, failures=3)


@pytest.mark.parametrize("fabric", [two_tiers(512, 16), three_tiers(12)], ids=["2 tiers", "3 tiers"])
def test_jobs_arrive_and_leave_and_cables_fail_and_moves_never_raise_the_mean_ratio(fabric):
    moves, never = (rows_of(fabric, settings) for settings in (BY_DEFAULT, NEVER_MOVE))
    assert [(row.event, row.used) for row in moves] == [(row.event, row.used) for row in never]
    for event in ("arrival", "departure", "failure", "recovery"):
        with_moves, without = ([row for row in rows if row.event == event] for rows in (moves, never))
        assert len(with_moves) >= 3
        assert sum(row.ratio for row in with_moves) <= sum(row.ratio for row in without)
    assert sum(row.moved for row in moves) > 0
    assert sum(row.moved for row in never if row.event != "failure") == 0
    assert all(row.ms >= row.planner_ms > 0 for row in (*moves, *never))
    assert all((row.rules_ms > 0) == (row.event in ("failure", "recovery")) for row in moves)
