import io
from dataclasses import replace

from rich.console import Console

from heddle.mininet_topos.demo.results.strips import axis_line, columns, mark_line, strip, strip_lines
from heddle.mininet_topos.demo.results.table import print_result
from heddle.mininet_topos.traffic.cast import Mark
from tests.fakes.demo_results import demo_result
from tests.fakes.demo_scenes import BUSY, FAILS, HOLDS, LATE, attempt, scene

RESULT = demo_result(seeds=(1,))


def mark(at_ms, text="x"):
    return Mark(at_ns=at_ms * 1_000_000, kind="decision", text=text)


def test_a_strip_shows_eighths_of_its_top():
    assert strip([0, 1, 4, 8], 8) == " ▁▄█"


def test_a_strip_without_any_goodput_is_blank():
    assert strip([0, 0], 0) == "  "


def test_columns_are_means_of_whole_steps():
    assert columns([1, 3, 5, 7, 9], 2) == [2, 6]


def test_a_mark_is_at_the_column_of_its_time_and_one_at_the_same_time_beside_it():
    assert mark_line([mark(100), mark(120), mark(300)], 50_000_000, 20) == "  12  3"


def test_the_axis_is_labelled_every_half_second():
    assert axis_line(24, 50_000_000) == "|0.0 s    |0.5 s    |1.0"


def test_every_line_of_a_scene_fits_the_width():
    long = replace(scene().runs[0], marks=(mark(1000, "congested: " + "leaf1:1>spine1:1 " * 20),))
    for width in (60, 100):
        lines = strip_lines(replace(scene(), runs=(long, scene().runs[1])), width)
        assert max(map(len, lines)) <= width


def test_a_scene_has_a_strip_per_run_the_text_of_every_mark_and_its_verdict():
    lines = strip_lines(scene(HOLDS, FAILS), 100)
    (planned,) = [line for line in lines if line.startswith("planned  ")]
    assert planned == "planned  " + "█" * 20 + " " * 4 + "▆" * 36
    assert "  3  1.07 s  controller: job: link leaf1:1>spine1:1 down; 2 flows moved" in lines
    assert lines[-2:] == ["holds: all flows left the cable", "DOES NOT HOLD: 2 flows of 4 moved"]


def test_a_scene_that_a_busy_machine_could_not_show_says_so_with_the_figures_and_is_no_failure():
    lines = strip_lines(scene(HOLDS, LATE, machine=BUSY), 300)
    assert lines[-3:] == [
        "holds: all flows left the cable",
        "missed: at their rates after 2.95 s (limit 2 s)",
        "NOT SHOWN: this machine was busy (other programs used 1.4 of 2 processors, NICs woke up to 84 ms late, 8% of"
        " the time in all); 1 attempts; the controller decided as it should",
    ]
    assert "DOES NOT HOLD: at their rates after 2.95 s (limit 2 s)" in strip_lines(scene(HOLDS, LATE), 300)


def test_a_hog_that_filled_no_link_is_not_said_to_have_been_decided_on():
    starved = replace(scene(FAILS), attempts=(attempt(FAILS, machine=BUSY, caused=False),))
    assert strip_lines(starved, 400)[-1].endswith("1 attempts; nothing it had to react to arrived")


def test_a_scene_at_a_lower_rate_than_the_first_says_so():
    high, low = attempt(LATE, machine=BUSY), replace(attempt(HOLDS), line_rate_bps=12_000_000)
    assert "; links at 12 Mbit/s" in strip_lines(replace(scene(HOLDS), attempts=(high, low)), 300)[0]
    assert "; links at" not in strip_lines(scene(HOLDS), 300)[0]


def test_the_scenes_are_printed_below_the_tables():
    console = Console(width=100, record=True, file=io.StringIO())
    print_result(replace(RESULT, scenes=(scene(),)), console)
    assert "Scene cut: A cable is cut. Goodput of all flows" in console.export_text()
