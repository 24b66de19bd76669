"""Runs a test of the whole machine again if it failed while the host took processor time away, or beside another.

A lab keeps its pace in real time. A virtual machine that stands still for 50 ms lets packets come late and in bursts,
which fill queues that the test demands empty. Linux counts such time as stolen (proc_stat(5)). Two of these tests run
at a time, since most leave a core idle; one that fails beside another is decided by a run with the machine to itself.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

TRIES = 4
MIN_STOLEN_S = 0.05
"""A quiet machine loses 1 ms a second. An unpaced burst of 50 ms overflows the pause threshold of a port."""
OUTCOME = "disturbed"
LOCK = Path(tempfile.gettempdir()) / "heddle-tests-of-the-machine"
"""Files with this name and a suffix are locked by the test runs of this machine."""


def stolen_s() -> float:
    """Return how long the host has run something else on these processors since the start, in seconds."""
    totals = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(totals[8]) / os.sysconf("SC_CLK_TCK")


@contextmanager
def machine(*, by_itself: bool) -> Iterator[None]:
    """Hold the machine beside other tests, or by itself; who waits for the latter is next."""
    with LOCK.with_suffix(".gate").open("w") as gate, LOCK.with_suffix(".lock").open("w") as lock:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if by_itself else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def tries_of(
    attempt: Callable[[bool], list[pytest.TestReport]], stolen: Callable[[], float], workers: int
) -> Iterator[list[pytest.TestReport]]:
    """Yield the reports of each try, the last of which counts; reports of a disturbed failure are marked as such.

    `attempt` takes whether the test is to have the machine to itself, as it has in all tries but the first.
    """
    for left in reversed(range(TRIES)):
        by_itself = left < TRIES - 1
        before_s = stolen()
        reports = attempt(by_itself)
        lost_s = stolen() - before_s
        failed = [report for report in reports if report.failed]
        beside = workers > 1 and not by_itself
        if not (left and failed and (lost_s >= MIN_STOLEN_S or beside)):
            yield reports
            return
        why = f"the host took {1000 * lost_s:.0f} ms of processor time{', and another test ran beside it' * beside}"
        for report in failed:
            report.outcome = OUTCOME  # type: ignore[assignment]
            report.sections.append(("Disturbed", f"{why}; the test runs again"))
        yield failed


def run_undisturbed(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Run a test until it passes, or fails undisturbed, or has failed in all tries."""

    def attempt(by_itself: bool) -> list[pytest.TestReport]:
        with machine(by_itself=by_itself):
            return runtestprotocol(item, log=False, nextitem=nextitem)

    workers = getattr(item.config, "workerinput", {"workercount": 1})["workercount"]
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for reports in tries_of(attempt, stolen_s, workers):
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
