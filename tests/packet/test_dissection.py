"""Thousands of packets that the gateway sends, of all kinds, dissected by scapy and by Wireshark without a fault."""

import shutil

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Padding, Raw

from heddle.dataplane.config.addresses import gateway_mac
from heddle.foundation.address import mac_text
from tests.fakes.gateway.gateway_frames import arriving, dissected, inner, tunnelled
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_site import CUSTOMER, EXTERNAL, PROVIDER, UNDERLAY
from tests.fakes.gateway.two_tenants import BLUE, FLOATING, HOSTS, LOCAL, MACS, NAT, RED, VLANS, tenants_tables
from tests.support.examples import examples
from tests.support.packets.wireshark import wireshark_faults

ROUNDS = examples(50)
STEP = 4
"""Between the numbers of two rounds, so that few rounds have all sizes and marks."""
A, B, WORLD, STORAGE = "10.0.0.10", "10.0.0.11", "198.51.100.7", "172.16.5.5"
NUMBERS = {A: 0x10, B: 0x11, "fd00::10": 0x10}

pytestmark = pytest.mark.timeout(900)  # the first run compiles the kernels


def _leaving(number):
    """Return the packets that tenants send in one round: sizes, ports and marks change with the number."""
    body, port, tos = Raw(bytes(number * 13 % 1200)), 20000 + number, number * 5 % 256 & 0xFC | number % 3
    ip = {"tos": tos, "id": number, "ttl": 2 + number % 200}
    wide = {"src": "fd00::10", "dst": "fd00::12", "tc": tos, "fl": number}
    return [
        IP(src=A, dst=B, **ip) / UDP(sport=port, dport=5001) / body,
        IP(src=B, dst=A, **ip) / TCP(sport=port, dport=443, flags="S", options=[("MSS", 1400)]),
        IP(src=B, dst=WORLD, **ip) / UDP(sport=port, dport=5001) / body,
        IP(src=B, dst=WORLD, **ip) / UDP(sport=port, dport=5002, chksum=0) / body,
        IP(src=B, dst=WORLD, **ip) / TCP(sport=port, dport=443, flags="S"),
        IP(src=B, dst=WORLD, **ip) / ICMP(type=8, id=number, seq=1) / body,
        IP(src=A, dst=WORLD, **ip) / UDP(sport=port, dport=5001) / body,
        IP(src=A, dst="10.99.3.3", **ip) / UDP(sport=port, dport=5001) / body,
        IP(src=A, dst=STORAGE, **ip) / UDP(sport=port, dport=2049, chksum=0),
        *fragment(IP(src=B, dst=WORLD, **ip) / UDP(sport=port, dport=5003) / Raw(bytes(1000)), 600),
        IPv6(**wide) / UDP(sport=port, dport=5001) / body,
        IPv6(**wide) / ICMPv6EchoRequest(id=number) / body,
        IPv6(**wide) / IPv6ExtHdrDestOpt() / TCP(sport=port, dport=443, flags="S"),
        IPv6(**wide) / IPv6ExtHdrFragment(id=number) / UDP(sport=port, dport=5002) / body,
    ]  # fmt: skip


def _arriving(number, vni):
    body, port = Raw(bytes(number * 7 % 1400)), 20000 + number
    nat, floating = str(NAT[vni]), str(FLOATING[vni])
    quoted = IP(src=nat, dst=WORLD, id=number) / UDP(sport=port, dport=5001) / Raw(bytes(8))
    return [
        (EXTERNAL, IP(src=WORLD, dst=nat) / UDP(sport=5001, dport=port) / body),
        (EXTERNAL, IP(src=WORLD, dst=nat) / TCP(sport=443, dport=port, flags="SA")),
        (EXTERNAL, IP(src=WORLD, dst=nat) / ICMP(type=0, id=number, seq=1) / body),
        (EXTERNAL, IP(src="198.51.100.1", dst=nat) / ICMP(type=11) / quoted),
        (EXTERNAL, IP(src=WORLD, dst=floating) / UDP(sport=port, dport=5005) / body),
        (CUSTOMER, IP(src="10.99.3.3", dst=A) / UDP(sport=port, dport=5001) / body),
        (PROVIDER, IP(src=STORAGE, dst="172.31.0.2") / UDP(sport=2049, dport=port, chksum=0)),
    ]


@pytest.fixture(scope="module")
def frames():
    """The frames that leave in all rounds."""
    loop, left = GatewayLoop(LOCAL, tenants_tables()), []

    def send(port, *frames):
        return [(out, frame) for out, sent in loop.through(port, *frames).items() for frame in sent]

    for number in range(0, STEP * ROUNDS, STEP):
        for vni in (RED, BLUE):
            sent = []
            for packet in _leaving(number):
                frame = inner(packet, source=MACS[vni] + NUMBERS[packet.src], target=gateway_mac(vni))
                if packet.dst == B:
                    frame.dst = mac_text(MACS[vni] + NUMBERS[B])
                sent.append(tunnelled(frame, vni=vni, host=HOSTS[vni], tos=frame.payload.fields.get("tos", 0)))
            left += send(UNDERLAY, *sent)
            for port, packet in _arriving(number, vni):
                left += send(port, arriving(port, packet, vlan=VLANS[vni]))
    return left


def test_the_sent_frames_are_of_all_kinds(frames):
    assert len(frames) > 30 * ROUNDS
    by_port = {port: sum(out == port for out, _ in frames) for port in range(4)}
    assert min(by_port.values()) >= ROUNDS


def test_scapy_dissects_sent_frames_and_builds_equal_ones(frames):
    for _, frame in frames:
        if is_fragment(frame):  # without a verifiable checksum
            packet = Ether(frame)
            assert Padding not in packet
            assert bytes(packet) == frame
        else:
            dissected(frame)


def is_fragment(frame):
    """Return whether a frame's innermost packet is a fragment."""
    packet = Ether(frame)
    packet = packet[VXLAN].payload if VXLAN in packet else packet
    return IP in packet and bool(packet[IP].flags.MF or packet[IP].frag)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_finds_no_fault_in_sent_frames(frames, tmp_path):
    assert wireshark_faults([frame for _, frame in frames], tmp_path) == ""


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_finds_a_planted_fault(frames, tmp_path):
    broken = bytearray(next(frame for port, frame in frames if port == EXTERNAL))
    broken[24] ^= 1  # of the header checksum
    assert wireshark_faults([frames[0][1], bytes(broken)], tmp_path).startswith("2\t")
