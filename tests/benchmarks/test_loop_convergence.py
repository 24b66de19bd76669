"""`heddle bench loop`, part convergence: short, without a process, and with a goal that takes half a second."""

import pytest

from heddle.benchmarks.loop.churn import BY_DEFAULT, in_this_process
from heddle.benchmarks.loop.convergence import EVERY_MS, Converging, comes_and_goes, filled, happenings, interval
from heddle.benchmarks.planning.cases import two_tiers
from heddle.benchmarks.planning.events.arrivals import Scene, events
from heddle.controller.model.event import Submit
from heddle.controller.planner.online import OnlinePlanner

SCENE = Scene(fabric="", placement="random", sends="rings + all-to-all", qps=1)
GOAL_S = 0.5


@pytest.fixture
def loop():
    fabric = two_tiers(64, 8)
    planner = OnlinePlanner(fabric)

    def goal(problem):
        found = planner.solve((), health=problem.health, kept=problem.kept, limit=problem.limit, converge=True)
        return found, GOAL_S

    return Converging(fabric, BY_DEFAULT, in_this_process(fabric), goals=goal)


def drawn(loop, arrivals, seed=1):
    return events(loop.fabric, SCENE, arrivals, seed, sizes=(4, 8, 16))


def test_the_mean_speed_over_an_interval_counts_the_search_of_goals_and_the_time_in_which_hosts_follow(loop):
    rows, converged = 0, 0
    whole_s, follow_s = EVERY_MS / 1e3, BY_DEFAULT.follow_ms / 1e3
    for _, event in filled(loop, drawn(loop, 16)):
        taken = len(loop.taken)
        row, rows = interval(loop, event, again=1.0), rows + 1
        if len(loop.taken) == taken:
            assert row.speed == pytest.approx(row.before)
        if len(loop.taken) == taken + 1:
            converged += 1
            assert row.goals_s[0] == GOAL_S
            follows_s = row.cost / row.before
            assert follows_s in (pytest.approx(follow_s), pytest.approx(2 * follow_s))
            late = row.before * GOAL_S + row.after * (whole_s - GOAL_S - follows_s)
            assert row.speed == pytest.approx(late / whole_s, rel=1e-3)
            assert row.gain == pytest.approx((row.after - row.before) * (whole_s - GOAL_S - follows_s), rel=1e-3)
    assert 0 < converged < rows


def test_an_interval_is_a_part_of_the_clock_and_all_jobs_of_it_have_paths(loop):
    for number, event in filled(loop, drawn(loop, 12)):
        began_ms = loop.now_ms
        interval(loop, event, again=1.0)
        assert began_ms + EVERY_MS <= loop.now_ms < began_ms + EVERY_MS + 1_000
        assert event.arrive.job_id in loop.state.jobs
        assert not loop.state.jobs.keys() & set(event.leave), number


def test_senders_of_every_job_drain_before_a_move(loop):
    *leaves, arrival = happenings(next(iter(drawn(loop, 1))))
    assert leaves == []
    assert isinstance(arrival, Submit)
    assert arrival.request.drains_before_moves


def test_from_its_third_cycle_on_a_job_that_comes_and_goes_moves_at_most_64_flows(loop):
    moves = list(comes_and_goes(loop, drawn(loop, 40, seed=6), cycles=3))
    assert len(moves) == 6
    assert max(moves[:2]) > 64
    assert max(moves[4:]) <= 64
