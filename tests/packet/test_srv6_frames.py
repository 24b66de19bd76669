"""RoCE packets inside an outer IPv6 header: as Scapy reads them, and taken out with the mark of the outer one."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.srv6 import OUTER_BYTES, Tunnel, unwrapped
from tests.packet.test_roce_frames import ROUTE

TUNNEL = Tunnel.of({"sid_source": "fcbb:0:3:e005::", "sid": "fcbb:0:e001:e002:e006::"})


def written(payload_bytes: int = 300) -> bytearray:
    return roce.FrameWriter(ROUTE, TUNNEL).write(roce.RC_RDMA_WRITE_ONLY, 9, True, payload_bytes, 5, payload_bytes)


def test_a_frame_has_an_outer_header_of_the_class_of_its_inner_one():
    inner = bytes(roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 9, True, 300, 5, 300))
    seen = Ether(bytes(written()))
    outer = seen[IPv6]
    assert (outer.src, outer.dst, outer.nh, outer.hlim) == ("fcbb:0:3:e005::", "fcbb:0:e001:e002:e006::", 4, 64)
    assert (outer.tc, outer.fl) == (ROUTE.traffic_class, ROUTE.udp_source_port)
    assert outer.plen == len(inner) - 14
    assert bytes(seen[IP]) == inner[14:]
    assert seen[UDP].dport == roce.ROCE_PORT
    assert bytes(seen)[:12] == inner[:12]


@pytest.mark.parametrize("kind", ["acknowledge", "congestion_notification"])
def test_acknowledgements_and_notifications_name_their_path_too(kind):
    writer = roce.FrameWriter(ROUTE, TUNNEL)
    frame = writer.acknowledge(7, roce.ACK_SYNDROME, 3) if kind == "acknowledge" else writer.congestion_notification()
    seen = Ether(bytes(frame))
    assert seen[IPv6].dst == "fcbb:0:e001:e002:e006::"
    assert seen[IPv6].tc == seen[IP].tos


@pytest.mark.parametrize("marks", [0, 1, 2, 3])
def test_a_packet_is_taken_out_whole_with_the_outer_mark(marks):
    frame = written()
    frame[15] = frame[15] & 0xCF | marks << 4
    length = len(frame)
    packet = roce.parse(*unwrapped(frame, length))
    assert packet is not None
    assert (packet.psn, packet.payload_bytes, packet.icrc_valid) == (9, 300, True)
    marked = ROUTE.traffic_class | 3 if marks == 3 else ROUTE.traffic_class
    assert packet.traffic_class == marked


def test_a_frame_without_an_outer_header_is_left_as_it_is():
    frame = roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 9, True, 300, 5, 300)
    assert unwrapped(frame, len(frame)) == (frame, len(frame))
    other = written()
    other[20] = 41
    assert unwrapped(other, len(other))[1] == len(other)


@pytest.mark.parametrize("length", range(14, 100, 3))
def test_a_cut_frame_is_no_packet(length):
    frame = written()[:length]
    assert roce.parse(*unwrapped(frame, length)) is None


def test_another_path_is_named_from_the_next_frame_on():
    writer = roce.FrameWriter(ROUTE, TUNNEL)
    writer.write(roce.RC_RDMA_WRITE_ONLY, 9, True, 300)
    writer.lead("fcbb:0:e009::")
    frame = writer.write(roce.RC_RDMA_WRITE_ONLY, 10, True, 300)
    assert Ether(bytes(frame))[IPv6].dst == "fcbb:0:e009::"
    assert len(frame) == len(roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 10, True, 300)) + OUTER_BYTES
