"""RoCE packets inside an outer IPv6 header: as Scapy reads them, and taken out with the mark of the outer one."""

import socket

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6ND_NS, ICMPv6PacketTooBig, ICMPv6TimeExceeded, IPv6
from scapy.layers.l2 import Ether

from heddle.mininet_topos.wire import roce
from heddle.mininet_topos.wire.pause_frame import pause_frame
from heddle.mininet_topos.wire.sockets import ROCE_TO_HERE, attach_filter
from heddle.mininet_topos.wire.srv6 import OUTER_BYTES, Tunnel, quoted_by_error, unwrapped
from tests.packet.test_roce_frames import ROUTE

TUNNEL_SOURCE = "fcbb:0:3:e005::"
TUNNEL = Tunnel.of({"sid_source": TUNNEL_SOURCE, "sid": "fcbb:0:e001:e002:e006::"})


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


LINK = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def error(kind=ICMPv6DestUnreach, left: str = "fcbb:0:e002:e006::") -> bytearray:
    """Return an ICMPv6 error of a spine that quotes a frame as it was there."""
    quoted = Ether(bytes(written()))[IPv6]
    quoted.dst = left
    frame = LINK / IPv6(src="fcbb:0:1::1", dst=TUNNEL_SOURCE) / kind() / bytes(quoted)
    return bytearray(bytes(frame))


@pytest.mark.parametrize("kind", [ICMPv6DestUnreach, ICMPv6TimeExceeded])
def test_an_error_quotes_the_address_that_was_left(kind):
    frame = error(kind)
    found = quoted_by_error(frame, len(frame))
    assert found is not None
    assert socket.inet_ntop(socket.AF_INET6, found.left) == "fcbb:0:e002:e006::"
    assert (found.udp_source_port, found.destination_qp) == (ROUTE.udp_source_port, ROUTE.destination_qp)


def test_an_error_that_quotes_too_little_is_none():
    whole = error()
    lengths = [length for length in range(14, len(whole)) if quoted_by_error(whole[:length], length) is not None]
    assert lengths[0] == 14 + 40 + 8 + 40 + 20 + 8 + 8


def taken(frame: bytes) -> bool:
    """Return whether the filter of a NIC's socket takes a frame, by the kernel: it filters these sockets too."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        attach_filter(theirs, ROCE_TO_HERE)
        theirs.setblocking(False)
        ours.send(frame)
        try:
            return theirs.recv(16_384) == frame
        except BlockingIOError:
            return False


@pytest.mark.parametrize(
    ("frame", "is_taken"),
    [
        (bytes(written()), True),
        (bytes(roce.FrameWriter(ROUTE).write(roce.RC_RDMA_WRITE_ONLY, 9, True, 300)), True),
        (pause_frame(bytes(6), {3: 100}), True),
        (bytes(error()), True),
        (bytes(error(ICMPv6TimeExceeded)), True),
        (bytes(error(ICMPv6PacketTooBig)), False),
        (bytes(LINK / IPv6() / ICMPv6ND_NS()), False),
        (bytes(LINK / IPv6() / UDP(dport=roce.ROCE_PORT) / bytes(99)), False),
        (bytes(LINK / IPv6() / IP() / UDP(dport=53) / bytes(99)), False),
        (bytes(LINK / IP() / UDP(dport=53) / bytes(99)), False),
        (bytes(LINK / IP(frag=3) / UDP(dport=roce.ROCE_PORT) / bytes(99)), False),
        (bytes(LINK / IP(proto=6) / bytes(99)), False),
        (bytes(Ether(src=LINK.src, dst=LINK.dst, type=0x0806) / bytes(99)), False),
    ],
    ids=[
        "outer",
        "plain",
        "pause",
        "error",
        "exceeded",
        "too big",
        "neighbour",
        "ipv6",
        "inner",
        "port",
        "fragment",
        "tcp",
        "arp",
    ],
)
def test_a_nic_takes_roce_pauses_and_errors_about_paths_alone(frame, is_taken):
    assert taken(frame) == is_taken
