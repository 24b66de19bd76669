"""What agents report of neighbours reaches the collector: what has changed, and nothing of invalid reports."""

import pytest

from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.neighbours.advertised import Advertised
from heddle.telemetry.neighbours.heard import MAX_SENDERS, Heard, Sender, heard_at
from heddle.telemetry.neighbours.table import MAX_HEARD_BYTES
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.sample import PortSample, encode
from heddle.telemetry.samples.topic import Source, ports_topic

TOPIC = ports_topic("f", "leaf1")
HERE = Heard("Ethernet0", (Sender("spine1", "aa:bb", ("Ethernet4", "to leaf1")),))
S = 1_000_000_000


@pytest.fixture
def observer():
    ports = PortTable([Port(f"leaf1:{n}", Source.SWITCH, "leaf1", 10**9) for n in (1, 2)])
    return Observer("f", ports, DetectorSettings(period_ms=1_000))


def sent(observer, *heard, port="leaf1:1", at=None):
    """Send a sample for each report, and return what the scan after them says."""
    for each in heard:
        observer.clock = at if at is not None else getattr(observer, "clock", 0) + S
        sample = PortSample(port=port, timestamp_unix_ns=observer.clock, sequence=observer.clock // S, heard=each)
        observer.take(TOPIC, encode([sample]), observer.clock)
    return observer.scan(observer.clock).heard


def test_what_a_port_hears_is_reported_once_and_again_when_it_changes(observer):
    assert sent(observer, HERE) == {"leaf1:1": HERE}
    assert sent(observer, HERE, None) is None
    gone = Heard("Ethernet0")
    assert sent(observer, gone) == {"leaf1:1": gone}
    assert sent(observer, HERE, port="leaf1:2") == {"leaf1:1": gone, "leaf1:2": HERE}


def test_a_replayed_sample_and_a_port_of_no_fabric_say_nothing(observer):
    sent(observer, HERE)
    assert sent(observer, Heard("Ethernet0"), at=S) is None
    assert sent(observer, HERE, port="leaf1:3") is None


def test_a_report_past_the_limits_is_counted_and_leaves_what_was_heard(observer):
    sent(observer, HERE)
    long = Heard("Ethernet0", (Sender("x" * MAX_HEARD_BYTES),))
    many = Heard("Ethernet0", HERE.senders * (MAX_SENDERS + 1))
    assert sent(observer, long, many) is None
    assert observer.complaints.counts["neighbours"] == 2


def test_the_newest_of_several_neighbours_is_first_and_those_without_a_sensible_name_are_left_out():
    frames = [
        Advertised(node="leaf1", interface="swp1", system=name, age_s=age)
        for name, age in (("old", 90), ("new", 2), ("", 1), ("x" * 300, 0), ("unknown", None))
    ]
    assert [each.system for each in heard_at("swp1", frames).senders] == ["new", "old", "unknown"]
    assert len(heard_at("swp1", frames * 9).senders) == MAX_SENDERS
