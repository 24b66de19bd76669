"""Limit log lines by their kind, cause and peer, so that nothing that repeats can fill a disk; count the others.

A kind is a logger and a format string; the first value of a line is its peer, without a port number; its cause is the
rest, without numbers. Each of them may log a burst of lines and then some a minute. What is left out is summarised once
a minute: a line for each cause, with how often.
"""

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

PEER_BURST, PEER_PER_S = 20.0, 0.1
CAUSE_BURST, CAUSE_PER_S = 200.0, 1 / 3
KIND_BURST, KIND_PER_S = 400.0, 2.0
MAX_KEYS = 1_024
"""The kinds, causes and peers that are remembered; the one that was silent for the longest is forgotten first."""
MAX_SUMMARIES = 20
"""The causes with a summary of their own in a minute; a last line counts those of all others."""
SUMMARY_S = 60.0
MAX_CAUSE_LENGTH = 80
_PORT = re.compile(r"(?<=[\d\]]):\d+\b")
_NUMBER = re.compile(r"\d+")
_IS_SUMMARY = "is_summary"


class Allowance:
    """A token bucket."""

    __slots__ = ("since_s", "tokens")

    def __init__(self, burst: float, now_s: float) -> None:
        self.tokens, self.since_s = burst, now_s

    def refill(self, burst: float, per_s: float, now_s: float) -> None:
        """Add what the time since the last call allows."""
        self.tokens = min(burst, self.tokens + (now_s - self.since_s) * per_s)
        self.since_s = now_s


class _Key(NamedTuple):
    logger: str
    kind: str
    peer: str = ""
    cause: str = ""


class _LeftOut:
    """The lines of a cause that were not written since the last summary; `text` is the newest."""

    __slots__ = ("count", "level", "text")

    def __init__(self) -> None:
        self.count, self.level, self.text = 0, logging.INFO, ""


class LogLimit(logging.Filter):
    """A filter for a handler. `suppressed` counts all lines that were not written."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.suppressed = 0
        self._monotonic_s = monotonic_s
        self._known: OrderedDict[_Key, Allowance] = OrderedDict()
        self._left_out: dict[_Key, _LeftOut] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; count it for the next summary where it is not."""
        if hasattr(record, _IS_SUMMARY):
            return True
        now_s = self._monotonic_s()
        kind = _Key(record.name, str(record.msg))
        of_cause = kind._replace(cause=f"{_cause_of(record)} ")
        allowances = (
            self._allowance(kind, KIND_BURST, KIND_PER_S, now_s),
            self._allowance(of_cause, CAUSE_BURST, CAUSE_PER_S, now_s),
            self._allowance(kind._replace(peer=f"{_peer_of(record)} "), PEER_BURST, PEER_PER_S, now_s),
        )
        if any(each.tokens < 1 for each in allowances):
            self._leave_out(of_cause, record)
            return False
        for each in allowances:
            each.tokens -= 1
        return True

    def summarise(self) -> None:
        """Log what was left out since the last call: a line for each cause, by the loggers of the lines."""
        left_out, self._left_out = self._left_out, {}
        for key, lines in list(left_out.items()):  # another thread may add its last line
            text = f"{lines.text} … again {lines.count:,} times in the last minute"
            logging.getLogger(key.logger).log(lines.level, "%s", text, extra={_IS_SUMMARY: True})

    def _leave_out(self, cause: _Key, record: logging.LogRecord) -> None:
        self.suppressed += 1
        is_own = cause in self._left_out or len(self._left_out) < MAX_SUMMARIES
        lines = self._left_out.setdefault(cause if is_own else _Key(__name__, "others"), _LeftOut())
        lines.count += 1
        lines.level = max(lines.level, record.levelno)
        lines.text = record.getMessage() if is_own else "other lines that repeat"

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


def _cause_of(record: logging.LogRecord) -> str:
    """Return the other values of a line without numbers."""
    values = record.args
    others = values[1:] if isinstance(values, tuple) else ()
    return _NUMBER.sub("", " ".join(str(value) for value in others)[:MAX_CAUSE_LENGTH])
