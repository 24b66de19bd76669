"""Reads the switches' counters while a run lasts, in a thread of its own: waiting for flows must not wait for it."""

import threading
import time
from contextlib import suppress
from types import TracebackType

from mininet_topos.queues.model import QueueModel
from telemetry.counter_page import CounterSnapshot, TornReadError

PERIOD_S = 0.05
PATIENCE_S = 2.0


class CounterSampler:
    """Snapshots from `with` to its end, and the moment at which the run started.

    The last one is asked for when the run is over, so that it is complete.
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
        self._thread.join(PATIENCE_S)
        if kind is None:
            self.snapshots.append(self._queues.counters())

    def started(self, seconds_ago: float) -> None:
        """Take note of when the run started, as its progress tells it; the first word counts."""
        if self.start_unix_ns is None and seconds_ago > 0:
            self.start_unix_ns = time.time_ns() - int(seconds_ago * 1e9)

    def _sample(self) -> None:
        while not self._over.wait(PERIOD_S):
            with suppress(TornReadError):
                self.snapshots.append(self._queues.latest())
