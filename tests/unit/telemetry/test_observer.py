"""The observer: which messages are stored, counted and logged, and how often."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES, encode
from heddle.telemetry.samples.topic import Source, nics_topic, ports_topic, status_topic
from tests.unit.telemetry.builders import START, S, queue, sample

LEAF1 = ports_topic("lab", "leaf1")


def observer(**settings):
    ports = [Port(f"{leaf}:{n}", Source.SWITCH, leaf, 10**9) for leaf in ("leaf1", "leaf2") for n in (1, 2)]
    ports.append(Port("h1-n0", Source.HOST, "h1", 10**9))
    return Observer("lab", PortTable(ports), DetectorSettings(**settings))


def take(seen, *samples, topic=LEAF1, now=None):
    seen.take(topic, encode(samples), samples[-1].timestamp_unix_ns if now is None else now)


def test_messages_become_signals():
    seen = observer(raise_periods=2)
    for n in range(4):
        take(seen, sample(at=n, sequence=n, queues=[queue(packets=100 * n, ecn_marked_packets=50 * n)]))
        scan = seen.scan(START + n * S)
    assert [signal.kind for signal in seen.active()] == [SignalKind.CONGESTION]
    assert scan.samples == 1
    assert scan.complaints == ()


def test_nics_are_ports_of_their_host():
    seen = observer()
    take(seen, sample("h1-n0"), topic=nics_topic("lab", "h1"))
    assert seen.samples == 1
    assert not seen.complaints.counts


@pytest.mark.parametrize(
    ("topic", "payload", "kind"),
    [
        ("heddle/v1/other/switch/leaf1/ports", b"", "topic"),
        ("heddle/v1/lab/switch/leaf1", b"", "topic"),
        ("$SYS/broker", b"", "topic"),
        (ports_topic("lab", "leaf9"), b"", "unknown_source"),
        (nics_topic("lab", "leaf1"), b"", "unknown_source"),
        (LEAF1, b"\xff", "malformed"),
        (LEAF1, bytes(MAX_PAYLOAD_BYTES + 1), "oversized"),
        (LEAF1, encode([sample("leaf2:1")]), "unknown_port"),
        (LEAF1, encode([sample("leaf1:3")]), "unknown_port"),
        (LEAF1, encode([sample(at=60)]), "future_timestamp"),
        (status_topic("lab", "a"), b"ONLINE", "malformed"),
    ],
)
def test_bad_input_is_counted_and_dropped(topic, payload, kind):
    seen = observer()
    before = seen.window.total.copy()
    seen.take(topic, payload, START)
    assert dict(seen.complaints.counts) == {kind: 1}
    assert seen.samples == 0
    assert (seen.window.total == before).all()
    assert not seen.window.heard.any()


def test_a_bad_row_leaves_the_good_ones():
    seen = observer()
    take(seen, sample("leaf1:1", tx_bytes=5), sample("leaf1:9"), sample("leaf1:2", tx_bytes=6))
    assert seen.window.total[:2, 0].tolist() == [5, 6]
    (complaint,) = seen.scan(START).complaints
    assert str(complaint) == "switch leaf1: unknown port: leaf1:9 is not one of its ports"


def test_a_source_is_logged_once_a_minute():
    seen = observer()
    logged = []
    for second in range(130):
        seen.take(LEAF1, b"\xff", START + second * S)
        logged += [complaint.count for complaint in seen.scan(START + second * S).complaints]
    assert logged == [1, 60, 60]
    assert seen.complaints.counts["malformed"] == 130


def test_sources_and_kinds_are_logged_separately():
    seen = observer()
    seen.take(LEAF1, b"\xff", START)
    seen.take(ports_topic("lab", "leaf2"), b"\xff", START)
    seen.take(LEAF1, bytes(MAX_PAYLOAD_BYTES + 1), START)
    assert len(seen.scan(START).complaints) == 3


def test_unknown_sources_share_one_entry():
    seen = observer()
    for n in range(1_000):
        seen.take(ports_topic("lab", f"x{n}"), b"", START)
        seen.take(f"nonsense/{n}", b"", START)
    assert [complaint.count for complaint in seen.scan(START).complaints] == [1_000, 1_000]


def test_each_change_of_an_agents_status_is_reported_once():
    seen = observer()
    reported = []
    for status_text in (b"online", b"online", b"offline", b"online"):
        seen.take(status_topic("lab", "a1"), status_text, START)
        reported.append([(status.agent, status.online) for status in seen.scan(START).agents])
    assert reported == [[("a1", True)], [], [("a1", False)], [("a1", True)]]


def test_agents_that_no_switch_or_host_is_named_as_are_few_and_the_fabrics_own_are_always_kept(monkeypatch):
    monkeypatch.setattr("heddle.telemetry.observer.MAX_OTHER_AGENTS", 3)
    seen = observer()
    for name in ("a0", "a1", "a2", "a3", "a4", "leaf1", "h1"):
        seen.take(status_topic("lab", name), b"online", START)
    assert set(seen.agents) == {"a0", "a1", "a2", "leaf1", "h1"}
    assert seen.complaints.counts["unknown_source"] == 2


def test_another_agent_that_is_offline_makes_room_and_retained_ones_are_ignored():
    seen = observer()
    for n in range(5_000):
        for text in (b"online", b"offline"):
            seen.take(status_topic("lab", f"a{n}"), text, START)
    seen.scan(START)
    for name in ("a7", "gone", "leaf1"):
        seen.take(status_topic("lab", name), b"offline", START)
    assert [status.agent for status in seen.scan(START).agents] == ["leaf1"]
    assert set(seen.agents) == {"leaf1"}
    assert not seen.complaints.counts


@given(st.lists(st.tuples(st.sampled_from([LEAF1, "x", status_topic("lab", "a")]), st.binary(max_size=60))))
def test_any_message_is_counted_and_none_raises(messages):
    seen = observer()
    for topic, payload in messages:
        seen.take(topic, payload, START)
    seen.scan(START)
    assert seen.messages == len(messages)
    assert not seen.window.heard.any()


def test_a_link_that_loses_its_carrier_is_reported_once_and_so_is_its_return():
    seen, found = observer(), []
    for n, carrier in enumerate((True, False, False, None, True, None)):
        take(seen, sample(at=n, sequence=n, carrier=carrier))
        found.append([(change.port, change.up) for change in seen.scan(START + n * S).links])
    assert found == [[], [("leaf1:1", False)], [], [], [("leaf1:1", True)], []]


def test_a_port_whose_first_sample_has_no_carrier_is_reported():
    seen = observer()
    take(seen, sample("leaf1:1", carrier=False), sample("leaf1:2", carrier=True))
    assert [(change.port, change.up) for change in seen.scan(START).links] == [("leaf1:1", False)]
