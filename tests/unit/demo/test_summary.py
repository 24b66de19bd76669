from dataclasses import replace

import pytest

from heddle.mininet_topos.demo.results.summary import rate_text, ratio, scale_note, summary_lines
from heddle.mininet_topos.measure.flow_run import balance_text
from tests.fakes.demo_results import demo_result, find, with_invalid_run
from tests.fakes.demo_scenes import BUSY, HOLDS, LATE, scene

RESULT = demo_result()


def slowed(result, mode, factor):
    """Return the result with every flow of a mode slower by a factor."""
    runs = [
        replace(run, flows=tuple(replace(flow, goodput_bps=flow.goodput_bps / factor) for flow in run.flows))
        if run.mode == mode
        else run
        for run in result.runs
    ]
    return replace(result, runs=tuple(runs))


def test_the_ratio_is_of_the_sums_of_goodput():
    planned, ecmp = (find(RESULT, "permutation seed 1", mode) for mode in ("planned", "ecmp"))
    expected = planned.sum_goodput_bps / ecmp.sum_goodput_bps
    assert ratio(RESULT, "permutation seed 1", "planned", "ecmp") == expected


def test_an_invalid_run_is_compared_with_nothing():
    broken = with_invalid_run(RESULT, "permutation seed 1", "ecmp", "7 packets are missing")
    assert ratio(broken, "permutation seed 1", "planned", "ecmp") is None


def test_an_invalid_run_is_named_with_its_reason():
    broken = with_invalid_run(RESULT, "ring seed 1", "planned", "7 packets are missing")
    assert "INVALID, not compared: ring seed 1, planned: 7 packets are missing" in summary_lines(broken)


def test_where_ecmp_does_just_as_well_the_summary_says_so():
    assert "ring: ECMP does just as well (1.00x the goodput)" in summary_lines(RESULT)


def test_several_seeds_are_summed_up_by_geometric_mean_median_and_extremes():
    (line, _) = [line for line in summary_lines(RESULT) if line.startswith("permutation (3 seeds)")]
    assert "against ECMP" in line
    assert all(word in line for word in ("geometric mean", "median", " to "))


def test_a_speed_up_below_one_is_reported_as_it_is():
    lines = summary_lines(slowed(RESULT, "planned", 2.0))
    assert any(line.startswith("permutation (3 seeds): planned against E-ECMP: 0.") for line in lines)


def test_planned_paths_are_summed_up_over_all_runs():
    assert "paths, planned: 88/88 flows counted on exactly the planned links" in summary_lines(RESULT)


def test_what_a_busy_machine_could_not_show_is_named_last():
    late = scene(HOLDS, LATE, machine=BUSY)
    runs = tuple(replace(run, machine=BUSY) for run in with_invalid_run(RESULT, "ring seed 1", "planned", "late").runs)
    lines = summary_lines(replace(RESULT, runs=runs, scenes=(scene(HOLDS), late)))
    busy = "this machine was busy (other programs used 1.4 of 2 processors"
    assert lines[-3] == "scenes: 1 of 2 shown"
    assert lines[-2].startswith(f"not shown: ring seed 1, planned: {busy}")
    assert lines[-1].startswith(f"not shown: scene cut: {busy}")


def test_a_run_that_was_repeated_is_named():
    runs = (replace(RESULT.runs[0], attempts=2), *RESULT.runs[1:])
    lines = summary_lines(replace(RESULT, runs=runs))
    assert lines[-1] == "repeated once because the first attempt was invalid: permutation seed 1 ECMP"


def test_counts_that_do_not_balance_do_not_read_as_an_equation():
    assert balance_text(10, 9, 1) == "NIC tx 10 = NIC rx 9 + counted drops 1"
    assert "≠" in balance_text(10, 9, 0)


def test_the_scale_says_what_the_emulated_rate_stands_for():
    assert "20 Mbit/s stands for 100 Gbit/s (1:5,000 in rate)" in scale_note(20_000_000)


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (20_000_000, "20 Mbit/s"),
        (12_500_000, "12.5 Mbit/s"),
        (100e9, "100 Gbit/s"),
        (64_000, "64 kbit/s"),
        (5, "5 bit/s"),
    ],
)
def test_rates_are_written_with_the_unit_that_fits(rate, text):
    assert rate_text(rate) == text
