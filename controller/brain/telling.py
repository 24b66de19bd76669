"""Signals of the detector as lines of the event log."""

from controller.model.log_event import LogEvent
from telemetry.signal import Kind, Signal

_SEVERITY = {Kind.CONGESTION: "warning", Kind.PAUSING: "warning", Kind.SILENT: "warning"}
_MEASURED = {
    Kind.CONGESTION: "{:.1%} of packets are marked",
    Kind.PAUSING: "paused by PFC for {:.1%} of the time, or as many frames as that takes",
    Kind.STORM: "paused for {:.0%} of the time and sends nothing",
    Kind.DROP: "{:.0f} packets dropped in one period",
    Kind.SILENT: "no fresh sample for {:.1f} s",
}
_THRESHOLD = {Kind.DROP: "{:.0f} packets", Kind.SILENT: "{:.1f} s"}


def signal_event(signal: Signal, now_unix_ns: int) -> LogEvent:
    """Write a condition that was raised or cleared; `now_unix_ns` is when the detector looked."""
    threshold = _THRESHOLD.get(signal.kind, "{:.1%}").format(signal.threshold)
    measured = _MEASURED[signal.kind].format(signal.value)
    if signal.raised:
        severity, text = _SEVERITY.get(signal.kind, "error"), f"{measured} (threshold {threshold})"
    else:
        lasted = max(0, now_unix_ns - signal.since_unix_ns) / 1e9
        severity, text = "info", f"over after {lasted:.1f} s; now at most {threshold}"
    return LogEvent(
        timestamp_unix_ns=now_unix_ns,
        severity=severity,
        kind=f"{signal.kind}_{'raised' if signal.raised else 'cleared'}",
        subject=signal.subject,
        text=text,
    )
