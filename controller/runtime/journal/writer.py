"""Write durable values in a thread: what comes while one transaction is written is the next one (group commit).

After a failure the values stay, and are written with later ones as soon as that succeeds.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from heddle.controller.brain.state import Job
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.runtime.journal import jobs, values
from heddle.controller.runtime.ports import StateStore, StoreError

RETRY_S = 1.0
"""After a failure, and while there is nothing to write, the store is tried so often."""
CLOSE_S = 5.0
_LOG = logging.getLogger("heddle.journal")
Key = tuple[str, str]
Written = Callable[[int, str], None]
"""Called in the thread with the number of the last request that was tried, and why it failed ("": it is durable)."""


class JournalWriter:
    """The thread that owns a store. `write` never blocks; `written` counts transactions, `values` what they held."""

    def __init__(self, store: StateStore, topology: Topology, on_written: Written) -> None:
        self.store = store
        self.written = self.failed = self.values = 0
        self._topology, self._on_written = topology, on_written
        self._waiting: dict[Key, object] = {}
        self._unwritten: dict[Key, bytes | None] = {}
        self._last = 0
        self._closing = False
        self._failure = ""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, found: Mapping[Key, object]) -> int:
        """Write values later, in order; return the number of this request."""
        with self._changed:
            self._waiting |= found
            self._last += 1
            self._changed.notify()
            return self._last

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt to write failed."""
        return bool(self._failure)

    def close(self) -> None:
        """Write what waits and close the store; gives up after CLOSE_S."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        closing = False
        while not closing:
            with self._changed:
                if not self._waiting and not self._closing:
                    self._changed.wait(RETRY_S)
                taken, self._waiting = self._waiting, {}
                last, closing = self._last, self._closing
            self._write(taken, last)
        self.store.close()

    def _write(self, taken: Mapping[Key, object], last: int) -> None:
        try:
            for key, value in taken.items():
                self._unwritten[key] = None if value is None else self._encoded(value)
            if self._unwritten:
                self.store.write(self._unwritten)
                self.written += 1
                self.values += len(self._unwritten)
            else:
                self.store.check()
        except StoreError as error:
            self._failed(str(error), last)
        except Exception as fault:
            _LOG.exception("a fault of the controller in the journal")
            self._failed(f"{self.store.place}: a fault of the controller: {fault!r}", last)
        else:
            self._unwritten = {}
            if self._failure:
                _LOG.warning("journal: %s is written again", self.store.place)
            if taken or self._failure:
                self._failure = ""
                self._on_written(last, "")

    def _failed(self, why: str, last: int) -> None:
        self.failed += 1
        if not self._failure:
            _LOG.error("journal: %s; new work is refused until it can be written, what runs goes on", why)
        self._failure = why
        self._on_written(last, why)

    def _encoded(self, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        return jobs.encode(self._topology, value) if isinstance(value, Job) else values.encode(value)
