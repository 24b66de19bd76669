"""Write a NIC's counters to a JSON file that other processes read; the file is replaced atomically.

    {"nic", "host", "device", "line_rate_bps", "boot_id", "sequence", "timestamp_unix_ns",
     "counters": {name: value}, "requesters": [...], "responders": [...]}

Counters never decrease while `boot_id` stays the same; the lists hold the queue pairs that are open now. While no
counter changes, the file is replaced every 0.4 s only, which a collector of ten samples a second does not yet report as
silence. A thread writes the file, because replacing a file on a disk takes milliseconds that would delay frames.
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
    """The counter file of one NIC; an empty `path` means none."""

    def __init__(self, path: str, period_ns: int, **identity: Any) -> None:
        """Set the file's path, whose directory must exist, and start the writer thread."""
        self.due_ns: float = 0.0 if path else NEVER
        self._path, self._period_ns = path, period_ns
        self._identity = {**identity, "boot_id": int.from_bytes(os.urandom(8), "big") >> 1}
        self._sequence = 0
        self._counters: dict[str, int] = {}
        self._written_ns: float = -NEVER
        self._texts: SimpleQueue[str] = SimpleQueue()
        if path:
            threading.Thread(target=self._replace, daemon=True).start()

    def write(self, now_ns: int, counters: dict[str, int], queue_pairs: Callable[[], dict[str, Any]]) -> None:
        """Queue a new version of the file if a counter has changed or 0.4 s have passed.

        It is skipped while the previous version still waits for the disk.
        """
        self.due_ns = now_ns + self._period_ns
        is_due = counters != self._counters or now_ns - self._written_ns >= KEEP_ALIVE_NS
        if not is_due or not self._texts.empty():
            return
        self._sequence += 1
        self._counters, self._written_ns = counters, now_ns
        moment = {"sequence": self._sequence, "timestamp_unix_ns": time.time_ns()}
        whole = {**self._identity, **moment, "counters": counters, **queue_pairs()}
        self._texts.put(json.dumps(whole, separators=(",", ":")))

    def _replace(self) -> None:
        """Write queued versions until the directory has been removed, which means that the lab is ending."""
        draft = f"{self._path}.new"
        try:
            while True:
                text = self._texts.get()
                with open(draft, "w") as file:
                    file.write(text)
                os.replace(draft, self._path)
        except FileNotFoundError:
            self.due_ns = NEVER
