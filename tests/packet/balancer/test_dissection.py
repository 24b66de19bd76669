"""The packets that the balancer sends, of all kinds, dissected by scapy and by Wireshark without a fault."""

import shutil

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6PacketTooBig, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Padding, Raw

from tests.fakes.balancer_site import GATEWAY, HOST_B, VIP, VIP6, BalancerLoop, tunnelled
from tests.fakes.gateway.gateway_frames import dissected
from tests.support.examples import examples
from tests.support.packets.wireshark import wireshark_faults

ROUNDS = examples(26)
STEP = 3
"""Between the numbers of two rounds, so that few rounds have all sizes."""
pytestmark = pytest.mark.timeout(900)  # the first run compiles the kernels


def _arriving(number):
    """Return what clients send in one round: sizes and ports change with the number."""
    body, port = Raw(bytes(number * 31 % 1200)), 20000 + number
    four, six = IP(src="10.0.0.10", dst=str(VIP), id=number), IPv6(src="fd00::10", dst=str(VIP6), fl=number)
    quoted = IP(src=str(VIP), dst="10.0.0.10", id=number) / TCP(sport=80, dport=port, flags="A")
    quoted6 = IPv6(src=str(VIP6), dst="fd00::10") / TCP(sport=443, dport=port, flags="A")
    inner = [network / TCP(sport=port, dport=dport, flags=flags) / body
             for network in (four, six) for dport in (80, 443, 8080, 81) for flags in ("S", "A", "FA")]  # fmt: skip
    inner += [four / UDP(sport=port, dport=dport) / body for dport in (53, 123)]
    inner += [four / UDP(sport=port, dport=4791) / Raw(bytes(28 + number))]  # RoCE: with its headers and ICRC
    inner += [four / UDP(sport=port, dport=123, chksum=0) / body]
    # scapy takes what follows 128 quoted bytes for an extension of RFC 4884
    inner += [four / UDP(sport=port, dport=9) / Raw(bytes(number))]
    inner += [four / ICMP(id=number) / body, six / ICMPv6EchoRequest(id=number) / body, six / UDP(sport=port, dport=9)]
    inner += [four / ICMP(type=3, code=4) / quoted, six / ICMPv6PacketTooBig(mtu=1280) / quoted6]
    inner += fragment(four / UDP(sport=port, dport=53) / Raw(bytes(1200)), 600)
    outside = tunnelled(IP(src="8.8.8.8", dst=str(VIP), id=number) / TCP(sport=port, dport=443, flags="S"),
                        host=GATEWAY, last=1)  # fmt: skip
    return [*(tunnelled(packet) for packet in inner), outside]


@pytest.fixture(scope="module")
def frames():
    """All frames that leave, those with replies of back ends included."""
    loop, left = BalancerLoop(), []
    for number in range(0, STEP * ROUNDS, STEP):
        sent = loop.through(*_arriving(number))
        left += sent
        left += loop.through(*_replies(sent))
    return [bytes(frame) for frame in left]


def _replies(sent):
    """Return what back ends reply to what reached them from the pool, by IPv4."""
    for frame in sent:
        inner = frame.payload.payload.payload.payload  # Ethernet, IP, UDP, VXLAN
        packet = inner[IP] if inner and IP in inner else None
        if packet is not None and packet.src.startswith("10.0.0.20") and (TCP in packet or UDP in packet):
            kind = TCP if TCP in packet else UDP
            there = packet[kind]
            back = IP(src=packet.dst, dst=packet.src) / kind(sport=there.dport, dport=there.sport) / Raw(b"reply")
            yield tunnelled(back, host=HOST_B, last=int(packet.dst.rsplit(".")[-1]))


def test_the_sent_frames_are_of_all_kinds(frames):
    packets = [Ether(frame) for frame in frames]
    assert len(packets) > 30 * ROUNDS
    for protocol in (4, 17, 41):  # IP-in-IP of both families, VXLAN
        assert sum(packet[IP].proto == protocol for packet in packets) >= ROUNDS


def test_scapy_dissects_sent_frames_and_builds_equal_ones(frames):
    for frame in frames:
        packet = Ether(frame)
        if any(layer.flags.MF or layer.frag for layer in packet.iterpayloads() if isinstance(layer, IP)):
            assert Padding not in packet
            assert bytes(packet) == frame
        else:
            dissected(frame)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_finds_no_fault_in_sent_frames(frames, tmp_path):
    assert wireshark_faults(frames, tmp_path) == ""


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_finds_a_planted_fault(frames, tmp_path):
    broken = bytearray(frames[1])
    broken[14 + 20 + 8 + 8 + 14 + 10] ^= 1  # of the inner header checksum
    assert wireshark_faults([frames[0], bytes(broken)], tmp_path).startswith("2\t")
