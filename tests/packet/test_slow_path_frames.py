"""Every frame of the slow path byte for byte against scapy's, an independent implementation."""

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr,
    ICMPv6NDOptSrcLLAddr,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.control.slow.directory import Duty
from heddle.dataplane.control.slow.slow_path import Outcome, Send, SlowPath
from heddle.dataplane.engine.reasons import Punt
from tests.fakes.gateway.slow_network import (
    A_6,
    A_MAC,
    B_6,
    B_MAC,
    BLUE,
    BLUE_MAC,
    CUSTOMER,
    CUSTOMER_ROUTER,
    CUSTOMER_ROUTER_6,
    EXTERNAL,
    EXTERNAL_ADDRESS,
    EXTERNAL_HOP,
    FLOATING,
    GATEWAY,
    GATEWAY_6,
    HOST_MAC,
    HOST_VTEP,
    NAT,
    ON_LINK_HOP,
    OTHER_VTEP,
    PORT_MACS,
    PROVIDER,
    PROVIDER_ADDRESS,
    RED,
    RED_MAC,
    ROUTER,
    ROUTER_MAC,
    TUNNEL_HOP,
    UNDERLAY,
    VLAN,
    VTEP,
    A,
    B,
    punted,
    slow_path,
)

BROADCAST = "ff:ff:ff:ff:ff:ff"
PADDING = Raw(bytes(18))


def tunnelled(inner: Packet, vni: int = RED, tos: int = 0) -> bytes:
    outer = Ether(src=HOST_MAC, dst=PORT_MACS[UNDERLAY]) / IP(src=HOST_VTEP, dst=VTEP, flags="DF", id=7, tos=tos)
    return bytes(outer / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=vni, flags=8) / inner)


def back_in_tunnel(inner: Packet, ours: bytes, vni: int = RED, tos: int = 0) -> bytes:
    """Return the reply that scapy builds; the source port is any of 49152 to 65535."""
    port = int.from_bytes(ours[34:36], "big")
    assert port >= 49_152
    outer = Ether(src=PORT_MACS[UNDERLAY], dst=HOST_MAC) / IP(src=VTEP, dst=HOST_VTEP, flags="DF", id=0, tos=tos)
    return bytes(outer / UDP(sport=port, dport=4789, chksum=0) / VXLAN(vni=vni, flags=8) / inner)


def only(path: SlowPath, reason: Punt, frame: Packet | bytes, port: int = UNDERLAY, hop: int = -1) -> bytes:
    (effect,) = path.handle(punted(reason, bytes(frame), port, hop=hop), 0)
    assert isinstance(effect, Send)
    assert effect.port == port
    return effect.frame


def arp_reply(mac: str, address: str, to_mac: str, to: str) -> Packet:
    return Ether(src=mac, dst=to_mac) / ARP(op=2, hwsrc=mac, psrc=address, hwdst=to_mac, pdst=to) / PADDING


def who_has(address: str, mac: str = A_MAC, sender: str = A) -> Packet:
    return Ether(src=mac, dst=BROADCAST) / ARP(op=1, hwsrc=mac, psrc=sender, pdst=address)


@pytest.mark.parametrize(("vni", "mac"), [(RED, RED_MAC), (BLUE, BLUE_MAC)])
def test_arp_for_the_gateway_returns_the_mac_of_the_tenants_own_vpc(vni, mac):
    ours = only(slow_path(), Punt.ARP, tunnelled(who_has(GATEWAY), vni))
    assert ours == back_in_tunnel(arp_reply(mac, GATEWAY, A_MAC, A), ours, vni)


def test_arp_for_an_endpoint_returns_the_endpoints_own_mac():
    ours = only(slow_path(), Punt.ARP, tunnelled(who_has(B)))
    assert ours == back_in_tunnel(arp_reply(B_MAC, B, A_MAC, A), ours)


def test_an_arp_probe_for_an_address_in_use_gets_a_reply():
    ours = only(slow_path(), Punt.ARP, tunnelled(who_has(B, sender="0.0.0.0")))
    assert ours == back_in_tunnel(arp_reply(B_MAC, B, A_MAC, "0.0.0.0"), ours)


@pytest.mark.parametrize(
    ("port", "address"),
    [
        (UNDERLAY, VTEP),
        (EXTERNAL, EXTERNAL_ADDRESS),
        (EXTERNAL, NAT),
        (EXTERNAL, FLOATING),
        (PROVIDER, PROVIDER_ADDRESS),
    ],
)
def test_arp_for_an_address_of_the_gateway_returns_the_ports_mac(port, address):
    ours = only(slow_path(), Punt.ARP, who_has(address, ROUTER_MAC, ROUTER), port)
    assert ours == bytes(arp_reply(PORT_MACS[port], address, ROUTER_MAC, ROUTER))


@pytest.mark.parametrize("address", [GATEWAY, A, B])
def test_proxy_arp_serves_a_customers_router_for_the_whole_vpc(address):
    requests = who_has(address, ROUTER_MAC, CUSTOMER_ROUTER)
    tagged = Ether(src=ROUTER_MAC, dst=BROADCAST) / Dot1Q(vlan=VLAN) / requests[ARP]
    mac = PORT_MACS[CUSTOMER]
    reply = ARP(op=2, hwsrc=mac, psrc=address, hwdst=ROUTER_MAC, pdst=CUSTOMER_ROUTER) / PADDING
    expected = Ether(src=mac, dst=ROUTER_MAC) / Dot1Q(vlan=VLAN) / reply
    assert only(slow_path(), Punt.ARP, tagged, CUSTOMER) == bytes(expected)


def solicitation(target: str, source: str = A_6, option: bool = True) -> Packet:
    group, mac = "ff02::1:ff00:" + target.rsplit(":", 1)[1], A_MAC
    packet = Ether(src=mac, dst="33:33:ff:00:00:01") / IPv6(src=source, dst=group, hlim=255) / ICMPv6ND_NS(tgt=target)
    return packet / ICMPv6NDOptSrcLLAddr(lladdr=mac) if option else packet


@pytest.mark.parametrize(("target", "mac", "router"), [(GATEWAY_6, RED_MAC, 1), (B_6, B_MAC, 0)])
def test_a_tenants_solicitation_gets_an_advertisement(target, mac, router):
    ours = only(slow_path(), Punt.NEIGHBOUR, tunnelled(solicitation(target)))
    reply = ICMPv6ND_NA(tgt=target, R=router, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=mac)
    expected = Ether(src=mac, dst=A_MAC) / IPv6(src=target, dst=A_6, hlim=255) / reply
    assert ours == back_in_tunnel(expected, ours)


def test_an_advertisement_to_the_unspecified_address_goes_to_all_nodes():
    ours = only(slow_path(), Punt.NEIGHBOUR, tunnelled(solicitation(B_6, "::", option=False)))
    reply = ICMPv6ND_NA(tgt=B_6, R=0, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=B_MAC)
    expected = Ether(src=B_MAC, dst="33:33:00:00:00:01") / IPv6(src=B_6, dst="ff02::1", hlim=255) / reply
    assert ours == back_in_tunnel(expected, ours)


def test_a_subnets_gateway_replies_to_ping():
    data = Raw(b"x" * 57)
    ask = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst=GATEWAY, tos=0xB9, id=99) / ICMP(id=5, seq=6) / data
    ours = only(slow_path(), Punt.FOR_GATEWAY, tunnelled(ask))
    reply = IP(src=GATEWAY, dst=A, id=0, flags="DF", tos=0xB8) / ICMP(type=0, id=5, seq=6) / data
    assert ours == back_in_tunnel(Ether(src=RED_MAC, dst=A_MAC) / reply, ours, tos=0xB8)


def test_a_subnets_gateway_replies_to_ipv6_ping():
    data = Raw(b"y" * 56)
    ask = Ether(src=A_MAC, dst=RED_MAC) / IPv6(src=A_6, dst=GATEWAY_6) / ICMPv6EchoRequest(id=5, seq=6, data=data)
    ours = only(slow_path(), Punt.FOR_GATEWAY, tunnelled(ask))
    reply = IPv6(src=GATEWAY_6, dst=A_6, hlim=64) / ICMPv6EchoReply(id=5, seq=6, data=data)
    assert ours == back_in_tunnel(Ether(src=RED_MAC, dst=A_MAC) / reply, ours)


@pytest.mark.parametrize(("port", "address"), [(UNDERLAY, VTEP), (EXTERNAL, NAT), (EXTERNAL, EXTERNAL_ADDRESS)])
def test_the_gateways_outer_addresses_reply_to_ping(port, address):
    ask = Ether(src=ROUTER_MAC, dst=PORT_MACS[port]) / IP(src="198.51.100.7", dst=address) / ICMP(id=1) / Raw(b"abc")
    reply = IP(src=address, dst="198.51.100.7", id=0, flags="DF") / ICMP(type=0, id=1) / Raw(b"abc")
    assert only(slow_path(), Punt.FOR_GATEWAY, ask, port) == bytes(Ether(src=PORT_MACS[port], dst=ROUTER_MAC) / reply)


def from_a(size: int, flags: str = "", **ip: object) -> Packet:
    head = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst="198.51.100.7", flags=flags, ttl=1, id=321, **ip)
    return head / UDP(sport=1000, dport=2000) / Raw(bytes(n & 255 for n in range(size)))


@pytest.mark.parametrize(("payload", "quoted"), [(10, 38), (520, 548), (2000, 548)])
def test_time_exceeded_quotes_as_much_as_fits_into_576_bytes(payload, quoted):
    packet = from_a(payload)
    ours = only(slow_path(), Punt.TTL_EXPIRED, tunnelled(packet))
    quote = Raw(bytes(packet[IP])[:quoted])
    error = IP(src=GATEWAY, dst=A, id=0, flags="DF", tos=0xC0) / ICMP(type=11, code=0) / quote
    assert ours == back_in_tunnel(Ether(src=RED_MAC, dst=A_MAC) / error, ours, tos=0xC0)


def test_fragmentation_needed_carries_the_next_hops_mtu():
    packet = from_a(1500, "DF")
    ours = only(slow_path(), Punt.TOO_BIG, tunnelled(packet), hop=EXTERNAL_HOP)
    error = IP(src=GATEWAY, dst=A, id=0, flags="DF", tos=0xC0) / ICMP(type=3, code=4, nexthopmtu=1400)
    expected = Ether(src=RED_MAC, dst=A_MAC) / error / Raw(bytes(packet[IP])[:548])
    assert ours == back_in_tunnel(expected, ours, tos=0xC0)


def test_fragmentation_needed_quotes_the_first_bytes_of_a_jumbo_frame():
    packet, path = from_a(8000, "DF"), slow_path()
    (effect,) = path.handle(punted(Punt.TOO_BIG, tunnelled(packet)[:3000], hop=EXTERNAL_HOP, missing=5092), 0)
    error = IP(src=GATEWAY, dst=A, id=0, flags="DF", tos=0xC0) / ICMP(type=3, code=4, nexthopmtu=1400)
    expected = Ether(src=RED_MAC, dst=A_MAC) / error / Raw(bytes(packet[IP])[:548])
    assert effect.frame == back_in_tunnel(expected, effect.frame, tos=0xC0)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (Punt.TTL_EXPIRED, ICMPv6TimeExceeded(code=0)),
        (Punt.TOO_BIG, ICMPv6PacketTooBig(mtu=1500)),
        (Punt.UNREACHABLE, ICMPv6DestUnreach(code=3)),
    ],
)
def test_ipv6_errors_quote_as_much_as_fits_into_1280_bytes(reason, error):
    packet = IPv6(src=A_6, dst="2001:db8::7", hlim=1) / UDP(sport=1, dport=2) / Raw(bytes(1700))
    ours = only(slow_path(), reason, tunnelled(Ether(src=A_MAC, dst=RED_MAC) / packet), hop=TUNNEL_HOP)
    packet_too_big = IPv6(src=GATEWAY_6, dst=A_6, hlim=64, tc=0xC0) / error / Raw(bytes(packet)[:1232])
    assert ours == back_in_tunnel(Ether(src=RED_MAC, dst=A_MAC) / packet_too_big, ours, tos=0xC0)


@pytest.mark.parametrize(("hop", "code"), [(-1, 0), (TUNNEL_HOP, 1)])
def test_unreachable_distinguishes_no_route_from_an_unassigned_address(hop, code):
    packet = from_a(8)
    ours = only(slow_path(), Punt.UNREACHABLE, tunnelled(packet), hop=hop)
    error = IP(src=GATEWAY, dst=A, id=0, flags="DF", tos=0xC0) / ICMP(type=3, code=code) / Raw(bytes(packet[IP]))
    assert ours == back_in_tunnel(Ether(src=RED_MAC, dst=A_MAC) / error, ours, tos=0xC0)


def test_an_error_about_a_packet_from_the_internet_comes_from_the_ports_address():
    packet = IP(src="198.51.100.7", dst=NAT, ttl=1) / TCP(sport=80, dport=2000)
    ours = only(slow_path(), Punt.TTL_EXPIRED, Ether(src=ROUTER_MAC, dst=PORT_MACS[EXTERNAL]) / packet, EXTERNAL)
    error = IP(src=EXTERNAL_ADDRESS, dst="198.51.100.7", id=0, flags="DF", tos=0xC0) / ICMP(type=11)
    assert ours == bytes(Ether(src=PORT_MACS[EXTERNAL], dst=ROUTER_MAC) / error / Raw(bytes(packet)))


def fragments_of(packet: Packet, step: int) -> list[Packet]:
    """Return the fragments that a packet must be split into, without an Ethernet header."""
    whole, parts = bytes(packet[IP])[20:], []
    for at in range(0, len(whole), step):
        last = at + step >= len(whole)
        ip = IP(src=A, dst="198.51.100.7", ttl=1, id=321, proto=17, frag=at // 8, flags="" if last else "MF")
        parts.append(ip / Raw(whole[at : at + step]))
    return parts


def test_a_packet_without_df_leaves_in_fragments_by_its_next_hop():
    packet, path = from_a(3000), slow_path()
    effects = path.handle(punted(Punt.TOO_BIG, tunnelled(packet), hop=EXTERNAL_HOP), 0)
    assert path.outcomes == {Outcome.FRAGMENTED: 1}
    head = Ether(src=PORT_MACS[EXTERNAL], dst=ROUTER_MAC)
    assert effects == [
        Send(EXTERNAL, bytes(head / part)) for part in fragments_of(packet, 1376)
    ]  # 1400 - 20, a multiple of 8


@pytest.mark.parametrize(("to", "source"), [(RED_MAC, RED_MAC), (B_MAC, A_MAC)], ids=["routed", "bridged"])
def test_fragments_for_a_tunnel_wait_for_the_vteps_mac(to, source):
    packet, path = from_a(3000, tos=2), slow_path()
    packet.dst = to
    assert path.handle(punted(Punt.TOO_BIG, tunnelled(packet), hop=TUNNEL_HOP), 0) == []
    (request,) = path.tick(0)
    assert Ether(request.frame)[ARP].pdst == OTHER_VTEP
    mac = PORT_MACS[UNDERLAY]
    reply = Ether(src=HOST_MAC, dst=mac) / ARP(op=2, hwsrc=HOST_MAC, psrc=OTHER_VTEP, hwdst=mac, pdst=VTEP)
    effects = path.handle(punted(Punt.ARP, bytes(reply)), 1)
    ports = {Ether(frame)[UDP].sport for _, frame in effects}
    assert len(ports) == 1  # keep their order
    (port,) = ports
    outer = Ether(src=mac, dst=HOST_MAC) / IP(src=VTEP, dst=OTHER_VTEP, flags="DF", id=0, tos=2)
    outer = outer / UDP(sport=port, dport=4789, chksum=0) / VXLAN(vni=RED, flags=8)
    for part in (parts := fragments_of(packet, 1480)):
        part.tos = 2
    assert effects == [Send(UNDERLAY, bytes(outer / Ether(src=source, dst=B_MAC) / part)) for part in parts]
    assert len(path.waiting) == 0


def test_a_packet_waits_for_the_resolution_of_its_own_target():
    packet = Ether(src=A_MAC, dst=RED_MAC) / IP(src=NAT, dst="203.0.113.77") / UDP() / Raw(b"first")
    path = slow_path()
    assert path.handle(punted(Punt.RESOLVE, tunnelled(packet), hop=ON_LINK_HOP), 0) == []
    path.tick(0)
    mac = PORT_MACS[EXTERNAL]
    reply = Ether(src=ROUTER_MAC, dst=mac) / ARP(op=2, hwsrc=ROUTER_MAC, psrc="203.0.113.77", hwdst=mac)
    (effect,) = path.handle(punted(Punt.ARP, bytes(reply), EXTERNAL), 1)
    assert effect == Send(EXTERNAL, bytes(Ether(src=mac, dst=ROUTER_MAC) / packet[IP]))


def test_resolution_requests_equal_those_of_scapy():
    path = slow_path()
    path.configure(path._directory, path._next_hops, 0)
    requests = {effect.port: effect.frame for effect in path.tick(0)}
    assert sorted(requests) == [UNDERLAY, EXTERNAL, CUSTOMER]
    mac = PORT_MACS[EXTERNAL]
    request = ARP(op=1, hwsrc=mac, psrc=EXTERNAL_ADDRESS, pdst=ROUTER) / PADDING
    assert requests[EXTERNAL] == bytes(Ether(src=mac, dst=BROADCAST) / request)
    mac = PORT_MACS[CUSTOMER]
    head = Ether(src=mac, dst="33:33:ff:00:00:fa") / Dot1Q(vlan=VLAN)
    ip = IPv6(src="fe80::ff:fe00:12", dst="ff02::1:ff00:fa", hlim=255)
    request = ICMPv6ND_NS(tgt=CUSTOMER_ROUTER_6) / ICMPv6NDOptSrcLLAddr(lladdr=mac)
    assert requests[CUSTOMER] == bytes(head / ip / request)


def test_a_standby_gateway_resolves_without_a_source_address():
    path = slow_path(duty=Duty(own=False, public=False))
    path.configure(path._directory, path._next_hops, 0)
    requests = {effect.port: effect.frame for effect in path.tick(0)}
    assert Ether(requests[EXTERNAL])[ARP].psrc == "0.0.0.0"


def test_a_takeover_announces_every_address_on_every_port():
    frames = [(effect.port, Ether(effect.frame)) for effect in slow_path().announcements()]
    announced = {(port, frame[ARP].psrc) for port, frame in frames if ARP in frame}
    assert announced == {
        (UNDERLAY, VTEP),
        (EXTERNAL, EXTERNAL_ADDRESS),
        (EXTERNAL, NAT),
        (EXTERNAL, FLOATING),
        (PROVIDER, PROVIDER_ADDRESS),
        (CUSTOMER, GATEWAY),
        (CUSTOMER, A),
        (CUSTOMER, B),
    }
    for port, frame in frames:
        assert frame.src == PORT_MACS[port]
        assert (Dot1Q in frame and frame[Dot1Q].vlan == VLAN) == (port == CUSTOMER)
        if ARP in frame:
            assert (frame.dst, frame[ARP].psrc) == (BROADCAST, frame[ARP].pdst)
        else:
            assert (frame.dst, frame[IPv6].dst, frame[ICMPv6ND_NA].S) == ("33:33:00:00:00:01", "ff02::1", 0)
    advertised = {frame[ICMPv6ND_NA].tgt for _, frame in frames if ICMPv6ND_NA in frame}
    assert {GATEWAY_6, A_6, B_6} < advertised


@pytest.mark.parametrize("flags", ["A", "PA", "FA"])
def test_a_segment_of_a_lost_connection_gets_a_reset_that_its_sender_accepts(flags):
    segment = TCP(sport=5000, dport=443, seq=1_000, ack=0xFFFF_FFF0, flags=flags) / Raw(b"request")
    expected = TCP(sport=443, dport=5000, seq=0xFFFF_FFF0, ack=0, flags="R", window=0)
    inside = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst="198.51.100.7") / segment
    ours = only(slow_path(), Punt.NO_STATE, tunnelled(inside))
    reply = Ether(src=RED_MAC, dst=A_MAC) / IP(src="198.51.100.7", dst=A, flags="DF", id=0) / expected
    assert Ether(ours)[VXLAN].vni == RED
    assert bytes(Ether(ours)[VXLAN].payload) == bytes(reply)
    outside = Ether(src=ROUTER_MAC, dst=PORT_MACS[EXTERNAL]) / IP(src="198.51.100.7", dst=NAT) / segment
    ours = only(slow_path(), Punt.NO_STATE, bytes(outside), EXTERNAL)
    reply = IP(src=NAT, dst="198.51.100.7", flags="DF", id=0) / expected
    assert ours == bytes(Ether(src=PORT_MACS[EXTERNAL], dst=ROUTER_MAC) / reply)


def test_no_segment_is_reset_while_the_partner_may_have_its_connection():
    path = slow_path()
    segment = TCP(sport=5000, dport=443, seq=1_000, ack=7, flags="PA") / Raw(b"request")
    packet = tunnelled(Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst="198.51.100.7") / segment)
    path.awaits_copy = lambda: True
    assert path.handle(punted(Punt.NO_STATE, packet), 0) == []
    path.awaits_copy = lambda: False
    assert len(path.handle(punted(Punt.NO_STATE, packet), 0)) == 1
    assert path.outcomes == {Outcome.AWAITS_COPY: 1, Outcome.SENT_RESET: 1}


@pytest.mark.parametrize(
    "segment",
    [
        TCP(flags="RA"),
        TCP(flags="R"),
        TCP(flags="S"),
        TCP(flags="SA"),
        TCP(flags="F"),
        TCP(flags="A", chksum=7),
        Raw(b"short"),
    ],
)
def test_no_reset_replies_to_a_reset_a_syn_or_a_damaged_segment(segment):
    path = slow_path()
    packet = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst="198.51.100.7", proto=6) / segment
    assert path.handle(punted(Punt.NO_STATE, tunnelled(packet)), 0) == []
    assert path.outcomes == {Outcome.MALFORMED: 1}
