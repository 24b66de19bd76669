"""A NIC's counters as a file that others may read at any time: replaced as a whole, never half written.

    {"nic", "host", "device", "line_rate_bps", "boot_id", "sequence", "timestamp_unix_ns",
     "counters": {name: value}, "requesters": [...], "responders": [...]}

Counters never go back while `boot_id` stays; the lists are the queue pairs that are open now. A thread writes the file:
replacing one takes milliseconds on a file system that puts its blocks on a disk first, and frames do not wait.
"""

import json
import os
import threading
import time
from queue import SimpleQueue
from typing import Any

NEVER = float("inf")


class Snapshot:
    """The file of one NIC; `path` "" means none."""

    def __init__(self, path: str, period_ns: int, **identity: Any) -> None:
        """Name the file; its directory must exist."""
        self.due_ns: float = 0.0 if path else NEVER
        self._path, self._period_ns = path, period_ns
        self._identity = {**identity, "boot_id": int.from_bytes(os.urandom(8), "big") >> 1}
        self._sequence = 0
        self._texts: SimpleQueue[str] = SimpleQueue()
        if path:
            threading.Thread(target=self._replace, daemon=True).start()

    def write(self, now_ns: int, **content: Any) -> None:
        """Have the file replaced, unless the one before still waits for the disk."""
        self.due_ns = now_ns + self._period_ns
        if self._texts.empty():
            self._sequence += 1
            moment = {"sequence": self._sequence, "timestamp_unix_ns": time.time_ns()}
            self._texts.put(json.dumps({**self._identity, **moment, **content}, separators=(",", ":")))

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
