"""A pytest plugin that records which tests run which lines: coverage.py with one context for each test.

    HEDDLE_COVERED=FILES HEDDLE_COVERAGE=OUT.json pytest -p tests.support.mutants.covering ...

FILES are patterns of the source files, separated by colons. A line that runs at import has the context "". A line that
runs in a process that a test starts has none.
"""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

_RECORDER = pytest.StashKey["_Recorder"]()


class _Recorder:
    """The running coverage measurement and what each test took."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(data_file=None, include=os.environ["HEDDLE_COVERED"].split(":"))
        self.coverage.start()
        self.tests: dict[str, dict[str, Any]] = {}

    def write(self, path: Path) -> None:
        """Write the tests with their times and, for each file and line, the numbers of the tests that ran it."""
        self.coverage.stop()
        numbers = {name: number for number, name in enumerate(self.tests)}
        data = self.coverage.get_data()
        lines = {
            str(Path(file).relative_to(Path.cwd())): {
                str(line): sorted(numbers[name] for name in names if name in numbers)
                for line, names in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        path.write_text(json.dumps({"tests": list(self.tests.values()), "lines": lines}))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before a conftest imports what is measured."""
    early_config.stash[_RECORDER] = _Recorder()


def _processor_s() -> float:
    """Return the processor time of this process and of its children that ended, in seconds."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Attribute what runs for a test to it, its fixtures included."""
    recorder = item.config.stash[_RECORDER]
    entry = recorder.tests.setdefault(item.nodeid, {"name": item.nodeid, "passed": True})
    began, began_cpu = time.monotonic(), _processor_s()
    recorder.coverage.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        recorder.coverage.switch_context("")
        entry.update(wall_s=time.monotonic() - began, cpu_s=_processor_s() - began_cpu)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note tests that fail without any fault: they cannot find one."""
    report = yield
    if not report.passed:
        item.config.stash[_RECORDER].tests[item.nodeid]["passed"] = False
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the map."""
    session.config.stash[_RECORDER].write(Path(os.environ["HEDDLE_COVERAGE"]))
