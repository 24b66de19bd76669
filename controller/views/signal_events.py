"""Turn the detector's signals into lines of the event log.

There is one line for each condition. Ports that fall silent or report again in the same scan have one line for each
switch or host, because a dead agent silences all of its ports.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from heddle.controller.model.log_event import LogEvent
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.telemetry.samples.ports import PortTable

_SEVERITY = dict.fromkeys(
    (SignalKind.CONGESTION, SignalKind.PAUSING, SignalKind.SILENT, SignalKind.LOSS, SignalKind.SLOW), "warning"
)
_MEASURED = {
    SignalKind.CONGESTION: "{:.1%} of packets are marked",
    SignalKind.PAUSING: "paused by PFC for {:.1%} of the time, or as many frames as that takes",
    SignalKind.STORM: "paused for {:.0%} of the time and sends nothing",
    SignalKind.DROP: "{:.0f} packets dropped in one period",
    SignalKind.SILENT: "no fresh sample for {:.1f} s",
    SignalKind.LOSS: "{:.2g} of the frames into this port are lost on the cable",
    SignalKind.SLOW: "the link has {:.0%} of the rate of the fabric file",
}
_THRESHOLD = {SignalKind.DROP: "{:.0f} packets", SignalKind.SILENT: "{:.1f} s", SignalKind.LOSS: "{:.1g}"}


MAX_NAMED = 4
"""The maximum number of ports named in a line about several ports of a switch."""


def signal_events(signals: Iterable[Signal], ports: PortTable, now_unix_ns: int) -> Iterator[LogEvent]:
    """Yield events for the conditions that one scan of the detector, at `now_unix_ns`, raised and cleared."""
    silences: dict[tuple[str, bool, int], list[Signal]] = {}
    for signal in signals:
        if signal.kind is not SignalKind.SILENT:
            yield signal_event(signal, now_unix_ns)
        else:
            _, owner, count = ports.owner_of(signal.port)
            silences.setdefault((owner, signal.raised, count), []).append(signal)
    for (owner, raised, count), those in silences.items():
        longest = max(those, key=lambda signal: signal.value if raised else -signal.since_unix_ns)
        event = signal_event(longest, now_unix_ns)
        names = ", ".join(signal.port for signal in those)
        which = f" ({names})" if len(those) < count and len(those) <= MAX_NAMED else ""
        text = f"{len(those)} of {count} ports{which}: {event.text}"
        yield replace(event, subject=owner, text=text)


def signal_event(signal: Signal, now_unix_ns: int) -> LogEvent:
    """Return the event of a condition that was raised or cleared at `now_unix_ns`."""
    threshold = _THRESHOLD.get(signal.kind, "{:.1%}").format(signal.threshold)
    measured = _MEASURED[signal.kind].format(signal.value)
    if signal.raised:
        severity, text = _SEVERITY.get(signal.kind, "error"), f"{measured} (threshold {threshold})"
    else:
        lasted = max(0, now_unix_ns - signal.since_unix_ns) / 1e9
        now = f"at least {threshold}" if signal.kind is SignalKind.SLOW else f"at most {threshold}"
        severity, text = "info", f"over after {lasted:.1f} s; now {now}"
    return LogEvent(
        timestamp_unix_ns=now_unix_ns,
        severity=severity,
        kind=f"{signal.kind}_{'raised' if signal.raised else 'cleared'}",
        subject=signal.subject,
        text=text,
    )
