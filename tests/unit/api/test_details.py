"""The details of an error: a line for each problem, as many as fit a trailer."""

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.api.errors import MAX_DETAILS_BYTES, MAX_LINES, details_of


def test_each_problem_is_a_line():
    assert details_of("vni: 0 is too low\nid: too long") == "vni: 0 is too low\nid: too long"


def test_lines_past_the_limit_are_counted():
    lines = details_of("\n".join(f"problem {i}" for i in range(50))).splitlines()
    assert lines == [*(f"problem {i}" for i in range(MAX_LINES)), f"and {50 - MAX_LINES} more"]


def test_a_line_longer_than_a_trailer_is_cut():
    assert details_of("x" * 100_000).endswith("x...")


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=400), max_size=60))
def test_details_of_any_text_fit_a_trailer(lines):
    written = quote(details_of("\n".join(lines)), safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}~")
    assert len(written) <= MAX_DETAILS_BYTES


@given(st.lists(st.text("ab%é", min_size=1, max_size=3_000), min_size=1, max_size=60))
def test_no_problem_is_left_out_without_being_counted(lines):
    *shown, last = details_of("\n".join(lines)).splitlines()
    missing = int(last.split()[1]) if last.startswith("and ") else 0
    assert len(shown) + (0 if missing else 1) + missing == len(lines)
