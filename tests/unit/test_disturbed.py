"""A test that failed while the host took processor time away runs again; any other failure counts."""

import os
from pathlib import Path

import pytest

from tests.support.disturbed import MIN_STOLEN_S, TRIES, stolen_s

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests.e2e.conftest import pytest_report_teststatus, pytest_runtest_protocol
from tests.support import disturbed

clock_s = iter({readings})
disturbed.stolen_s = lambda: next(clock_s)

def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures the whole machine")
"""
FAILS = """
import pytest
pytestmark = pytest.mark.alone
tries = []

@pytest.fixture(scope="module", autouse=True)
def opened():
    tries.append("opened")

def test_of_the_machine(opened):
    tries.append("try")
    assert tries.count("try") > {failures}
"""


def outcomes(pytester: pytest.Pytester, readings: list[float], failures: int, *options: str) -> dict[str, int]:
    """Run a test that fails so many times first, beside a clock of stolen seconds with these readings."""
    pytester.makeconftest(CONFTEST.format(root=str(ROOT), readings=readings))
    pytester.makepyfile(FAILS.format(failures=failures))
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options).parseoutcomes()


LITTLE, MUCH = MIN_STOLEN_S / 2, MIN_STOLEN_S * 2


def test_a_failure_counts_at_once_where_little_was_stolen(pytester):
    assert outcomes(pytester, [5.0, 5.0 + LITTLE], failures=1) == {"failed": 1}


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_a_disturbed_failure_runs_again_and_the_next_try_counts(pytester, options):
    readings = [5.0, 5.0 + MUCH, 9.0, 9.0 + MUCH]
    assert outcomes(pytester, readings, 1, *options) == {"disturbed": 1, "passed": 1}


def test_an_undisturbed_failure_after_a_disturbed_one_counts(pytester):
    assert outcomes(pytester, [5.0, 5.0 + MUCH, 9.0, 9.0], failures=2) == {"disturbed": 1, "failed": 1}


def test_a_test_that_is_always_disturbed_fails_in_the_end(pytester):
    readings = [number * MUCH for number in range(2 * TRIES)]
    assert outcomes(pytester, readings, failures=TRIES) == {"disturbed": TRIES - 1, "failed": 1}


def test_stolen_time_is_the_eighth_number_of_the_line_of_all_processors():
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    assert lines[0][0] == "cpu"
    of_each = sum(int(line[8]) for line in lines[1:]) / os.sysconf("SC_CLK_TCK")
    assert stolen_s() == pytest.approx(of_each, abs=1)
