"""The frame balance of a run, its problems, and the derived figures of flows and captures."""

import json

import pytest

from heddle.mininet_topos.measure.flow_run import Capture, FiveTuple, FlowRequest, FlowResult, Integrity
from heddle.mininet_topos.wire.shaping import Egress, QueueCounters, parse_counters

BALANCED = {
    "tx_packets": 100,
    "rx_packets": 90,
    "queue_drops": 10,
    "switch_socket_drops": 0,
    "nic_socket_drops": 0,
    "foreign_packets": 0,
    "icrc_errors": 0,
}


def result(**changes) -> FlowResult:
    request = FlowRequest(
        flow_id="f",
        src_nic="a",
        dst_nic="b",
        udp_source_port=1,
        reverse_udp_source_port=2,
        rate_bps=8_000_000,
        size_bytes=1_000_000,
    )
    values = {
        "request": request,
        "acked_bytes": 1_000_000,
        "delivered_bytes": 1_000_000,
        "first_tx_ns": 500_000_000,
        "last_rx_ns": 1_500_000_000,
        "completed_ns": 1_700_000_000,
        "packets": 245,
        "tx_packets": 250,
        "rx_packets": 247,
        "retransmitted_packets": 5,
        "packet_seq_err": 1,
        "local_ack_timeout_err": 0,
        "out_of_sequence": 2,
        "duplicate_request": 0,
    }
    return FlowResult(**{**values, **changes})


def test_a_balance_of_received_and_counted_drops_is_valid():
    integrity = Integrity.of_counts(**BALANCED)
    assert integrity.valid
    assert str(integrity) == "NIC tx 100 = NIC rx 90 + counted drops 10: valid"


@pytest.mark.parametrize("name", ["switch_socket_drops", "nic_socket_drops", "foreign_packets", "icrc_errors"])
def test_frames_that_the_host_lost_misrouted_or_damaged_make_a_run_invalid(name):
    assert len(Integrity.of_counts(**{**BALANCED, name: 1}).problems) == 1


@pytest.mark.parametrize(("received", "unaccounted"), [(89, 1), (91, -1)])
def test_a_frame_too_few_or_too_many_makes_a_run_invalid(received, unaccounted):
    integrity = Integrity.of_counts(**{**BALANCED, "rx_packets": received})
    assert not integrity.valid
    assert f"NIC tx 100 ≠ NIC rx {received} + counted drops 10: INVALID: {unaccounted} packets are missing" in str(
        integrity
    )


def test_goodput_counts_from_the_first_packet_sent_to_the_last_received():
    assert result().goodput_bps(9_000_000_000) == pytest.approx(8_000_000)


def test_goodput_of_an_incomplete_flow_counts_to_the_end_of_the_run():
    assert result(completed_ns=None).goodput_bps(2_500_000_000) == pytest.approx(4_000_000)


def test_lost_packets_are_those_sent_and_not_received():
    assert result().lost_packets == 3


def test_links_of_a_stream_are_those_that_carried_its_data():
    stream, other = FiveTuple(1, 2, 3), FiveTuple(1, 2, 4)
    capture = Capture(
        data={"a>b": {stream: 7}, "b>c": {stream: 7, other: 1}, "c>d": {other: 1}}, acks={"x>y": {stream: 1}}
    )
    assert capture.links_of(stream) == {"a>b": 7, "b>c": 7}


def test_counters_of_the_shaped_interfaces_are_read_from_their_leaf_queues():
    listing = [
        {"dev": "p1", "handle": "1:", "packets": 9, "drops": 5, "backlog": 1},
        {"dev": "p1", "handle": "10:", "packets": 7, "drops": 5, "backlog": 100},
        {"dev": "other", "handle": "10:", "packets": 1, "drops": 1, "backlog": 0},
        {"kind": "noqueue", "handle": "0:", "dev": "lo", "packets": 0, "drops": 0, "backlog": 0},
    ]
    assert parse_counters(json.dumps(listing), ["p1"]) == {"p1": QueueCounters(7, 5, 100)}


def test_a_nic_has_no_queue_that_drops():
    egress = Egress(interface="eth0", rate_bps=20_000_000)
    assert [len(egress.switch_commands), len(egress.nic_commands)] == [2, 1]
    assert "rate 20000000bit" in egress.nic_commands[0]
