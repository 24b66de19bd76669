"""Runs a test of the whole machine again if it failed while the host took processor time away.

A lab keeps its pace in real time. A virtual machine that stands still for 50 ms lets packets come late and in bursts,
which fill queues that the test demands empty. Linux counts such time as stolen (proc_stat(5)); on a machine of its own
nothing is stolen, and nothing runs again.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

TRIES = 4
MIN_STOLEN_S = 0.05
"""A quiet machine loses 1 ms a second. An unpaced burst of 50 ms overflows the pause threshold of a port."""
OUTCOME = "disturbed"


def stolen_s() -> float:
    """Return how long the host has run something else on these processors since the start, in seconds."""
    totals = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(totals[8]) / os.sysconf("SC_CLK_TCK")


def tries_of(
    attempt: Callable[[], list[pytest.TestReport]], stolen: Callable[[], float]
) -> Iterator[list[pytest.TestReport]]:
    """Yield the reports of each try, the last of which counts; reports of a disturbed failure are marked as such."""
    for left in reversed(range(TRIES)):
        before_s = stolen()
        reports = attempt()
        lost_s = stolen() - before_s
        failed = [report for report in reports if report.failed]
        if not (left and failed and lost_s >= MIN_STOLEN_S):
            yield reports
            return
        for report in failed:
            report.outcome = OUTCOME  # type: ignore[assignment]
            report.sections.append(("Host", f"took {1000 * lost_s:.0f} ms of processor time; the test runs again"))
        yield failed


def run_undisturbed(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test until it passes, or fails undisturbed, or has failed in all tries."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for reports in tries_of(lambda: runtestprotocol(item, log=False, nextitem=nextitem), stolen_s):
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
