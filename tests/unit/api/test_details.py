"""The details of a refusal: a line a problem, as many as a trailer holds."""

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from controller.api.errors import MAX_DETAILS_BYTES, MAX_LINES, details_of


def test_each_problem_is_a_line():
    assert details_of("vni: 0 is too low\nid: too long") == "vni: 0 is too low\nid: too long"


def test_what_is_more_than_a_person_reads_is_counted():
    lines = details_of("\n".join(f"problem {i}" for i in range(50))).splitlines()
    assert lines == [*(f"problem {i}" for i in range(MAX_LINES)), f"and {50 - MAX_LINES} more"]


def test_a_line_that_no_trailer_holds_is_cut():
    assert details_of("x" * 100_000).endswith("x...")


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=400), max_size=60))
def test_details_fit_a_trailer_whatever_they_hold(lines):
    written = quote(details_of("\n".join(lines)), safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}~")
    assert len(written) <= MAX_DETAILS_BYTES


@given(st.lists(st.text("ab%é", min_size=1, max_size=3_000), min_size=1, max_size=60))
def test_no_problem_is_left_out_without_being_counted(lines):
    *shown, last = details_of("\n".join(lines)).splitlines()
    missing = int(last.split()[1]) if last.startswith("and ") else 0
    assert len(shown) + (0 if missing else 1) + missing == len(lines)
