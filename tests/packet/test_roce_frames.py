"""Our RoCEv2 frames byte for byte against scapy's, an independent implementation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH, cnp
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from heddle.mininet_topos.wire import roce

ROUTE = roce.Route(
    source_mac=bytes.fromhex("020000000001"),
    destination_mac=bytes.fromhex("020000000002"),
    source_ip=0x0A000001,
    destination_ip=0x0A000002,
    udp_source_port=0xC123,
    destination_qp=0x000ABC,
    traffic_class=26 << 2 | 2,
)
WRITES = {"first": 0x06, "middle": 0x07, "last": 0x08, "only": 0x0A}
SENDS = {"first": 0x00, "middle": 0x01, "last": 0x02, "only": 0x04}


def scapy_frame(opcode: int, psn: int, ack_request: bool, after_bth: bytes, padding: int = 0) -> bytes:
    ip = IP(src="10.0.0.1", dst="10.0.0.2", tos=26 << 2 | 2, id=0, flags="DF", ttl=64)
    # M = 1 is what adapters send; scapy's default is 0.
    bth = BTH(opcode=opcode, migreq=1, padcount=padding, dqpn=0xABC, ackreq=int(ack_request), psn=psn)
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    # The checksum of UDP is zero over IPv4, as adapters leave it.
    return bytes(ether / ip / UDP(sport=0xC123, dport=4791, chksum=0) / bth / Raw(after_bth))


def reth(address: int, length: int) -> bytes:
    return address.to_bytes(8, "big") + bytes(4) + length.to_bytes(4, "big")


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("payload_bytes", [1, 2, 3, 4, 256, 1023, 4096])
def test_write_packets_equal_those_of_scapy(kind, payload_bytes):
    opcode, padding = WRITES[kind], -payload_bytes % 4
    extension = reth(0x1122334455667788, 262144) if kind in ("first", "only") else b""
    ours = roce.FrameWriter(ROUTE).write(opcode, 0x123456, True, payload_bytes, 0x1122334455667788, 262144)
    assert bytes(ours) == scapy_frame(opcode, 0x123456, True, extension + bytes(payload_bytes + padding), padding)


@pytest.mark.parametrize("kind", SENDS)
@pytest.mark.parametrize("payload_bytes", [1, 3, 4, 1023, 4096])
def test_send_packets_equal_those_of_scapy_and_have_no_extension(kind, payload_bytes):
    padding = -payload_bytes % 4
    ours = roce.FrameWriter(ROUTE).write(SENDS[kind], 0x123456, True, payload_bytes, 5, 262144)
    assert bytes(ours) == scapy_frame(SENDS[kind], 0x123456, True, bytes(payload_bytes + padding), padding)


def test_congestion_notifications_equal_those_of_scapy():
    ip = IP(src="10.0.0.1", dst="10.0.0.2", tos=48 << 2, id=0, flags="DF", ttl=64)
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    notification = cnp(0xABC)
    notification.migreq = 1
    theirs = bytes(ether / ip / UDP(sport=0xC123, dport=4791, chksum=0) / notification)
    assert bytes(roce.FrameWriter(ROUTE).congestion_notification()) == theirs


def test_a_congestion_notification_is_read_back():
    frame = roce.FrameWriter(ROUTE).congestion_notification()
    read = roce.parse(frame, len(frame))
    assert read is not None
    assert (read.opcode, read.destination_qp, read.payload_bytes, read.icrc_valid) == (roce.CNP, 0xABC, 0, True)
    assert (roce.priority(read.traffic_class), read.traffic_class & roce.ECN_MASK) == (6, 0)


@given(kind=st.sampled_from(sorted(roce.DATA)), ecn=st.integers(0, 3), payload_bytes=st.integers(1, 4096))
def test_an_ecn_mark_in_transit_keeps_the_icrc_of_data_packets_valid(kind, ecn, payload_bytes):
    frame = roce.FrameWriter(ROUTE).write(kind, 9, False, payload_bytes)
    frame[15] = frame[15] & ~roce.ECN_MASK | ecn
    read = roce.parse(frame, len(frame))
    assert read is not None
    assert (read.icrc_valid, read.traffic_class & roce.ECN_MASK, read.payload_bytes) == (True, ecn, payload_bytes)


@pytest.mark.parametrize(("syndrome", "name"), [(roce.ACK_SYNDROME, "ack"), (roce.NAK_SEQUENCE_ERROR, "nak")])
def test_acknowledgements_equal_those_of_scapy(syndrome, name):
    ours = roce.FrameWriter(ROUTE).acknowledge(0xFFFFFF, syndrome, 0x00BEEF)
    assert bytes(ours) == scapy_frame(0x11, 0xFFFFFF, False, bytes([syndrome]) + (0xBEEF).to_bytes(3, "big"))


def test_scapy_reads_an_acknowledgement_as_one():
    ours = roce.FrameWriter(ROUTE).acknowledge(7, roce.NAK_SEQUENCE_ERROR, 3)
    read = Ether(bytes(ours))
    assert (read[BTH].psn, read[BTH].dqpn, read[AETH].syndrome, read[AETH].msn) == (7, 0xABC, 0x60, 3)


def test_a_reused_frame_template_keeps_nothing_of_the_previous_frame():
    writer = roce.FrameWriter(ROUTE)
    writer.write(0x0A, 0xFFFFFF, True, 64, 2**64 - 1, 2**32 - 1)
    again = writer.write(0x0A, 1, False, 64, 5, 64)
    assert bytes(again) == scapy_frame(0x0A, 1, False, reth(5, 64) + bytes(64))


@given(psn=st.integers(0, 2**24 - 1), payload_bytes=st.integers(0, 4096), ack=st.booleans())
def test_written_packets_are_read_back(psn, payload_bytes, ack):
    frame = roce.FrameWriter(ROUTE).write(0x07, psn, ack, payload_bytes)
    assert len(frame) == roce.wire_bytes(0x07, payload_bytes)
    assert roce.parse(frame, len(frame)) == roce.Packet(
        0x0A000001, 0x0A000002, 0xC123, 26 << 2 | 2, 0x07, 0xABC, psn, ack, 0, 0, payload_bytes, True
    )


@given(position=st.integers(0, 400), bit=st.integers(0, 7))
def test_a_flipped_bit_is_detected_unless_the_field_is_mutable(position, bit):
    frame = bytearray(roce.FrameWriter(ROUTE).write(0x07, 9, False, 300))
    at = 14 + position % (len(frame) - 14)
    frame[at] ^= 1 << bit
    may_change = {15, 22, 24, 25, 40, 41, 46}  # type of service, TTL, both checksums, BTH's reserved byte
    read = roce.parse(frame, len(frame))
    assert (read is not None and read.icrc_valid) == (at in may_change)


@pytest.mark.parametrize("length", [0, 13, 42, 57])
def test_a_truncated_frame_is_no_packet(length):
    frame = roce.FrameWriter(ROUTE).write(0x07, 9, False, 300)
    assert roce.parse(frame, length) is None


def test_a_frame_shorter_than_its_ip_length_is_no_packet():
    frame = roce.FrameWriter(ROUTE).write(0x07, 9, False, 300)
    assert roce.parse(frame, len(frame) - 1) is None


def test_ethernet_padding_after_the_packet_is_not_read():
    frame = roce.FrameWriter(ROUTE).acknowledge(9, roce.ACK_SYNDROME, 1) + bytes(8)
    read = roce.parse(frame, len(frame))
    assert read is not None
    assert read.icrc_valid


@given(content=st.binary(max_size=200), header=st.booleans(), length=st.integers(0, 220))
def test_arbitrary_bytes_parse_to_a_packet_or_none(content, header, length):
    start = bytes(roce.FrameWriter(ROUTE).acknowledge(9, 0, 1)[:43]) if header else b""
    buffer = bytearray((start + content).ljust(256, b"\0"))
    found = roce.parse(buffer, length)
    assert found is None or 0 <= found.payload_bytes < length
