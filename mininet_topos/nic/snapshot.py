"""A NIC's counters as a file that others may read at any time: replaced as a whole, never half written.

    {"nic", "host", "device", "line_rate_bps", "boot_id", "sequence", "timestamp_unix_ns",
     "counters": {name: value}, "requesters": [...], "responders": [...]}

Counters never go back while `boot_id` stays; the lists are the queue pairs that are open now.
"""

import json
import os
import time
from typing import Any


class Snapshot:
    """The file of one NIC; `path` "" means none."""

    def __init__(self, path: str, period_ns: int, **identity: Any) -> None:
        """Name the file; its directory must exist."""
        self.due_ns: float = 0.0 if path else float("inf")
        self._path, self._period_ns = path, period_ns
        self._content = {**identity, "boot_id": int.from_bytes(os.urandom(8), "big") >> 1}
        self._sequence = 0

    def write(self, now_ns: int, **content: Any) -> None:
        """Replace the file; where its directory is gone the lab is ending and there is nobody to tell."""
        self._sequence += 1
        self.due_ns = now_ns + self._period_ns
        whole = {**self._content, "sequence": self._sequence, "timestamp_unix_ns": time.time_ns(), **content}
        draft = f"{self._path}.new"
        try:
            with open(draft, "w") as file:
                file.write(json.dumps(whole, separators=(",", ":")))
            os.replace(draft, self._path)
        except FileNotFoundError:
            self.due_ns = float("inf")
