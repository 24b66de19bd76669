"""A test that failed while the host took processor time away, or beside another, runs again; other failures count."""

import os
import threading
import time
from pathlib import Path

import pytest

from tests.support import disturbed
from tests.support.disturbed import MIN_STOLEN_S, TRIES, machine, stolen_s

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from tests.e2e.conftest import pytest_report_teststatus, pytest_runtest_protocol
from tests.support import disturbed

clock_s = iter({readings})
disturbed.stolen_s = lambda: next(clock_s)
disturbed.LOCK = disturbed.Path({lock!r})

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
    pytester.makeconftest(CONFTEST.format(root=str(ROOT), readings=readings, lock=str(pytester.path / "machine")))
    pytester.makepyfile(FAILS.format(failures=failures))
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "xdist", *options).parseoutcomes()


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch):
    """Let a run load the plugins that it names: the others take more than half of its time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


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


def test_a_failure_beside_another_worker_runs_again_with_the_machine_to_itself_and_then_counts(pytester):
    readings = [5.0] * 2 * TRIES
    assert outcomes(pytester, readings, 1, "-n", "2") == {"disturbed": 1, "passed": 1}
    assert outcomes(pytester, readings, 2, "-n", "2") == {"disturbed": 1, "failed": 1}


def test_who_waits_for_the_machine_has_it_by_itself_before_others_come(monkeypatch, tmp_path):
    monkeypatch.setattr(disturbed, "LOCK", tmp_path / "machine")
    order, first_is_there, first_may_go = [], threading.Event(), threading.Event()

    def first():
        with machine(by_itself=False):
            first_is_there.set()
            first_may_go.wait(20)
            order.append("first ends")

    def use(name, by_itself):
        with machine(by_itself=by_itself):
            order.append(f"{name} begins")
            order.append(f"{name} ends")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert first_is_there.wait(20)
    for name, by_itself in (("alone", True), ("later", False)):
        threads.append(threading.Thread(target=use, args=(name, by_itself)))
        threads[-1].start()
        time.sleep(0.1)
    assert order == []
    first_may_go.set()
    for thread in threads:
        thread.join(20)
    assert order[:3] == ["first ends", "alone begins", "alone ends"]


def test_stolen_time_is_the_eighth_number_of_the_line_of_all_processors():
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    assert lines[0][0] == "cpu"
    of_each = sum(int(line[8]) for line in lines[1:]) / os.sysconf("SC_CLK_TCK")
    assert stolen_s() == pytest.approx(of_each, abs=1)
