"""Events and decisions of the log."""

from controller.dashboard.documents.shapes import TimelineEvent
from controller.model.log_event import LogEvent


def event_document(event: LogEvent) -> TimelineEvent:
    """Return one event."""
    return {
        "at_ms": event.timestamp_unix_ns // 1_000_000,
        "kind": event.kind,
        "severity": event.severity,
        "subject": event.subject,
        "text": event.text,
    }
