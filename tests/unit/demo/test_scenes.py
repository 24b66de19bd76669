from dataclasses import replace

from heddle.mininet_topos.demo.results.scenes import PERIOD_NS, recovered_ns
from tests.fakes.demo_scenes import ACT_NS, FAILS, HOLDS, scene

BEFORE = 20
SINCE_NS = BEFORE * PERIOD_NS


def series(*parts):
    return [value for value, periods in parts for _ in range(periods)]


def test_the_recovery_is_the_first_period_from_which_goodput_stays_at_the_rate():
    goodput = series((100, BEFORE), (0, 5), (100, 20))
    assert recovered_ns(goodput, SINCE_NS, 100) == 5 * PERIOD_NS


def test_a_rate_below_the_one_before_counts_from_the_dip_on():
    goodput = series((100, BEFORE), (90, 2), (0, 3), (50, 20))
    assert recovered_ns(goodput, SINCE_NS, 50) == 5 * PERIOD_NS


def test_a_slow_return_ends_with_the_last_dip_and_a_frame_less_is_none():
    goodput = series((100, BEFORE), (0, 2), (100, 3), (60, 1), (100, 2), (80, 1), (100, 20))
    assert recovered_ns(goodput, SINCE_NS, 100) == 6 * PERIOD_NS


def test_a_short_burst_at_the_rate_is_no_recovery():
    goodput = series((100, BEFORE), (0, 4), (100, 3), (0, 20))
    assert recovered_ns(goodput, SINCE_NS, 100) is None


def test_goodput_that_never_falls_has_recovered_at_once():
    assert recovered_ns(series((100, BEFORE + 20)), SINCE_NS, 100) == 0


def test_a_run_that_ends_before_anything_happens_has_no_recovery():
    assert recovered_ns(series((100, BEFORE)), SINCE_NS, 100) is None


def test_the_means_are_of_the_time_before_the_dip_and_the_last_second():
    run = scene().runs[0]
    assert (run.before_bps(ACT_NS), run.lowest_bps(ACT_NS), run.after_bps()) == (80e6, 0, 60e6)


def test_the_scale_of_drawings_ignores_a_burst():
    burst = replace(scene().runs[0], goodput_bps=(0, 0, 60, 0, 0, 0, *[40] * 12))
    assert replace(scene(), runs=(burst,)).top_bps == 40


def test_a_scene_holds_only_if_all_checks_hold_and_its_planned_run_is_valid():
    assert scene(HOLDS).holds
    assert not scene(HOLDS, FAILS).holds
    assert not scene(HOLDS, problems=("3 packets arrived damaged",)).holds
