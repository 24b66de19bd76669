"""The fast path of the parser against the general path: every field of the row is equal."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

from heddle.dataplane.elements.headers.arrival import begin
from heddle.dataplane.elements.headers.parse import read_any
from heddle.dataplane.elements.headers.parse_plain import read_plain
from heddle.dataplane.elements.underlay import open_any, open_plain
from heddle.dataplane.engine.burst import GROUP, PACKET, ROUTED
from heddle.dataplane.jit import kernel
from tests.fakes.gateway.gateway_frames import inner, tunnelled
from tests.fakes.gateway.gateway_site import site_tables
from tests.oracles.inet_checksum import ones_complement
from tests.support.examples import examples

V4 = {"src": "10.0.0.10", "dst": "10.0.0.11"}
INNER = [
    bytes(inner(packet))
    for packet in (
        IP(**V4) / UDP(sport=7, dport=9) / Raw(b"x" * 20),
        IP(**V4) / UDP(sport=7, dport=9, chksum=0),
        IP(**V4) / TCP(sport=7, dport=9, flags="A", options=[("MSS", 1400)]) / Raw(b"x" * 9),
        IP(**V4) / ICMP() / Raw(b"x" * 20),
        IP(**V4) / TCP(sport=7, dport=9, flags="S"),
        IPv6(src="fd00::10", dst="fd00::11") / UDP(sport=7, dport=9),
    )
]
OUTER = [bytes(tunnelled(frame)) for frame in INNER]
TABLES = site_tables()
CHANGES = st.lists(st.tuples(st.integers(0, 63), st.integers(0, 255)), max_size=3)
AT = 64


@kernel
def read_both(memory, packets):
    begin(packets[0])
    begin(packets[1])
    packets[0].routed = packets[1].routed = packets[2].routed
    packets[0].outer_ecn = packets[1].outer_ecn = packets[2].outer_ecn
    is_plain = read_plain(memory, packets[0], 7)
    if is_plain:
        read_any(memory, packets[1], 7)
    return is_plain


@kernel
def open_both(memory, packets, tables):
    is_plain = open_plain(memory, packets[0], tables)
    if is_plain:
        open_any(memory, packets[1], tables)
    return is_plain


def _rows(length, first_length):
    packets = np.zeros(3, PACKET)
    packets["at"], packets["length"], packets["first_length"] = AT, length, first_length
    packets["reason"], packets["hash"] = 5, 77  # of the burst before
    return packets


def _laid_out(frame, changes, ip_at, is_repaired):
    """Return a memory with a frame whose bytes from `ip_at` on were changed, with a valid IPv4 checksum."""
    data = bytearray(frame)
    for offset, value in changes:
        if ip_at - 2 + offset < len(data):
            data[ip_at - 2 + offset] = value
    if is_repaired:
        data[ip_at + 10 : ip_at + 12] = b"\0\0"
        data[ip_at + 10 : ip_at + 12] = ones_complement(bytes(data[ip_at : ip_at + 20])).to_bytes(2, "big")
    memory = np.full(AT + len(data) + 256, 0xA5, np.uint8)
    memory[AT : AT + len(data)] = data
    return memory


@settings(max_examples=examples(1500), deadline=None)
@given(
    frame=st.sampled_from(INNER), changes=CHANGES, is_repaired=st.booleans(), shorter=st.sampled_from([0, 0, 0, 1, 20]),
    pieces=st.sampled_from([0, 0, 8]), routed=st.sampled_from([ROUTED, 0, GROUP]), ecn=st.sampled_from([-1, 0, 3]),
)  # fmt: skip
def test_a_plain_packet_is_read_like_by_the_general_path(frame, changes, is_repaired, shorter, pieces, routed, ecn):
    memory = _laid_out(frame, changes, 14, is_repaired)
    packets = _rows(len(frame) - shorter, len(frame) - shorter - pieces)
    packets[2]["routed"], packets[2]["outer_ecn"] = routed, ecn
    before = memory.copy()
    if read_both(memory, packets):
        assert packets[0] == packets[1]
        assert (memory == before).all()


@settings(max_examples=examples(1500), deadline=None)
@given(
    frame=st.sampled_from(OUTER), changes=CHANGES, is_repaired=st.booleans(), shorter=st.sampled_from([0, 0, 0, 1, 20]),
    pieces=st.sampled_from([0, 0, 8]), is_ours=st.booleans(),
)  # fmt: skip
def test_a_plain_frame_is_opened_like_by_the_general_path(frame, changes, is_repaired, shorter, pieces, is_ours):
    memory = _laid_out(frame if is_ours else b"\2" + frame[1:], changes, 14, is_repaired)
    packets = _rows(len(frame) - shorter, len(frame) - shorter - pieces)
    if open_both(memory, packets, TABLES):
        assert packets[0] == packets[1]


def test_usual_packets_are_plain():
    for frame in INNER[:3]:
        packets = _rows(len(frame), len(frame))
        packets[2]["routed"], packets[2]["outer_ecn"] = ROUTED, 0
        assert read_both(_laid_out(frame, (), 14, False), packets)
    for frame in OUTER:
        assert open_both(_laid_out(frame, (), 14, False), _rows(len(frame), len(frame)), TABLES)
