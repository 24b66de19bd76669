"""Compare the gateway's NAT with Linux's on the same packets: the same packets pass, byte for byte.

What differs, and is meant to: the gateway's mappings are endpoint-independent (RFC 4787, REQ-1), Linux's are by
connection, so that two endpoints may have the same port towards two remotes; a gateway gives ports and ICMP identifiers
of its share alone, from 1,024 on, Linux keeps lower ones; Linux collects fragments before it looks at them, the gateway
drops one that comes before its first.
"""

import shutil
import struct

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.packet import Packet, Raw

from heddle.dataplane.config.addresses import gateway_mac
from heddle.foundation.address import mac_text
from tests.fakes.gateway.gateway_frames import arriving, inner, tunnelled
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_site import EXTERNAL, HOST_A, HOST_C, UNDERLAY
from tests.fakes.gateway.two_tenants import LOCAL, MACS, RED, tenants_tables
from tests.oracles.inet_checksum import ones_complement
from tests.support.packets.kernel_nat import KernelNat

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),  # the first run compiles
    pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed; scripts/setup all installs it"),
]

A, B, PUBLISHED = "10.0.0.11", "10.0.0.12", "10.0.0.10"
NAT, FLOATING = "203.0.113.10", "203.0.113.20"
WORLD, OTHER, ROUTER = "198.51.100.7", "198.51.100.8", "198.51.100.1"
BODY = Raw(b"heddle and shuttle")


class OurNat:
    """The gateway, with the same two ends."""

    def __init__(self):
        self._loop = GatewayLoop(LOCAL, tenants_tables())

    def inside(self, *packets):
        frames = []
        for packet in packets:
            last = int(packet.src.rsplit(".", 1)[1])
            frame = inner(packet, source=MACS[RED] + last + 6, target=gateway_mac(RED))
            frames.append(tunnelled(frame, vni=RED, host=HOST_C if packet.src == B else HOST_A))
        return [frame[14:] for frame in self._loop.through(UNDERLAY, *frames).get(EXTERNAL, [])]

    def outside(self, *packets):
        sent = self._loop.through(EXTERNAL, *(arriving(EXTERNAL, packet) for packet in packets))
        frames = [frame for of_port in sent.values() for frame in of_port]
        assert all(mac_text(int.from_bytes(frame[56:62], "big")) == mac_text(gateway_mac(RED)) for frame in frames)
        return [frame[64:] for frame in sent.get(UNDERLAY, [])]


@pytest.fixture
def nats():
    kernel = KernelNat()
    yield OurNat(), kernel
    kernel.close()


def udp(source, target, ports, **fields):
    return IP(src=source, dst=target, id=77) / UDP(sport=ports[0], dport=ports[1], **fields) / BODY


def tcp(source, target, ports, flags, seq, ack=0, body=b""):
    return IP(src=source, dst=target) / TCP(sport=ports[0], dport=ports[1], flags=flags, seq=seq, ack=ack) / Raw(body)


def about(router, target, packet: bytes | Packet, **fields):
    return IP(src=router, dst=target) / ICMP(**fields) / Raw(bytes(packet)[:60])


OUT = (40000, 53)
BACK = (53, 40000)


def _datagrams(nat):
    yield nat.inside(udp(A, WORLD, OUT))
    yield nat.outside(udp(WORLD, NAT, BACK))
    yield nat.inside(udp(A, OTHER, OUT))
    yield nat.outside(udp(OTHER, NAT, BACK))
    yield nat.outside(udp(WORLD, NAT, (54, 40000)))  # not the port of the request


def _datagrams_without_checksum(nat):
    yield nat.inside(udp(A, WORLD, OUT, chksum=0))
    yield nat.outside(udp(WORLD, NAT, BACK, chksum=0))


def _datagrams_with_a_wrong_checksum(nat):
    yield nat.inside(udp(A, WORLD, OUT, chksum=0x1234))


def _a_tcp_connection(nat):
    out, back = (40001, 443), (443, 40001)
    yield nat.inside(tcp(A, WORLD, out, "S", 100))
    yield nat.outside(tcp(WORLD, NAT, back, "SA", 500, 101))
    yield nat.inside(tcp(A, WORLD, out, "A", 101, 501))
    yield nat.inside(tcp(A, WORLD, out, "PA", 101, 501, b"question"))
    yield nat.outside(tcp(WORLD, NAT, back, "PA", 501, 109, b"answer"))
    yield nat.inside(tcp(A, WORLD, out, "FA", 109, 507))
    yield nat.outside(tcp(WORLD, NAT, back, "FA", 507, 110))
    yield nat.inside(tcp(A, WORLD, out, "A", 110, 508))


def _a_refused_tcp_connection(nat):
    yield nat.inside(tcp(A, WORLD, (40002, 443), "S", 100))
    yield nat.outside(tcp(WORLD, NAT, (443, 40002), "RA", 0, 101))


def _pings(nat):
    yield nat.inside(IP(src=A, dst=WORLD) / ICMP(type=8, id=7000, seq=1) / BODY)
    yield nat.outside(IP(src=WORLD, dst=NAT) / ICMP(type=0, id=7000, seq=1) / BODY)


def _a_ping_with_the_identifier_of_another_way_round(nat):
    yield nat.inside(IP(src=PUBLISHED, dst=WORLD) / ICMP(type=8, id=7201) / BODY)
    yield nat.outside(IP(src=WORLD, dst=FLOATING) / ICMP(type=8, id=7201) / BODY)
    yield nat.inside(IP(src=PUBLISHED, dst=WORLD) / ICMP(type=0, id=7201) / BODY)
    yield nat.outside(IP(src=WORLD, dst=FLOATING) / ICMP(type=0, id=7201) / BODY)
    yield nat.inside(IP(src=A, dst=WORLD) / ICMP(type=8, id=7202) / BODY)
    yield nat.outside(IP(src=WORLD, dst=NAT) / ICMP(type=8, id=7202) / BODY)
    yield nat.outside(IP(src=WORLD, dst=NAT) / ICMP(type=0, id=7202) / BODY)


def _other_queries(nat):
    for query, reply, body in ((13, 14, bytes(12)), (17, 18, bytes(4))):
        yield nat.inside(IP(src=A, dst=WORLD, proto=1) / _query(query, 7100, body))
        yield nat.inside(IP(src=B, dst=WORLD, proto=1) / _query(query, 7101, body))
        yield nat.outside(IP(src=WORLD, dst=NAT, proto=1) / _query(reply, 7101, body))
        yield nat.outside(IP(src=WORLD, dst=NAT, proto=1) / _query(reply, 7100, body))
    left = nat.inside(IP(src=A, dst=WORLD, proto=1) / _query(13, 7102, bytes(12)))
    yield nat.outside(about(ROUTER, NAT, left[0], type=11, code=0))


def _query(kind, identifier, body):
    """Return an ICMP query by its bytes: scapy has no identifier for some."""
    message = struct.pack("!BBHHH", kind, 0, 0, identifier, 1) + body
    return Raw(message[:2] + ones_complement(message).to_bytes(2, "big") + message[4:])


def _errors_about_what_left(nat):
    for packet in (udp(A, WORLD, OUT), tcp(A, WORLD, (40003, 443), "S", 100)):
        left = nat.inside(packet)
        yield left
        yield nat.outside(about(ROUTER, NAT, left[0], type=11, code=0))
        yield nat.outside(about(WORLD, NAT, left[0], type=3, code=3))
        yield nat.outside(about(ROUTER, NAT, left[0], type=3, code=4))
    left = nat.inside(IP(src=A, dst=WORLD) / ICMP(type=8, id=7001) / BODY)
    yield nat.outside(about(ROUTER, NAT, left[0], type=11, code=0))


def _errors_about_what_entered(nat):
    entered = nat.outside(udp(WORLD, FLOATING, (9, 5005)))
    yield entered
    yield nat.inside(about(PUBLISHED, WORLD, entered[0], type=3, code=3))


def _published_services(nat):
    yield nat.outside(udp(WORLD, FLOATING, (9, 5005)))
    yield nat.inside(udp(PUBLISHED, WORLD, (5005, 9)))
    yield nat.outside(tcp(WORLD, FLOATING, (9, 443), "S", 5))
    yield nat.inside(tcp(PUBLISHED, WORLD, (443, 9), "SA", 7, 6))
    yield nat.outside(IP(src=WORLD, dst=FLOATING) / ICMP(type=8, id=9) / BODY)
    yield nat.inside(IP(src=PUBLISHED, dst=WORLD) / ICMP(type=0, id=9) / BODY)
    yield nat.inside(udp(PUBLISHED, WORLD, (6000, 53)))
    yield nat.outside(udp(WORLD, FLOATING, (53, 6000)))


def _unsolicited(nat):
    yield nat.outside(udp(WORLD, NAT, BACK))
    yield nat.outside(tcp(WORLD, NAT, (9, 443), "S", 1))
    yield nat.outside(udp(WORLD, FLOATING, (9, 6001)))
    yield nat.outside(tcp(WORLD, FLOATING, (9, 22), "S", 1))
    yield nat.outside(IP(src=WORLD, dst=NAT) / ICMP(type=0, id=9) / BODY)
    yield nat.outside(IP(src=WORLD, dst=FLOATING) / ICMP(type=0, id=9) / BODY)
    yield nat.outside(about(ROUTER, NAT, udp(NAT, WORLD, OUT), type=11, code=0))
    yield nat.outside(tcp(WORLD, FLOATING, (9, 443), "A", 1, 1))
    yield nat.inside(tcp(A, WORLD, (40009, 443), "A", 1, 1))
    yield nat.inside(IP(src=A, dst=WORLD) / ICMP(type=0, id=9) / BODY)
    yield nat.inside(about(A, WORLD, udp(WORLD, A, BACK), type=3, code=3))


def _fragments(nat):
    yield nat.inside(*fragment(udp(A, WORLD, OUT) / Raw(bytes(3000)), 1200))
    yield nat.outside(*fragment(udp(WORLD, NAT, BACK) / Raw(bytes(3000)), 1200))
    yield nat.outside(*fragment(udp(WORLD, FLOATING, (9, 5005)) / Raw(bytes(3000)), 1200))
    yield nat.outside(*fragment(udp(WORLD, FLOATING, (9, 6001)) / Raw(bytes(3000)), 1200))


SCENES = (
    _datagrams, _datagrams_without_checksum, _datagrams_with_a_wrong_checksum, _a_tcp_connection,
    _a_refused_tcp_connection, _pings, _a_ping_with_the_identifier_of_another_way_round,
    _other_queries, _errors_about_what_left, _errors_about_what_entered, _published_services,
    _unsolicited, _fragments,
)  # fmt: skip


def shown(steps):
    return [[IP(packet).summary() + " " + packet.hex() for packet in step] for step in steps]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.strip("_"))
def test_the_same_packets_leave_as_from_the_kernel(nats, scene):
    ours, kernels = (list(scene(nat)) for nat in nats)
    assert shown(ours) == shown(kernels)
    assert any(ours) or scene is _unsolicited


def test_two_endpoints_with_one_port_towards_one_remote_are_distinguished_as_by_the_kernel(nats):
    for nat in nats:
        ports = [IP(nat.inside(udp(source, WORLD, OUT))[0])[UDP].sport for source in (A, B)]
        assert ports[0] == OUT[0] != ports[1]
        for port, endpoint in zip(ports, (A, B), strict=True):
            (reply,) = nat.outside(udp(WORLD, NAT, (53, port)))
            assert (IP(reply).dst, IP(reply)[UDP].dport) == (endpoint, OUT[0])


def test_towards_two_remotes_only_the_kernel_gives_two_endpoints_one_port(nats):
    ours, kernels = (
        [IP(nat.inside(udp(source, target, OUT))[0])[UDP].sport for source, target in ((A, WORLD), (B, OTHER))]
        for nat in nats
    )
    assert kernels == [OUT[0], OUT[0]]
    assert ours[0] == OUT[0] != ours[1]


def test_a_fragment_before_its_first_passes_the_kernel_alone(nats):
    parts = fragment(udp(A, WORLD, OUT) / Raw(bytes(1500)), 1200)
    ours, kernels = (nat.inside(*reversed(parts)) for nat in nats)
    assert len(kernels) == len(parts)
    assert [IP(packet).frag for packet in ours] == [0]
