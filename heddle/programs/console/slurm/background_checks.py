"""Run the agent's background checks in a thread: a command of Slurm that hangs for a minute keeps no pass waiting.

While a pass waits, so do the hooks of jobs that start, and leases may end.
"""

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from heddle.controller.model.error import HeddleError
from heddle.programs.console.slurm.drainer import PERIOD_S, Drainer
from heddle.programs.console.slurm.planned_jobs import PlannedJobs
from heddle.programs.console.slurm.topology_keeper import TopologyKeeper

END_TIMEOUT_S = 10.0


class BackgroundChecks:
    """A thread that keeps a topology file and drains nodes, and does nothing while passes fail.

    Each check has a connection of its own, and so the fabric of that moment.
    """

    def __init__(
        self, server: str, keeper: TopologyKeeper | None, drainer: Drainer | None, is_failing: Callable[[], bool]
    ) -> None:
        self._server = server
        self._keeper = keeper
        self._drainer = drainer
        self._is_failing = is_failing
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def raise_error(self) -> None:
        """Raise what ended the thread: an agent that goes on without it would do less than it seems to."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End after the check that runs; one that hangs is left to the end of the process."""
        self._ended.set()
        self._thread.join(END_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while not self._ended.is_set() and (self._keeper or self._drainer):
                if not self._is_failing():
                    self._check()
                self._ended.wait(PERIOD_S)
        except Exception as error:  # raised by the thread of the passes
            self._error = error

    def _check(self) -> None:
        with suppress(HeddleError), closing(PlannedJobs(self._server, 0)) as jobs:  # the next pass says why
            if self._keeper is not None:
                self._keeper.keep(jobs.fabric(), time.monotonic())
            if self._drainer is not None:
                self._drainer.check(jobs, time.monotonic())
