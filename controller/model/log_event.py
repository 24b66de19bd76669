"""Define a line of the event log."""

from dataclasses import dataclass

NOTE = "note"
AUDIT = "audit"
"""A call that changes something: its caller and its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One event. `kind` is for programs (`congestion_raised`, `agent_offline`, `note`), `text` for people."""

    timestamp_unix_ns: int
    severity: str
    kind: str
    subject: str
    text: str
