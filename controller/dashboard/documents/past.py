"""Documents of the past: events of the log, and the state of the fabric at a moment that the history holds."""

import re
from collections.abc import Mapping

import numpy as np

from heddle.controller.brain.state import State
from heddle.controller.dashboard.documents.congestion import place_of
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.state import CongestedPort, TimelineEvent
from heddle.controller.dashboard.documents.text import document_text, flags_text, json_text, shares_text
from heddle.controller.model.error import InputError, NotFoundError
from heddle.controller.model.log_event import LogEvent
from heddle.controller.runtime.telemetry import PastMoment, Telemetry
from heddle.controller.views.measured import LinkRows
from heddle.telemetry.detection.signal import SignalKind

MAX_EVENTS = 10_000
NEAR_S = 86_400
"""A condition that was raised longer before a moment is not found."""
MS = 1_000_000
CONDITIONS = frozenset(kind.value for kind in SignalKind if kind is not SignalKind.SILENT)
_SUBJECT = re.compile(r"(\S+)(?: priority \d+)?\Z")


def event_document(event: LogEvent) -> TimelineEvent:
    """Return one event."""
    return {
        "at_ms": event.timestamp_unix_ns // MS,
        "kind": event.kind,
        "severity": event.severity,
        "subject": event.subject,
        "text": event.text,
    }


def timeline_document(
    moment: Moment, telemetry: Telemetry, from_ms: int | None, to_ms: int | None, limit: int | None
) -> Mapping[str, object]:
    """Return the newest events within a time (`Timeline`); reads a disk."""
    since_ns, until_ns = (from_ms or 0) * MS, None if to_ms is None else to_ms * MS + MS - 1
    if from_ms is not None and from_ms > moment.now_unix_ms:
        raise InputError("from_ms: is in the future")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise InputError("from_ms: is after to_ms")
    events = telemetry.past(since_ns, limit or MAX_EVENTS, until_ns)
    stamps = [event.timestamp_unix_ns for event in telemetry.recent()[:1]]
    if telemetry.history is not None and (oldest := telemetry.history.oldest_event_ns()) is not None:
        stamps.append(oldest)
    return {
        "events": (event_document(event) for event in events),
        "recorded_from_ms": min(stamps) // MS if stamps else None,
    }


def past_state_text(moment: Moment, telemetry: Telemetry, boot: str, at_ms: int) -> str:
    """Return the state of a moment as JSON (`StateOf`); reads a disk. Raises InputError and NotFoundError."""
    if at_ms > moment.now_unix_ms:
        raise InputError("at_ms: is in the future")
    found = telemetry.history.moment(at_ms // 1_000) if telemetry.history is not None else None
    if found is None:
        raise NotFoundError("not recorded")
    used, paused = _measured(moment.state, found)
    up, drained = _link_flags(moment.state, telemetry, at_ms)
    end_ms = (found.start_s + found.length_s) * 1_000
    congested = conditions_at(telemetry.past((at_ms - NEAR_S * 1_000) * MS, MAX_EVENTS, at_ms * MS + MS - 1))
    links = f'"utilisation":{used},"planned":null,"pause_share":{paused},"up":{up},"drained":{drained}'
    links += ',"cabling":null,"bad":null'
    rest = document_text({
        "at_ms": at_ms, "boot": boot, "sequence": 0, "switches": None, "jobs": None, "congested": congested,
        "miscablings": None, "counts": None,
        "telemetry": moment.telemetry(max(0, at_ms - end_ms)),
    })  # fmt: skip
    return f'{rest[:-1]},"links":{{{links}}}}}'


def _measured(state: State, found: PastMoment) -> tuple[str, str]:
    """Return the utilisation and the share of pauses of every link. A port without a row did not count anything."""
    names = tuple(state.fabric.peer_by_name)
    rows = LinkRows.of(state.fabric, names)
    counted = np.array([found.counted.get(name, (0, 0)) for name in names], dtype=np.float64).reshape(-1, 2)
    per_s = counted * 8.0 / found.length_s
    paused = np.array([found.paused_ns.get(name, 0) for name in names], dtype=np.float64) / (found.length_s * 1e9)
    # A silent sender has no row, nor has one that sends nothing: what the receiver counted is right in both cases.
    sent = rows.picked(per_s[:, 0], per_s[:, 1], np.array([name in found.counted for name in names], dtype=np.bool_))
    used = np.where(np.isnan(sent), 0.0, sent) / rows.capacity_bps
    share = rows.picked(paused, paused, np.ones(len(names), dtype=np.bool_))
    return shares_text(used), shares_text(share)


def _link_flags(state: State, telemetry: Telemetry, at_ms: int) -> tuple[str, str]:
    """Return which links were up and which drained, null where that was not recorded."""
    found = telemetry.history.links(at_ms * MS + MS - 1) if telemetry.history is not None else None
    if found is None:
        return "null", "null"
    down, drained = frozenset(found.down), frozenset(found.drained)
    first = [link.id for link in state.fabric.directed_links[::2]]
    flags = np.array([[name not in down for name in first], [name in drained for name in first]], dtype=np.bool_)
    up_text, drained_text = (flags_text(each) for each in np.repeat(flags, 2, axis=1))
    return up_text, drained_text


def conditions_at(events: tuple[LogEvent, ...]) -> list[CongestedPort]:
    """Return the conditions that events up to a moment have raised and not cleared; silence is not among them."""
    raised: dict[tuple[str, str], LogEvent] = {}
    for event in events:
        cause, _, what = event.kind.rpartition("_")
        if cause in CONDITIONS:
            if what == "raised":
                raised[cause, event.subject] = event
            else:
                raised.pop((cause, event.subject), None)
    found: list[CongestedPort] = []
    for (cause, subject), event in raised.items():
        if (match := _SUBJECT.match(subject)) is not None:
            since_ms = event.timestamp_unix_ns // MS
            found.append({**place_of(match[1]), "cause": cause, "since_ms": since_ms, "root": False})
    return found


def event_text(event: LogEvent) -> bytes:
    """Return one event as JSON."""
    return json_text(event_document(event)).encode()
