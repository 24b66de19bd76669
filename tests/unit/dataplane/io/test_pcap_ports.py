"""Captures written by others are read as they are, and what is written others read."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap, wrpcap

from dataplane.engine.burst import BURST, PACKET
from dataplane.engine.counters import make_counters
from dataplane.io.fault import PortError
from dataplane.io.forward import forward
from dataplane.io.pcap import Captured, PcapPorts, read_pcap, write_pcap

FRAMES = [Ether() / IP(dst="10.0.0.2") / UDP(sport=n, dport=9) / (b"x" * (40 * n % 1400)) for n in range(300)]


def head(order: str, magic: int, link_type: int = 1) -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)


def test_a_file_of_scapys_goes_through_the_ports_and_comes_out_the_same(tmp_path):
    wrpcap(str(tmp_path / "in.pcap"), FRAMES)
    ports, counters, packets = PcapPorts(2, ring=64), make_counters(2), np.zeros(BURST, PACKET)
    ports.read_from(0, tmp_path / "in.pcap")
    while ports.feed(0):
        forward(ports.ports, packets, np.array([1, -1]), 4, counters)
        ports.keep(1, 1_700_000_000_123_456_789)
    ports.write_to(1, tmp_path / "out.pcap")
    found = rdpcap(str(tmp_path / "out.pcap"))
    assert [bytes(packet) for packet in found] == [bytes(frame) for frame in FRAMES]
    assert float(found[0].time) == pytest.approx(1_700_000_000.123456)


@given(st.lists(st.tuples(st.integers(0, 2**31 * 10**6), st.binary(min_size=1, max_size=200)), max_size=20))
def test_what_is_written_is_read_again(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("pcap") / "file.pcap"
    frames = [Captured(1000 * time_us, frame) for time_us, frame in content]
    write_pcap(path, frames)
    assert list(read_pcap(path)) == frames


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_both_byte_orders_and_units_of_time_are_read(tmp_path, order, magic, unit_ns):
    path = tmp_path / "file.pcap"
    path.write_bytes(head(order, magic) + struct.pack(order + "IIII", 7, 9, 3, 3) + b"abc")
    assert list(read_pcap(path)) == [Captured(7_000_000_000 + 9 * unit_ns, b"abc")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "no capture in pcap's format"),
        (b"\n\r\r\n" + bytes(40), "no capture in pcap's format"),
        (head("<", 0xA1B2C3D4, 113), "link type 113"),
        (head("<", 0xA1B2C3D4) + bytes(10), "ends inside the header of frame 1"),
        (head("<", 0xA1B2C3D4) + struct.pack("<IIII", 0, 0, 9, 9) + b"abc", "ends inside frame 1"),
        (head("<", 0xA1B2C3D4) + struct.pack("<IIII", 0, 0, 60, 1500) + bytes(60), "frame 1 has 60 of 1500 bytes"),
        (head("<", 0xA1B2C3D4) + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30), "frame 1 has"),
    ],
)
def test_what_is_no_whole_capture_is_refused_with_its_place(tmp_path, content, line):
    path = tmp_path / "file.pcap"
    path.write_bytes(content)
    with pytest.raises(PortError, match=line):
        list(read_pcap(path))


def test_a_file_that_is_not_there_is_told_with_its_name(tmp_path):
    with pytest.raises(PortError, match=r"none\.pcap: No such file"):
        list(read_pcap(tmp_path / "none.pcap"))
