"""Signals as lines of the event log."""

from heddle.controller.views.signal_events import signal_events
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.topic import Source

S = 1_000_000_000
PORTS = PortTable(Port(f"{leaf}:{n}", Source.SWITCH, leaf, 10**9) for leaf in ("leaf1", "leaf2") for n in range(1, 7))


def signal(port, kind=SignalKind.SILENT, *, raised=True, value=3.5, since_s=0):
    return Signal(
        kind=kind, port=port, priority=None if kind is SignalKind.SILENT else 3, raised=raised, value=value,
        threshold=3.5, since_unix_ns=since_s * S, sampled_unix_ns=0, stale=kind is SignalKind.SILENT,
    )  # fmt: skip


def texts(*signals, now_s=10):
    return [(event.kind, event.subject, event.text) for event in signal_events(signals, PORTS, now_s * S)]


def test_a_switch_that_falls_silent_is_one_line():
    silent = [signal(f"leaf1:{n}", value=3.5 + n / 10) for n in range(1, 7)]
    assert texts(*silent) == [
        ("silent_raised", "leaf1", "6 of 6 ports: no fresh sample for 4.1 s (threshold 3.5 s)"),
    ]


def test_some_silent_ports_of_a_switch_are_named():
    (line,) = texts(signal("leaf1:2"), signal("leaf1:5"))
    assert line[2].startswith("2 of 6 ports (leaf1:2, leaf1:5): ")


def test_many_silent_ports_of_a_switch_are_counted_and_not_named():
    (line,) = texts(*(signal(f"leaf1:{n}") for n in range(1, 6)))
    assert line[2].startswith("5 of 6 ports: ")


def test_each_silent_switch_has_a_line_and_each_that_reports_again_another():
    lines = texts(signal("leaf1:1"), signal("leaf2:1"), signal("leaf2:2", raised=False, since_s=4))
    assert [(kind, subject) for kind, subject, _ in lines] == [
        ("silent_raised", "leaf1"), ("silent_raised", "leaf2"), ("silent_cleared", "leaf2"),
    ]  # fmt: skip
    assert lines[2][2] == "1 of 6 ports (leaf2:2): over after 6.0 s; now at most 3.5 s"


def test_other_conditions_have_a_line_each():
    lines = texts(signal("leaf1:1", SignalKind.DROP), signal("leaf1:2", SignalKind.DROP))
    assert [kind for kind, *_ in lines] == ["drop_raised", "drop_raised"]
