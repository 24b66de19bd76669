"""Mutated frames never make the slow path raise, and the frames that it sends are always valid."""

import random
from collections import Counter

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.control.slow.slow_path import Outcome
from heddle.dataplane.engine.reasons import Punt
from tests.fakes.gateway.slow_network import (
    A_6,
    A_MAC,
    B_6,
    CUSTOMER,
    CUSTOMER_ROUTER,
    EXTERNAL,
    GATEWAY,
    GATEWAY_6,
    HOST_MAC,
    HOST_VTEP,
    NAT,
    PORT_MACS,
    PROVIDER,
    RED,
    RED_MAC,
    ROUTER,
    UNDERLAY,
    VLAN,
    VTEP,
    A,
    punted,
    slow_path,
)

PACKETS = 100_000
EVERYONE, ROUTER_MAC = "ff:ff:ff:ff:ff:ff", "02:00:00:00:99:01"


def tunnelled(inner: Packet) -> bytes:
    outer = Ether(src=HOST_MAC, dst=PORT_MACS[UNDERLAY]) / IP(src=HOST_VTEP, dst=VTEP, flags="DF")
    return bytes(outer / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=RED, flags=8) / inner)


def seeds() -> list[tuple[int, bytes]]:
    """Return (port, frame) pairs from every side, of every kind that is punted."""
    request, reply = ARP(op=1, hwsrc=A_MAC, psrc=A, pdst=GATEWAY), ARP(op=2, hwsrc=ROUTER_MAC, psrc=ROUTER, pdst=NAT)
    solicit = IPv6(src=A_6, dst="ff02::1:ff00:6", hlim=255) / ICMPv6ND_NS(tgt=B_6)
    advertise = IPv6(src="fd00:1::fa", dst="fe80::1", hlim=255) / ICMPv6ND_NA(tgt="fd00:1::fa", S=1)
    tenant = Ether(src=A_MAC, dst=RED_MAC)
    options = [IPOption(b"\x94\x04\x00\x00"), IPOption(b"\x07\x07\x04\x01\x02\x03\x04"), IPOption(b"\x01")]
    chain = IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(id=5, m=1)
    inner = [
        Ether(src=A_MAC, dst=EVERYONE) / request,
        Ether(src=A_MAC, dst=EVERYONE) / solicit / ICMPv6NDOptSrcLLAddr(lladdr=A_MAC),
        tenant / IP(src=A, dst=GATEWAY) / ICMP() / Raw(b"ping"),
        tenant / IPv6(src=A_6, dst=GATEWAY_6) / ICMPv6EchoRequest(data=b"ping"),
        tenant / IP(src=A, dst="198.51.100.7", options=options) / UDP() / Raw(bytes(2500)),
        tenant / IP(src=A, dst="198.51.100.7", flags="DF") / TCP() / Raw(bytes(1600)),
        tenant / IPv6(src=A_6, dst="2001:db8::1") / chain / UDP() / Raw(bytes(200)),
        tenant / IP(src=A, dst="198.51.100.7") / TCP(flags="A") / Raw(b"lost"),
        Ether(src=A_MAC, dst=EVERYONE) / IPv6(src="fe80::5", dst="ff02::2", hlim=255) / ICMPv6ND_RS(),
    ]
    tagged = Ether(src=ROUTER_MAC, dst=EVERYONE) / Dot1Q(vlan=VLAN)
    outside = [
        (EXTERNAL, Ether(src=ROUTER_MAC, dst=PORT_MACS[EXTERNAL]) / reply),
        (EXTERNAL, Ether(src=ROUTER_MAC, dst=PORT_MACS[EXTERNAL]) / IP(src="198.51.100.7", dst=NAT) / ICMP()),
        (PROVIDER, Ether(src=ROUTER_MAC, dst=PORT_MACS[PROVIDER]) / IP(src="172.16.5.5", dst="172.16.0.2") / TCP()),
        (UNDERLAY, Ether(src=HOST_MAC, dst=EVERYONE) / ARP(op=1, hwsrc=HOST_MAC, psrc=HOST_VTEP, pdst=VTEP)),
        (CUSTOMER, tagged / ARP(op=1, hwsrc=ROUTER_MAC, psrc=CUSTOMER_ROUTER, pdst=A)),
        (CUSTOMER, tagged / advertise / ICMPv6NDOptDstLLAddr(lladdr=ROUTER_MAC)),
    ]
    return [(UNDERLAY, tunnelled(frame)) for frame in inner] + [(port, bytes(frame)) for port, frame in outside]


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """Return the frame with a few bytes changed, truncated, repeated or inserted."""
    data = bytearray(frame)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at = chance.randrange(min(len(data), 120)) if data else 0
        match chance.randrange(6):
            case 0 | 1 if data:
                data[at] = chance.randrange(256)
            case 2 if data:
                data[at] ^= 1 << chance.randrange(8)
            case 3:
                del data[chance.randrange(len(data) + 1) :]
            case 4:
                data[at:at] = data[at : at + chance.randrange(1, 40)]
            case _ if data:
                data[at] = chance.choice((0, 1, 127, 128, 255))
    return bytes(data)


def test_a_hundred_thousand_mutated_packets_are_all_counted_and_none_raises() -> None:
    chance, path, given = random.Random(20260101), slow_path(), seeds()
    path.configure(path._directory, path._next_hops, 0)
    reasons, sent = list(Punt), Counter[int]()
    for number in range(PACKETS):
        port, frame = chance.choice(given)
        broken = mutated(frame, chance)
        missing = chance.choice((0, 0, 0, 5000))
        hop, vni = chance.choice((-1, 0, 1, 2, 3, 4, 1 << 50)), chance.choice((0, RED, 999, 1 << 23))
        now_ns = number * 1_000_000
        for effect in path.handle(punted(chance.choice(reasons), broken, port, vni, hop, missing), now_ns):
            assert effect.port in range(4)
            assert 42 <= len(effect.frame) <= len(broken) + 700
            sent[effect.port] += 1
        path.tick(now_ns)
    assert path.outcomes.total() == PACKETS
    assert set(Outcome) - set(path.outcomes) <= {
        Outcome.RATE_LIMITED,
        Outcome.LEARNED,
        Outcome.GATHERED,
        Outcome.AWAITS_COPY,
    }
    assert set(sent) == {UNDERLAY, EXTERNAL, CUSTOMER, PROVIDER}
    assert len(path.neighbours) < 1 << 14
