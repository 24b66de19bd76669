"""DCQCN's reaction and notification points: against an independent reference of the paper, and their invariants."""

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.mininet_topos.nic.dcqcn import DcqcnSettings, NotificationPoint, ReactionPoint
from tests.oracles.dcqcn_reference import trajectory
from tests.support.examples import examples

LINE_BPS = 20_000_000
SETTINGS = DcqcnSettings.for_line_rate(LINE_BPS)
MS = 1_000_000
times = st.integers(0, 1500 * MS)
gaps = st.lists(st.integers(1, 120 * MS), max_size=30)


def reference(cnps, packets, moments, limit=LINE_BPS, parameters=SETTINGS):
    names = {
        "g": parameters.g,
        "minimum_rate": parameters.minimum_rate_bps,
        "alpha_timer": parameters.alpha_timer_ns,
        "increase_timer": parameters.increase_timer_ns,
        "byte_counter": parameters.byte_counter_bytes,
        "fast_recovery": parameters.fast_recovery_stages,
        "additive": parameters.additive_increase_bps,
        "hyper": parameters.hyper_increase_bps,
    }
    return trajectory(names, limit, cnps, packets, moments)


def ours(cnps, packets, moments, limit=LINE_BPS, parameters=SETTINGS, floor=0):
    point, found = ReactionPoint(parameters, limit, floor), {}
    calls = [(moment, 0, None) for moment in cnps] + [(moment, 1, size) for moment, size in packets]
    calls += [(moment, 2, None) for moment in moments]
    for moment, kind, size in sorted(calls, key=lambda call: call[:2]):
        if kind == 0:
            point.on_cnp(moment)
        elif kind == 1:
            point.on_sent(size, moment)
        else:
            point.advance(moment)
            found[moment] = (point.rate_bps, point.target_bps, point.alpha)
    return [found[moment] for moment in moments]


def assert_same(first, second):
    for mine, theirs in zip(first, second, strict=True):
        assert all(
            abs(a - float(b)) <= 1e-9 * max(1.0, float(b)) + 1e-2 * (float(b) > 1)
            for a, b in zip(mine, theirs, strict=True)
        )


def running(gap_list):
    total, found = 0, []
    for gap in gap_list:
        total += gap
        found.append(total)
    return found


@settings(max_examples=examples(80))
@given(
    cnp_gaps=st.one_of(gaps, st.lists(st.integers(1, 5 * MS), min_size=8, max_size=20)),
    packet_gaps=st.lists(st.tuples(st.integers(1, 30 * MS), st.integers(1, 400_000)), max_size=60),
    moments=st.lists(times, min_size=1, max_size=20, unique=True),
    byte_counter=st.sampled_from((50_000, 200_000, SETTINGS.byte_counter_bytes)),
    additive=st.sampled_from((40_000, SETTINGS.additive_increase_bps)),
)
def test_rates_and_alpha_are_those_of_the_papers_equations(cnp_gaps, packet_gaps, moments, byte_counter, additive):
    parameters = SETTINGS._replace(byte_counter_bytes=byte_counter, additive_increase_bps=additive)
    cnps = running(cnp_gaps)
    packets = list(zip(running([gap for gap, _ in packet_gaps]), [size for _, size in packet_gaps], strict=True))
    expected = reference(cnps, packets, moments, parameters=parameters)
    assert_same(ours(cnps, packets, moments, parameters=parameters), expected)


def test_long_after_a_deep_cut_the_increase_becomes_hyper_as_in_the_paper():
    cnps = [number * MS for number in range(30)]
    packets = [(30 * MS + number * 5 * MS, 50_000) for number in range(120)]
    parameters = SETTINGS._replace(byte_counter_bytes=100_000, hyper_increase_bps=700_000, additive_increase_bps=50_000)
    moments = [30 * MS + number * 3 * MS for number in range(200)]
    found = ours(cnps, packets, moments, parameters=parameters)
    assert_same(found, reference(cnps, packets, moments, parameters=parameters))
    targets = [target for _, target, _ in found]
    steps = {round(after - before) for before, after in pairwise(targets)}
    assert steps >= {0, 50_000, 700_000}


@settings(max_examples=examples(40))
@given(cnp_gaps=gaps, steps=st.lists(st.integers(0, 80 * MS), max_size=40), limit=st.integers(50_000, LINE_BPS))
def test_the_rate_stays_between_minimum_and_limit_and_below_its_target(cnp_gaps, steps, limit):
    point, cnps = ReactionPoint(SETTINGS, limit), running(cnp_gaps)
    for moment, is_cnp in sorted([(moment, True) for moment in cnps] + [(moment, False) for moment in running(steps)]):
        point.on_cnp(moment) if is_cnp else point.on_sent(4170, moment)
        assert min(limit, SETTINGS.minimum_rate_bps) <= point.rate_bps <= point.target_bps <= limit
        assert 0 < point.alpha <= 1


def test_the_trajectory_on_recorded_cnps_is_that_of_the_papers_equations():
    recorded = json.loads((Path(__file__).parent / "recorded_incast.json").read_text())
    packets = list(zip(running(recorded["packet_gaps_ns"]), recorded["packet_bytes"], strict=True))
    moments = list(range(0, packets[-1][0], 5 * MS))
    found = ours(recorded["cnp_ns"], packets, moments)
    assert_same(found, reference(recorded["cnp_ns"], packets, moments))
    rates = [rate for rate, _, _ in found]
    assert (rates[0], min(rates) < LINE_BPS / 3, rates[-1]) == (LINE_BPS, True, LINE_BPS)


@given(moments=st.lists(times, max_size=60).map(sorted))
def test_cnps_are_never_closer_than_the_interval_and_none_is_withheld_longer(moments):
    point, sent = NotificationPoint(SETTINGS), []
    for moment in moments:
        sends = point.on_marked(moment)
        assert sends == (not sent or moment - sent[-1] >= SETTINGS.cnp_interval_ns)
        sent += [moment] if sends else []


@given(steps=st.lists(st.integers(1, 50 * MS), min_size=1, max_size=30), cnp=times)
def test_the_rate_does_not_depend_on_how_often_time_is_advanced(steps, cnp):
    often, once = ReactionPoint(SETTINGS, LINE_BPS), ReactionPoint(SETTINGS, LINE_BPS)
    often.on_cnp(cnp)
    once.on_cnp(cnp)
    now = cnp
    for step in steps:
        now += step
        often.advance(now)
    once.advance(now)
    assert (often.rate_bps, often.target_bps) == (once.rate_bps, once.target_bps)
    assert abs(often.alpha - once.alpha) < 1e-12


@given(cnps=st.lists(times, min_size=1, max_size=20).map(sorted), limit=st.integers(200_000, LINE_BPS))
def test_without_more_cnps_the_rate_returns_to_the_limit_within_seconds(cnps, limit):
    point = ReactionPoint(SETTINGS, limit)
    for moment in cnps:
        point.on_cnp(moment)
    point.advance(cnps[-1] + 5000 * MS)
    assert point.rate_bps == limit
    assert point.wake_ns is None


def test_advancing_by_a_day_takes_few_steps():
    point = ReactionPoint(SETTINGS, LINE_BPS)
    point.on_cnp(0)
    point.advance(3600 * 10**9 * 24)
    assert point.rate_bps == LINE_BPS


def test_the_first_cnp_halves_the_rate():
    point = ReactionPoint(SETTINGS, LINE_BPS)
    point.on_cnp(5)
    assert (point.rate_bps, point.target_bps, point.alpha) == (LINE_BPS / 2, LINE_BPS, 1.0)


def test_fast_recovery_halves_the_distance_to_the_target_five_times():
    point = ReactionPoint(SETTINGS, LINE_BPS)
    point.on_cnp(0)
    distances = []
    for stage in range(1, 6):
        point.advance(stage * SETTINGS.increase_timer_ns)
        distances.append(LINE_BPS - point.rate_bps)
    assert distances == [LINE_BPS / 2**stage for stage in range(2, 7)]


def test_a_sender_without_a_cnp_sends_at_its_limit_even_when_that_changes():
    point = ReactionPoint(SETTINGS, 3_000_000)
    point.on_sent(10**9, 10)
    point.set_limit(5_000_000, 20)
    assert (point.rate_bps, point.alpha, point.wake_ns) == (5_000_000, 1.0, None)


def test_a_lower_limit_holds_at_once_and_a_higher_one_is_climbed_to():
    point = ReactionPoint(SETTINGS, LINE_BPS)
    point.on_cnp(0)
    point.set_limit(1_000_000, 1)
    assert point.rate_bps == 1_000_000
    point.set_limit(LINE_BPS, 2)
    assert point.rate_bps == 1_000_000
    point.advance(2000 * MS)
    assert point.rate_bps == LINE_BPS


def test_slower_links_have_slower_timers_and_faster_ones_no_less_than_a_quarter():
    slow, fast, fastest = (DcqcnSettings.for_line_rate(bps) for bps in (10_000_000, 40_000_000, 10**9))
    assert (slow.cnp_interval_ns, slow.alpha_timer_ns, slow.increase_timer_ns) == (8 * MS, 10 * MS, 20 * MS)
    assert (fast.cnp_interval_ns, fast.alpha_timer_ns, fast.increase_timer_ns) == (2 * MS, 2_500_000, 5 * MS)
    assert (fastest.cnp_interval_ns, fastest.increase_timer_ns) == (MS, 2_500_000)


def test_the_settings_of_twenty_megabit_are_those_that_the_documents_name():
    assert SETTINGS._asdict() == {
        "cnp_interval_ns": 4 * MS,
        "alpha_timer_ns": 5 * MS,
        "increase_timer_ns": 10 * MS,
        "byte_counter_bytes": 900_000,
        "g": 1 / 16,
        "fast_recovery_stages": 5,
        "additive_increase_bps": 400_000,
        "hyper_increase_bps": 4_000_000,
        "minimum_rate_bps": 100_000,
    }


@given(st.lists(times, max_size=12), gaps, st.lists(times, min_size=1, max_size=12), st.integers(0, LINE_BPS))
@settings(max_examples=examples(60), deadline=None)
def test_a_floor_is_the_least_rate_of_a_queue_pair_of_its_own(cnps, packet_gaps, moments, floor):
    packets = [(sum(packet_gaps[: n + 1]), 4170) for n in range(len(packet_gaps))]
    least = max(floor, SETTINGS.minimum_rate_bps)
    assert ours(cnps, packets, moments, floor=floor) == ours(
        cnps, packets, moments, parameters=SETTINGS._replace(minimum_rate_bps=least)
    )
