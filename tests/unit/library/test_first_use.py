"""A program that calls the library learns on its terminal why a first call takes long, and its output stays its own."""

import io
import sys

import pytest

from heddle.kernels import cache
from heddle.library import (
    figures,  # noqa: F401  # which reports
    first_use,
)


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def none_compiled(monkeypatch):
    monkeypatch.setattr(first_use, "_compiled", [])


def begin_two() -> None:
    """Notify those that observe compilations of two kernels."""
    assert first_use.begins in cache._observers
    for name in ("first", "second"):
        for observer in cache._observers:
            observer(name)


def test_a_terminal_has_one_line_however_many_kernels_compile(monkeypatch):
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    begin_two()
    assert shown.getvalue() == f"{first_use.TEXT}\n"


@pytest.mark.parametrize("stderr", [io.StringIO(), None], ids=["a file", "none at all"])
def test_without_a_terminal_nothing_is_printed(monkeypatch, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    begin_two()
    assert stderr is None or not stderr.getvalue()
