"""A NIC's counters as a file that others may read at any time: replaced as a whole, never half written.

    {"nic", "host", "device", "line_rate_bps", "boot_id", "sequence", "timestamp_unix_ns",
     "counters": {name: value}, "requesters": [...], "responders": [...]}

Counters never go back while `boot_id` stays; the lists are the queue pairs that are open now. While nothing is counted
the file is replaced every 0.4 s only, which is no silence yet to a collector of ten samples a second. A thread writes
the file: to replace one takes milliseconds where its blocks are put on a disk first, and frames do not wait for that.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

NEVER = float("inf")
KEEP_ALIVE_NS = 400_000_000


class Snapshot:
    """The file of one NIC; `path` "" means none."""

    def __init__(self, path: str, period_ns: int, **identity: Any) -> None:
        """Name the file; its directory must exist."""
        self.due_ns: float = 0.0 if path else NEVER
        self._path, self._period_ns = path, period_ns
        self._identity = {**identity, "boot_id": int.from_bytes(os.urandom(8), "big") >> 1}
        self._sequence = 0
        self._counters: dict[str, int] = {}
        self._said_ns: float = -NEVER
        self._texts: SimpleQueue[str] = SimpleQueue()
        if path:
            threading.Thread(target=self._replace, daemon=True).start()

    def write(self, now_ns: int, counters: dict[str, int], queue_pairs: Callable[[], dict[str, Any]]) -> None:
        """Have the file replaced where there is news, unless the one before still waits for the disk."""
        self.due_ns = now_ns + self._period_ns
        news = counters != self._counters or now_ns - self._said_ns >= KEEP_ALIVE_NS
        if not news or not self._texts.empty():
            return
        self._sequence += 1
        self._counters, self._said_ns = counters, now_ns
        moment = {"sequence": self._sequence, "timestamp_unix_ns": time.time_ns()}
        whole = {**self._identity, **moment, "counters": counters, **queue_pairs()}
        self._texts.put(json.dumps(whole, separators=(",", ":")))

    def _replace(self) -> None:
        """Write what comes, until the directory is gone: then the lab is ending, and there is nobody to tell."""
        draft = f"{self._path}.new"
        try:
            while True:
                text = self._texts.get()
                with open(draft, "w") as file:
                    file.write(text)
                os.replace(draft, self._path)
        except FileNotFoundError:
            self.due_ns = NEVER
