"""What end-to-end tests of several files need."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.disturbed import OUTCOME, run_undisturbed


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A registry of labs of the test's own: what it leaves behind is not cleared by a lab that starts elsewhere."""
    with tempfile.TemporaryDirectory(prefix="hdrun") as folder:  # short: socket paths have a limit
        monkeypatch.setenv("HEDDLE_RUN_DIR", folder)
        yield Path(folder)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Repeat a test of the whole machine that failed while the host had taken processor time away."""
    if item.get_closest_marker("alone") is None:
        return None
    run_undisturbed(item, nextitem)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show a failure that does not count."""
    return (OUTCOME, "D", "DISTURBED") if report.outcome == OUTCOME else None
