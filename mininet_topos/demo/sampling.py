"""Sample the switches' counters during a run, in a thread of its own that does not delay the run."""

import threading
import time
from contextlib import suppress
from types import TracebackType

from heddle.mininet_topos.switches.queue_model import QueueModel
from heddle.telemetry.counter_page import CounterSnapshot, TornReadError

PERIOD_S = 0.05
JOIN_TIMEOUT_S = 2.0


class CounterSampler:
    """Counter snapshots during a `with` block, and the start time of the run in it.

    The last snapshot is requested from the daemon after the run, so that it includes everything.
    """

    def __init__(self, queues: QueueModel) -> None:
        """Sample a lab's queues."""
        self._queues = queues
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="counter sampler", daemon=True)
        self.snapshots: list[CounterSnapshot] = []
        self.start_unix_ns: int | None = None

    def __enter__(self) -> "CounterSampler":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(JOIN_TIMEOUT_S)
        if kind is None:
            self.snapshots.append(self._queues.counters())

    def started(self, seconds_ago: float) -> None:
        """Record the start time of the run from its first progress report; later reports have no effect."""
        if self.start_unix_ns is None and seconds_ago > 0:
            self.start_unix_ns = time.time_ns() - int(seconds_ago * 1e9)

    def _sample(self) -> None:
        while not self._over.wait(PERIOD_S):
            with suppress(TornReadError):
                self.snapshots.append(self._queues.latest())
