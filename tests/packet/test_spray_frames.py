"""Frames of a queue pair that sprays: writes, ACKs with a bitmap, probes; errors of switches that name a path."""

import shutil
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoRequest, ICMPv6TimeExceeded, IPv6
from scapy.layers.l2 import Ether

from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.selective_ack import SelectiveAck, read_selective_ack
from heddle.mininet_topos.wire.srv6 import quoted_by_error
from tests.packet.test_roce_frames import ROUTE
from tests.support.packets.queue_pair_ends import MS
from tests.support.packets.sprayed import FIRST_PORT, MTU, read, spray_receiver, spray_sender
from tests.support.packets.wireshark import wireshark_faults

SIDS = ("fcbb:0:e001:e003:e006::", "fcbb:0:e002:e003:e006::")
PATHS = [{"udp_source_port": FIRST_PORT + n, "sid": sid} for n, sid in enumerate(SIDS)]


def sent_frames(packets: int, **changes) -> list[bytes]:
    sender = spray_sender(packets, paths=PATHS, sid_source="fcbb:0:3:e005::", **changes)
    frames = []
    for number in range(packets):
        frames.append(bytes(sender.next_frame(number * MS)))
        sender.sent(len(frames[-1]), number * MS, 0)
    return frames


def test_every_packet_is_a_write_of_its_own_on_the_path_that_its_outer_header_names():
    for number, frame in enumerate(sent_frames(6)):
        seen = Ether(frame)
        assert seen[IPv6].dst == SIDS[number % 2]
        assert seen[UDP].sport == seen[IPv6].fl == FIRST_PORT + number % 2
        assert (seen[BTH].opcode, seen[BTH].psn) == (roce.RC_RDMA_WRITE_ONLY, 0xFFFFF0 + number)
        address, key, length = struct.unpack(">QII", bytes(seen[BTH].payload)[:16])
        assert (address, key, length) == (number * MTU, 0, MTU)


def test_the_last_packet_and_every_fourth_request_an_ack():
    assert [Ether(frame)[BTH].ackreq for frame in sent_frames(6)] == [0, 0, 0, 1, 0, 1]


def test_an_ack_has_the_psn_before_the_first_gap_and_a_bit_for_each_packet_beyond_it():
    receiver = spray_receiver()
    for number in (0, 1, 3, 5, 127):
        frame = roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 0xFFFFF0 + number, number == 127, MTU, 0, MTU)
        response = receiver.on_data(read(frame), 0)
    ack = bytes(receiver.frame(response))
    seen = Ether(ack)
    assert (seen[BTH].opcode, seen[BTH].psn, seen[AETH].syndrome) == (roce.RC_ACKNOWLEDGE, 0xFFFFF1, 0x1F)
    payload = ack[58:82]
    assert payload[:16] == (1 << 3 - 2 | 1 << 5 - 2 | 1 << 127 - 2).to_bytes(16, "big")
    assert payload[16:] == struct.pack(">HHI", ROUTE.udp_source_port, 0, 0xFFFFF0 + 127 & 0xFFFFFF)
    assert len(ack) == 58 + 24 + 4


def test_the_acks_of_a_receiver_take_its_paths_in_turn():
    receiver = spray_receiver(3)
    frame = roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 0xFFFFF0, True, MTU, 0, MTU)
    ports = [Ether(bytes(receiver.frame(receiver.on_data(read(frame), 0))))[UDP].sport for _ in range(6)]
    assert len(set(ports[:3])) == 3
    assert ports[3:] == ports[:3]


def test_a_probe_is_a_send_without_data_and_its_reply_names_its_path_and_number():
    sender, receiver = spray_sender(100, 2), spray_receiver()
    assert sender.selective.deny(FIRST_PORT + 1, 0, "test")
    assert sender.due_ns(200 * MS, 0) == 200 * MS
    frame = bytes(sender.next_frame(200 * MS))
    seen = Ether(frame)
    assert (seen[BTH].opcode, seen[BTH].psn, seen[UDP].sport, len(frame)) == (0x04, 1, FIRST_PORT + 1, 58)
    reply = receiver.frame(receiver.on_data(read(bytearray(frame)), 0))
    assert read_selective_ack(read(reply).selective) == SelectiveAck(0, FIRST_PORT + 1, 1, True, False)
    assert receiver.responder.delivered_packets == 0


def test_a_marked_packet_is_counted_for_its_path_and_its_ack_says_so():
    receiver = spray_receiver()
    frame = roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 0xFFFFF0, True, MTU, 0, MTU)
    frame[15] |= roce.CONGESTION_EXPERIENCED
    ack = read_selective_ack(read(receiver.frame(receiver.on_data(read(frame), 0))).selective)
    assert ack is not None
    assert ack.is_marked
    assert receiver.report()["marked_of_port"] == {ROUTE.udp_source_port: 1}


@given(
    arrived=st.integers(0, 2**128 - 1),
    port=st.integers(0, 0xFFFF),
    psn=st.integers(0, 0xFFFFFF),
    probe=st.booleans(),
    marked=st.booleans(),
)
def test_what_an_ack_says_is_read_as_it_was_written(arrived, port, psn, probe, marked):
    ack = SelectiveAck(arrived, port, psn, probe, marked)
    assert read_selective_ack(ack.pack()) == ack


@given(payload=st.binary(max_size=40).filter(lambda payload: len(payload) != 24))
def test_a_payload_of_another_length_is_no_selective_ack(payload):
    assert read_selective_ack(payload) is None


@pytest.mark.parametrize("error", [ICMPv6DestUnreach(code=0), ICMPv6TimeExceeded()], ids=["unreachable", "exceeded"])
def test_an_error_of_a_switch_names_path_and_queue_pair_of_the_packet(error):
    packet = sent_frames(2)[1][14:]
    frame = bytearray(bytes(Ether() / IPv6(src="fcbb:0:9::1", dst="fcbb:0:3:e005::") / error / packet))
    quoted = quoted_by_error(frame, len(frame))
    assert quoted is not None
    assert (quoted.udp_source_port, quoted.destination_qp) == (FIRST_PORT + 1, ROUTE.destination_qp)


@pytest.mark.parametrize("length", range(14, 138, 4))
def test_a_cut_error_names_nothing(length):
    frame = bytearray(bytes(Ether() / IPv6() / ICMPv6DestUnreach() / sent_frames(1)[0][14:]))[:length]
    assert quoted_by_error(frame, length) is None


def test_other_frames_are_no_errors_about_a_path():
    inner = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / (b"x" * 200))
    for frame in (
        Ether() / IPv6() / ICMPv6EchoRequest(data=b"x" * 200),
        Ether() / IPv6(nh=58) / inner,
        Ether() / inner,
    ):
        assert quoted_by_error(bytearray(bytes(frame)), len(frame)) is None


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_finds_no_fault_in_frames_of_a_spraying_queue_pair(tmp_path):
    receiver = spray_receiver()
    frames = sent_frames(6)
    acks = [bytes(receiver.frame(receiver.on_data(read(bytearray(frame)), 0))) for frame in frames]
    assert wireshark_faults([*frames, *acks], tmp_path) == ""
