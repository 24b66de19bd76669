import io

import pytest
from rich.console import Console

from heddle.mininet_topos.demo.results.table import print_result
from tests.fakes.demo_results import demo_result, find, with_invalid_run

RESULT = demo_result()


def printed(result=RESULT, width=100, **console):
    out = io.StringIO()
    print_result(result, Console(file=out, width=width, **console))
    return out.getvalue()


def row(text, workload, mode):
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith(workload))
    return next(line for line in lines[start:] if f" {mode} " in line)


@pytest.mark.parametrize("width", [100, 80])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, printed(width=width).splitlines())) <= width


def test_at_100_columns_nothing_is_cut_short():
    assert "…" not in printed()


def test_at_80_columns_nothing_is_cut_short():
    assert "…" not in printed(width=80)


def test_a_row_shows_the_run_beside_its_prediction():
    run = find(RESULT, "permutation seed 1", "planned")
    found = row(printed(), "permutation 1", "planned")
    assert f"{run.sum_goodput_bps / 1e6:.1f}" in found
    assert f"{run.predicted.completion_ns / 1e9:.2f}/{run.completion_ns / 1e9:.2f}" in found
    assert "8/8" in found


def test_every_workload_has_a_row_for_every_mode():
    table = printed().split("Certificates")[0]
    assert [table.count(f" {mode} ") for mode in ("E-ECMP", "planned")] == [5, 5]


def test_an_invalid_run_says_so_in_place_of_a_ratio():
    broken = with_invalid_run(RESULT, "permutation seed 1", "planned", "7 packets are missing")
    assert "INVALID" in row(printed(broken), "permutation 1", "planned")


def test_the_seeds_are_printed():
    assert "seeds 1, 2, 3" in printed()


def test_the_pacing_note_is_printed():
    assert "max-min share" in printed()


def test_certificates_stand_beside_what_was_measured():
    assert "bound" in printed()


def test_no_color_is_honoured(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(force_terminal=True)
