"""Record audited calls with caller, request and outcome: an event of the log, and a line of the audit file."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from heddle.controller.model.log_event import AUDIT, LogEvent
from heddle.controller.runtime.telemetry import Telemetry

MAX_LENGTH = 400
"""The length in characters up to which a field is recorded."""
OK = "OK"
BEGUN = "BEGUN"
"""The outcome in the first line of a stream that lasts; another follows when it ends."""


class Entry(NamedTuple):
    """One call, from the address `at`, with no content of its request but the names of its subject.

    `outcome` is OK, a gRPC status code, or the kind of error over HTTP; `why` is the first line of its details.
    """

    who: str
    at: str
    what: str
    subject: str
    outcome: str
    why: str = ""


class Lines(Protocol):
    """Where lines of the audit trail are kept."""

    lost: int
    """How many could not be written."""

    def write(self, fields: dict[str, str]) -> None:
        """Write one line later; never blocks or raises."""


class Audit:
    """The audit trail of one controller; `lines` None keeps none beside the event log."""

    def __init__(self, telemetry: Telemetry, unix_ns: Callable[[], int], lines: Lines | None = None) -> None:
        self._telemetry, self._unix_ns, self._lines = telemetry, unix_ns, lines

    @property
    def lost(self) -> int:
        """Return how many lines could not be written."""
        return self._lines.lost if self._lines is not None else 0

    def record(self, entry: Entry, *, is_event: bool = True) -> None:
        """Record a call; `is_event` is whether it is published as an event too."""
        now_ns = self._unix_ns()
        entry = Entry(*(field[:MAX_LENGTH] for field in entry._replace(why=entry.why.partition("\n")[0])))
        if self._lines is not None:
            time = datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(timespec="microseconds")
            self._lines.write({"time": time, **entry._asdict()})
        if is_event:
            self._telemetry.publish_events((_event(entry, now_ns),))


def _event(entry: Entry, now_ns: int) -> LogEvent:
    reason = f": {entry.why}" if entry.why else ""
    method = entry.what.rpartition("/")[2]
    return LogEvent(
        timestamp_unix_ns=now_ns,
        severity="info" if entry.outcome in (OK, BEGUN) else "warning",
        kind=AUDIT,
        subject=entry.subject or method,
        text=f"{method} by {entry.who} ({entry.at}): {entry.outcome}{reason}",
    )
