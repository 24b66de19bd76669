"""What commands print beside their results."""

import io
import re
import sys

import pytest

from heddle.programs.console.show import MAX_FLOWS_SHOWN, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stderr(monkeypatch):
    """Replace standard error with the given file."""

    def replace(file: io.StringIO) -> io.StringIO:
        monkeypatch.setattr(sys, "stderr", file)
        return file

    return replace


def test_progress_is_one_line_where_there_is_no_terminal(stderr):
    file = stderr(io.StringIO())
    with progress("planning") as show:
        show("compiling kernels (1 so far)")
        show("compiling kernels (2 so far)")
    assert file.getvalue() == "heddle: compiling kernels\n"


def test_progress_without_news_prints_nothing_where_there_is_no_terminal(stderr):
    file = stderr(io.StringIO())
    with progress("planning"):
        pass
    assert file.getvalue() == ""


def test_progress_shows_each_text_on_a_terminal(stderr, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    file = stderr(Terminal())
    with progress("planning") as show:
        show("compiling kernels (1 so far)")
    assert "compiling kernels (1 so far)" in file.getvalue()


def test_the_table_shows_the_first_flows_and_counts_the_rest(heddle, files, tmp_path):
    job = "{job_id: all, ranks: {all: true}, collectives: [{kind: ALL_TO_ALL, bytes: 8}]}"
    jobs = files("all.yaml", f"version: 1\njobs: [{job}]\n")
    status, out, _ = heddle("plan", tmp_path / "fabric.yaml", jobs)
    assert status == 0
    assert len(re.findall(r"0/\d-\d/0", out)) == MAX_FLOWS_SHOWN
    assert f"and {8 * 7 - MAX_FLOWS_SHOWN} more; --json prints all of them" in out


def test_a_plan_over_full_links_says_how_many_flows_may_exceed_their_rates(heddle, files):
    fabric = files(
        "narrow.yaml", "version: 1\ngenerate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 4, gbps: 100}\n"
    )
    rings = [
        f"{{job_id: {name}, ranks: [{', '.join(f'h{n}-n0' for n in hosts)}],"
        " collectives: [{kind: RING_ALL_REDUCE, bytes: 8}]}"
        for name, hosts in (("a", (1, 5, 2, 6)), ("b", (3, 7, 4, 8)))
    ]
    jobs = files("rings.yaml", f"version: 1\njobs: [{', '.join(rings)}]\n")
    status, out, _ = heddle("plan", fabric, jobs)
    assert status == 0
    assert " ".join(out.split()).count("4 flows may exceed their rates, up to that of the NIC") == 2
