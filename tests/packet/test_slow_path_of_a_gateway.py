"""Packets through the compiled elements, the punt ring and the slow path: a gateway as its processes assemble it.

The slow path's transmissions of packets that the elements could not send are compared with the elements' own
transmissions of packets that they can send.
"""

from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_Router_Alert, defragment
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NS,
    ICMPv6PacketTooBig,
    IPv6,
)
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.control.slow.directory import Directory
from heddle.dataplane.control.slow.next_hops import NextHops
from heddle.dataplane.control.slow.slow_path import Outcome, SlowPath
from heddle.dataplane.engine.rings import PUNT_HEADER, PuntReader, Ring, begin_punt, empty_ring, publish, punted_bytes
from heddle.dataplane.jit import Bytes, Rows, kernel
from heddle.dataplane.packet.memory import copy
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of
from heddle.foundation.address import mac_text
from tests.fakes.gateway.elements import Elements
from tests.fakes.gateway.gateway_frames import RED_10, RED_11, arriving, dissected, inner, tunnelled
from tests.fakes.gateway.gateway_site import (
    CUSTOMER,
    EXTERNAL,
    HOST_A,
    HOST_C,
    HOST_MACS,
    LOCAL,
    NEIGHBOURS,
    NETWORK,
    PORT_MACS,
    RED,
    ROUTER_MAC,
    UNDERLAY,
    VTEP,
    site_tables,
)

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

SPORT = slice(34, 36)
"""Offset of the outer UDP source port, which the elements and the slow path choose differently."""
HOST_C_MAC = 0x02AA00000013


@kernel
def _punt(ring: Ring, memory: Bytes, packets: Rows) -> None:
    at = begin_punt(ring, packets[0], 0)
    copy(ring.data, at + PUNT_HEADER, memory, packets[0].start, punted_bytes(packets[0]))
    publish(ring, at)


class Gateway:
    def __init__(self) -> None:
        tables = site_tables()
        self.elements = Elements(LOCAL, tables)
        self.path = SlowPath(Directory(LOCAL, NETWORK), NextHops.of(tables))
        self.path.configure(self.path._directory, self.path._next_hops, 0)
        self.ring = empty_ring(1 << 16)

    def take(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Return ports and frames that leave because of one arriving frame."""
        fate = self.elements.one(port, frame)
        if fate.end == "sent":
            return [(int(fate.row["out_port"]), fate.frame)]
        assert fate.end == "punted", fate.why
        rows = np.zeros(1, fate.row.dtype)
        rows[0] = fate.row
        _punt(self.ring, self.elements.memory, rows)
        (punted,) = PuntReader(self.ring).read()
        return [(effect.port, effect.frame) for effect in self.path.handle(punted, 0)]


def only_reply(gateway: Gateway, frame: bytes, port: int = UNDERLAY, *, whole: bool = True) -> Packet:
    """Return the one frame that leaves; `whole` is False for one that is padded, or quotes part of a packet."""
    ((out, reply_frame),) = gateway.take(port, frame)
    assert out == port
    return dissected(reply_frame) if whole else Ether(reply_frame)


def in_tunnel(packet: Packet) -> Packet:
    assert (packet.src, packet[IP].src, packet[IP].dst) == (mac_text(PORT_MACS[UNDERLAY]), str(VTEP), str(HOST_A))
    assert (packet.dst, packet[VXLAN].vni) == (mac_text(HOST_MACS[HOST_A]), RED)
    within: Packet = packet[VXLAN].payload
    assert (within.src, within.dst) == (mac_text(gateway_mac(RED)), mac_text(RED_10))
    return within


def test_a_tenant_resolves_and_pings_its_gateway() -> None:
    gateway = Gateway()
    ask = Ether(src=mac_text(RED_10), dst="ff:ff:ff:ff:ff:ff") / ARP(
        hwsrc=mac_text(RED_10), psrc="10.0.0.10", pdst="10.0.0.1"
    )
    assert in_tunnel(only_reply(gateway, tunnelled(ask), whole=False))[ARP].hwsrc == mac_text(gateway_mac(RED))
    ping = IP(src="10.0.0.10", dst="10.0.0.1") / ICMP(id=3, seq=9) / Raw(b"data")
    pong = in_tunnel(only_reply(gateway, tunnelled(inner(ping))))
    assert (pong[IP].src, pong[ICMP].type, pong[ICMP].seq, pong[Raw].load) == ("10.0.0.1", 0, 9, b"data")


def test_a_tenant_resolves_and_pings_its_gateway_by_ipv6() -> None:
    gateway = Gateway()
    ask = IPv6(src="fd00::10", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt="fd00::1")
    found = only_reply(gateway, tunnelled(Ether(src=mac_text(RED_10), dst="33:33:ff:00:00:01") / ask))
    assert in_tunnel(found)[IPv6].src == "fd00::1"
    for address in ("fd00::1", "fe80::48:ff:fe00:64"):
        ping = IPv6(src="fd00::10", dst=address) / ICMPv6EchoRequest(id=3, seq=9)
        pong = in_tunnel(only_reply(gateway, tunnelled(inner(ping))))
        assert (pong[IPv6].src, pong[ICMPv6EchoReply].seq) == (address, 9)


def test_a_ping_of_the_nat_address_does_not_reach_an_endpoint() -> None:
    ping = arriving(EXTERNAL, IP(src="198.51.100.7", dst="203.0.113.10") / ICMP(id=5))
    pong = only_reply(Gateway(), ping, EXTERNAL)
    assert (pong[IP].src, pong[IP].dst, pong[ICMP].type, pong.dst) == (
        "203.0.113.10",
        "198.51.100.7",
        0,
        mac_text(ROUTER_MAC),
    )


def test_time_exceeded_quotes_the_packet_as_its_sender_made_it() -> None:
    packet = IP(src="10.0.0.10", dst="198.51.100.7", ttl=1, id=4) / UDP(sport=5, dport=6) / Raw(b"z" * 40)
    error_packet = in_tunnel(only_reply(Gateway(), tunnelled(inner(packet))))
    assert (error_packet[IP].src, error_packet[ICMP].type) == ("10.0.0.1", 11)
    assert bytes(error_packet[ICMP].payload) == bytes(packet)


@pytest.mark.parametrize("family", [4, 6])
def test_the_sender_of_an_oversized_packet_gets_the_next_hops_mtu(family: int) -> None:
    if family == 4:
        packet = IP(src="10.0.0.10", dst="198.51.100.7", flags="DF") / UDP() / Raw(bytes(2000))
        assert in_tunnel(only_reply(Gateway(), tunnelled(inner(packet)), whole=False))[ICMP].nexthopmtu == 1500
    else:
        packet = IPv6(src="fd00::10", dst="fd00::11") / UDP() / Raw(bytes(4300))
        assert in_tunnel(only_reply(Gateway(), tunnelled(inner(packet)), whole=False))[ICMPv6PacketTooBig].mtu == 4250


def parts_of(packet: Packet, mtu_bytes: int) -> list[Packet]:
    """Return the fragments of a packet with an option that all of them carry, by independent arithmetic."""
    whole, step = bytes(packet[IP])[24:], (mtu_bytes - 24) // 8 * 8
    parts = []
    for at in range(0, len(whole), step):
        ip = packet[IP].copy()
        ip.remove_payload()
        ip.proto, ip.frag, ip.len, ip.chksum = 17, at // 8, None, None
        ip.flags = "MF" if at + step < len(whole) else ""
        parts.append(ip / Raw(whole[at : at + step]))
    return parts


ALERT: dict[str, Any] = {"id": 9, "options": [IPOption_Router_Alert()]}
"""Packets with options are for the slow path."""
CUT: list[tuple[int, Any, Packet, int]] = [
    (EXTERNAL, None, IP(src="10.0.0.10", dst="198.51.100.7", tos=5, **ALERT) / UDP() / Raw(b"e" * 3500), 1500),
    (UNDERLAY, CUSTOMER, IP(src="10.99.0.5", dst="10.0.0.10", tos=7, **ALERT) / UDP() / Raw(b"c" * 9000), 4250),
    (UNDERLAY, RED_11, IP(src="10.0.0.10", dst="10.0.0.11", tos=2, **ALERT) / UDP() / Raw(b"b" * 4500), 4250),
]


@pytest.mark.parametrize(("out", "entry", "packet", "mtu_bytes"), CUT, ids=["to the internet", "routed in", "bridged"])
def test_a_fragmented_packet_leaves_like_its_fragments_would(
    out: int, entry: int | None, packet: Packet, mtu_bytes: int
) -> None:
    gateway = Gateway()

    def comes(ip: Packet) -> tuple[int, bytes]:
        if entry == CUSTOMER:
            return CUSTOMER, arriving(CUSTOMER, ip)
        return UNDERLAY, tunnelled(inner(ip) if entry is None else inner(ip, target=entry))

    cut = gateway.take(*comes(packet))
    assert gateway.path.outcomes == {Outcome.FRAGMENTED: 1}
    apart = [frame for part in parts_of(packet, mtu_bytes) for frame in gateway.take(*comes(part))]
    assert [port for port, _ in cut] == [out] * len(apart)
    if out == UNDERLAY:
        assert len({frame[SPORT] for _, frame in cut}) == 1
        cut, apart = ([(port, frame[:34] + frame[36:]) for port, frame in each] for each in (cut, apart))
    else:
        (joined,) = defragment([Ether(frame)[IP] for _, frame in cut])
        assert bytes(joined[UDP].payload) == bytes(packet[UDP].payload)
    assert cut == apart


def test_a_packet_for_an_unresolved_vtep_leaves_after_resolution() -> None:
    gateway, packet = Gateway(), IP(src="10.0.0.10", dst="10.0.0.12") / UDP() / Raw(b"first")
    assert gateway.take(UNDERLAY, tunnelled(inner(packet))) == []
    requested = {Ether(effect.frame)[ARP].pdst for effect in gateway.path.tick(0) if effect.port == UNDERLAY}
    assert str(HOST_C) in requested
    reply = ARP(op=2, hwsrc=mac_text(HOST_C_MAC), psrc=str(HOST_C), hwdst=mac_text(PORT_MACS[0]), pdst=str(VTEP))
    ((port, frame),) = gateway.take(
        UNDERLAY, bytes(Ether(src=mac_text(HOST_C_MAC), dst=mac_text(PORT_MACS[0])) / reply)
    )
    known = NEIGHBOURS | gateway.path.resolved()
    assert known[link_of(UNDERLAY), HOST_C] == HOST_C_MAC
    later = Elements(LOCAL, compile_tables(LOCAL, NETWORK, neighbours=known, generation=2))
    fate = later.one(UNDERLAY, tunnelled(inner(packet)))
    assert (fate.end, int(fate.row["out_port"])) == ("sent", port)
    assert frame[:34] + frame[36:] == fate.frame[:34] + fate.frame[36:]


def test_a_closed_port_of_the_gateway_refuses_tcp_and_udp() -> None:
    gateway, to = Gateway(), {"src": "10.0.0.10", "dst": "10.0.0.1"}
    syn = TCP(sport=5, dport=80, flags="S", seq=7)
    reset = in_tunnel(only_reply(gateway, tunnelled(inner(IP(**to) / syn))))[TCP]
    assert (reset.sport, reset.dport, reset.flags, reset.seq, reset.ack) == (80, 5, "RA", 0, 8)
    asked = IP(**to) / UDP(sport=5, dport=53) / Raw(b"question")
    error = in_tunnel(only_reply(gateway, tunnelled(inner(asked)), whole=False))
    assert (error[IP].src, error[ICMP].type, error[ICMP].code) == ("10.0.0.1", 3, 3)
    assert bytes(asked)[20:] in bytes(error)
    v6 = {"src": "fd00::10", "dst": "fd00::1"}
    assert in_tunnel(only_reply(gateway, tunnelled(inner(IPv6(**v6) / syn))))[TCP].ack == 8
    error = in_tunnel(only_reply(gateway, tunnelled(inner(IPv6(**v6) / UDP(sport=5, dport=53))), whole=False))
    assert (error[ICMPv6DestUnreach].code, error[IPv6].src) == (4, "fd00::1")


def test_all_neighbours_in_the_tables_are_resolved_at_once() -> None:
    gateway = Gateway()
    gateway.path.tick(0)
    assert len(gateway.path.neighbours) == len(NEIGHBOURS) + 1
    assert set(gateway.path.resolved()) == set()
