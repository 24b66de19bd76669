"""Limit log lines by their kind and peer, so that no peer that reaches a port can fill a disk; count the others.

A kind is a logger and a format string; a peer is the first value of the line, without a port number. Each of them may
log a burst of lines and then one a second; all peers of a kind share a larger allowance. The next line that passes
names how many of its kind and peer did not.
"""

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

PEER_BURST, PEER_PER_S = 20.0, 1.0
KIND_BURST, KIND_PER_S = 200.0, 10.0
MAX_KEYS = 1_024
"""The kinds and peers that are remembered; the one that was silent for the longest is forgotten first."""
_PORT = re.compile(r"(?<=[\d\]]):\d+\b")


class Allowance:
    """A token bucket, and how many lines it has refused since the last that passed."""

    __slots__ = ("refused", "since_s", "tokens")

    def __init__(self, burst: float, now_s: float) -> None:
        self.tokens, self.since_s, self.refused = burst, now_s, 0

    def refill(self, burst: float, per_s: float, now_s: float) -> None:
        """Add what the time since the last call allows."""
        self.tokens = min(burst, self.tokens + (now_s - self.since_s) * per_s)
        self.since_s = now_s


class _Key(NamedTuple):
    logger: str
    kind: str
    peer: str


class LogLimit(logging.Filter):
    """A filter for a handler. `suppressed` counts all lines that were not written."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.suppressed = 0
        self._monotonic_s = monotonic_s
        self._known: OrderedDict[_Key, Allowance] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; append how many like it were not."""
        now_s = self._monotonic_s()
        of_kind = _Key(record.name, str(record.msg), "")
        kind = self._allowance(of_kind, KIND_BURST, KIND_PER_S, now_s)
        peer = self._allowance(of_kind._replace(peer=f"{_peer_of(record)} "), PEER_BURST, PEER_PER_S, now_s)
        if kind.tokens < 1 or peer.tokens < 1:
            peer.refused += 1
            self.suppressed += 1
            return False
        kind.tokens -= 1
        peer.tokens -= 1
        if peer.refused:
            record.msg, record.args = f"{record.getMessage()} ({peer.refused} more like this were not logged)", ()
            peer.refused = 0
        return True

    def _allowance(self, key: _Key, burst: float, per_s: float, now_s: float) -> Allowance:
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_KEYS:
                self._known.popitem(last=False)
            found = self._known[key] = Allowance(burst, now_s)
        self._known.move_to_end(key)
        found.refill(burst, per_s, now_s)
        return found


def _peer_of(record: logging.LogRecord) -> str:
    """Return the first value of a line without port numbers: each connection of a peer has another."""
    values = record.args
    first = values[0] if isinstance(values, tuple) and values else ""
    return _PORT.sub("", str(first))
