"""What happened, as operators are told it: one line of the event log."""

from dataclasses import dataclass

NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One happening. `kind` is for machines (`congestion_raised`, `agent_offline`, `note`), `text` for people."""

    timestamp_unix_ns: int
    severity: str
    kind: str
    subject: str
    text: str
