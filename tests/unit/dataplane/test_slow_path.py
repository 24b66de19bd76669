"""Packets to which the slow path does not reply, and the outcome under which they are counted."""

from ipaddress import IPv4Address
from typing import cast

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6ND_RS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.control.slow.directory import Duty
from heddle.dataplane.control.slow.neighbours import Place
from heddle.dataplane.control.slow.next_hops import MAX_WAITING, Parked
from heddle.dataplane.control.slow.slow_path import Allowance, Outcome, SlowPath
from heddle.dataplane.control.slow.tokens import Buckets
from heddle.dataplane.engine.reasons import Punt
from tests.fakes.gateway.slow_network import (
    A_6,
    A_MAC,
    B_MAC,
    BLUE,
    CUSTOMER,
    CUSTOMER_ROUTER,
    EXTERNAL,
    EXTERNAL_ADDRESS,
    FLOATING,
    GATEWAY,
    HOST_MAC,
    HOST_VTEP,
    NAT,
    ON_LINK_HOP,
    OTHER_VTEP,
    PORT_MACS,
    RED,
    RED_MAC,
    ROUTER,
    TUNNEL_HOP,
    UNDERLAY,
    VLAN,
    VTEP,
    A,
    B,
    punted,
    slow_path,
)

BROADCAST, STRANGER = "ff:ff:ff:ff:ff:ff", "02:ee:ee:ee:ee:ee"


def tunnelled(inner: Packet, vni: int = RED, vtep: str = HOST_VTEP) -> bytes:
    outer = Ether(src=HOST_MAC, dst=PORT_MACS[UNDERLAY]) / IP(src=vtep, dst=VTEP, flags="DF")
    return bytes(outer / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=vni, flags=8) / inner)


def outcome(reason: Punt, frame: Packet | bytes, port: int = UNDERLAY, hop: int = -1, duty: Duty | None = None) -> str:
    path = slow_path(duty=duty)
    effects = path.handle(punted(reason, bytes(frame), port, hop=hop), 0)
    ((found, count),) = path.outcomes.items()
    replied = found in (
        Outcome.ANSWERED_ARP,
        Outcome.ANSWERED_NEIGHBOUR,
        Outcome.ANSWERED_PING,
        Outcome.SENT_ERROR,
        Outcome.FRAGMENTED,
    )
    assert count == 1
    assert bool(effects) == replied
    return found


def who_has(address: str, mac: str = A_MAC, sender: str = A) -> Packet:
    return Ether(src=mac, dst=BROADCAST) / ARP(op=1, hwsrc=mac, psrc=sender, pdst=address)


def from_a(ip: Packet, dst: str = RED_MAC) -> bytes:
    return tunnelled(Ether(src=A_MAC, dst=dst) / ip)


@pytest.mark.parametrize(
    "frame",
    [
        tunnelled(who_has(GATEWAY, STRANGER)),
        tunnelled(who_has(GATEWAY, sender=B)),
        tunnelled(who_has(GATEWAY, sender="1.2.3.4")),
        tunnelled(who_has(GATEWAY, STRANGER, "0.0.0.0")),
        tunnelled(who_has(GATEWAY), vtep=OTHER_VTEP),
    ],
    ids=["mac", "address", "unused address", "probe", "vtep"],
)
def test_a_spoofed_request_gets_no_reply(frame):
    assert outcome(Punt.ARP, frame) == Outcome.SPOOFED


def test_a_request_in_an_unknown_vpc_gets_no_reply():
    assert outcome(Punt.ARP, tunnelled(who_has(GATEWAY), vni=999)) == Outcome.STALE


@pytest.mark.parametrize("sender", [A, "0.0.0.0"])
def test_a_request_for_the_own_address_gets_no_reply(sender):
    assert outcome(Punt.ARP, tunnelled(who_has(A, sender=sender))) in (Outcome.NOT_OURS, Outcome.NOT_ASKED)


@pytest.mark.parametrize("address", ["192.168.1.77", "10.1.1.1", VTEP, NAT])
def test_a_request_for_an_unused_address_gets_no_reply(address):
    assert outcome(Punt.ARP, tunnelled(who_has(address))) == Outcome.NOT_OURS


@pytest.mark.parametrize(
    ("port", "address"), [(EXTERNAL, "203.0.113.99"), (EXTERNAL, VTEP), (UNDERLAY, NAT), (EXTERNAL, A), (CUSTOMER, A)]
)
def test_a_port_answers_only_for_its_own_addresses(port, address):
    assert outcome(Punt.ARP, who_has(address, STRANGER, ROUTER), port) == Outcome.NOT_OURS


def test_a_request_on_an_unknown_vlan_gets_no_reply():
    request = who_has(GATEWAY, STRANGER, CUSTOMER_ROUTER)
    tagged = Ether(src=STRANGER, dst=BROADCAST) / Dot1Q(vlan=VLAN + 1) / request[ARP]
    assert outcome(Punt.ARP, tagged, CUSTOMER) == Outcome.NOT_OURS


@pytest.mark.parametrize("address", [VTEP, NAT, EXTERNAL_ADDRESS, FLOATING])
def test_a_standby_answers_for_no_address(address):
    port = UNDERLAY if address == VTEP else EXTERNAL
    duty = Duty(own=False, public=False)
    assert outcome(Punt.ARP, who_has(address, STRANGER, ROUTER), port, duty=duty) == Outcome.NOT_OURS
    assert outcome(Punt.ARP, tunnelled(who_has(GATEWAY)), duty=duty) == Outcome.STALE


@pytest.mark.parametrize(("vtep", "duty"), [(VTEP, Duty(own=False, public=False)), (OTHER_VTEP, Duty())])
def test_nothing_is_sent_from_a_vtep_that_the_partner_serves(vtep, duty):
    ping = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst=GATEWAY) / ICMP()
    frame = Ether(tunnelled(ping))
    frame[IP].dst = vtep
    del frame[IP].chksum
    assert outcome(Punt.FOR_GATEWAY, frame, duty=duty) == Outcome.STALE


def test_packets_that_wait_are_not_sent_from_addresses_that_were_given_up():
    path, packet = slow_path(), cast(Parked, None)
    path.waiting.park(Place(UNDERLAY, 0, b"host"), packet)
    path.set_duty(Duty(own=False, public=False))
    assert path.waiting.release(Place(UNDERLAY, 0, b"host")) == []


def test_a_partners_address_is_answered_after_a_takeover():
    frame = who_has(OTHER_VTEP, STRANGER, HOST_VTEP)
    assert outcome(Punt.ARP, frame) == Outcome.NOT_OURS
    duty = Duty(taken={UNDERLAY: IPv4Address(OTHER_VTEP)})
    assert outcome(Punt.ARP, frame, duty=duty) == Outcome.ANSWERED_ARP


@pytest.mark.parametrize(
    "packet",
    [
        IP(src=A, dst="198.51.100.7") / ICMP(type=3),
        IP(src=A, dst="198.51.100.7") / ICMP(type=11),
        IP(src=A, dst="198.51.100.7") / ICMP(type=5),
        IP(src=A, dst="198.51.100.7") / ICMP(type=42),
        IP(src=A, dst="224.0.0.5") / UDP(),
        IP(src=A, dst="255.255.255.255") / UDP(),
        IP(src=A, dst="192.168.1.255") / UDP(),
        IP(src="192.168.1.255", dst="198.51.100.7") / UDP(),
        IP(src="0.0.0.0", dst="198.51.100.7") / UDP(),
        IP(src="127.0.0.1", dst="198.51.100.7") / UDP(),
        IP(src="224.0.0.1", dst="198.51.100.7") / UDP(),
        IP(src="250.0.0.1", dst="198.51.100.7") / UDP(),
        IP(src=A, dst="198.51.100.7", frag=100) / Raw(bytes(64)),
        IPv6(src=A_6, dst="2001:db8::1") / ICMPv6DestUnreach(),
        IPv6(src=A_6, dst="ff0e::1") / UDP(),
        IPv6(src="::", dst="2001:db8::1") / UDP(),
        IPv6(src="ff02::1", dst="2001:db8::1") / UDP(),
    ],
    ids=lambda packet: packet.summary(),
)
@pytest.mark.parametrize("reason", [Punt.TTL_EXPIRED, Punt.UNREACHABLE])
def test_no_error_is_sent_about(packet, reason):
    assert outcome(reason, from_a(packet)) == Outcome.NO_ERROR_ALLOWED


@pytest.mark.parametrize("mac", [BROADCAST, "01:00:5e:00:00:05", "33:33:00:00:00:01"])
def test_no_error_is_sent_about_a_multicast_frame(mac):
    assert outcome(Punt.TTL_EXPIRED, from_a(IP(src=A, dst="198.51.100.7") / UDP(), mac)) == Outcome.NO_ERROR_ALLOWED


@pytest.mark.parametrize("kind", [0, 8, 13, 17])
def test_a_query_may_be_answered_with_an_error(kind):
    assert outcome(Punt.TTL_EXPIRED, from_a(IP(src=A, dst="198.51.100.7") / ICMP(type=kind))) == Outcome.SENT_ERROR


@pytest.mark.parametrize(
    "packet",
    [
        IP(src=A, dst=GATEWAY) / ICMP(type=0),
        IP(src=A, dst=GATEWAY) / ICMP(type=8, chksum=1),
        IP(src=A, dst=GATEWAY) / TCP(flags="R"),
        IP(src=A, dst=GATEWAY) / TCP(flags="S", chksum=1),
        IP(src=A, dst=GATEWAY) / TCP(flags="S", dataofs=15),
        IP(src="192.168.1.255", dst=GATEWAY, len=22) / Raw(bytes(2)),
    ],
)
def test_invalid_packets_to_the_gateway_get_no_reply(packet):
    assert outcome(Punt.FOR_GATEWAY, from_a(packet)) == Outcome.UNHANDLED


def test_a_part_of_a_ping_waits_for_the_others():
    part = IP(src=A, dst=GATEWAY, flags="MF") / ICMP() / Raw(bytes(64))
    assert outcome(Punt.FOR_GATEWAY, from_a(part)) == Outcome.GATHERED


def test_a_ping_to_a_foreign_address_gets_no_reply():
    assert outcome(Punt.FOR_GATEWAY, from_a(IP(src=A, dst=B) / ICMP())) == Outcome.NOT_OURS
    request = Ether(src=STRANGER, dst=PORT_MACS[EXTERNAL]) / IP(src="198.51.100.7", dst=FLOATING) / ICMP()
    assert outcome(Punt.FOR_GATEWAY, request, EXTERNAL) == Outcome.NOT_OURS


@pytest.mark.parametrize("frame", [b"", bytes(13), bytes(60), b"\xff" * 100, tunnelled(Raw(b"abc"))])
@pytest.mark.parametrize("reason", [Punt.ARP, Punt.NEIGHBOUR, Punt.FOR_GATEWAY, Punt.TTL_EXPIRED])
def test_a_truncated_frame_is_counted_as_malformed(frame, reason):
    assert outcome(reason, frame) == Outcome.MALFORMED


def test_a_solicitation_that_came_through_a_router_is_malformed():
    request = IPv6(src=A_6, dst="ff02::1:ff00:1", hlim=254) / ICMPv6ND_NS(tgt="fd00:1::1")
    frame = tunnelled(Ether(src=A_MAC, dst="33:33:ff:00:00:01") / request / ICMPv6NDOptSrcLLAddr(lladdr=A_MAC))
    assert outcome(Punt.NEIGHBOUR, frame) == Outcome.MALFORMED


def test_a_router_solicitation_is_counted_and_gets_no_reply():
    request = Ether(src=A_MAC, dst="33:33:00:00:00:02") / IPv6(src=A_6, dst="ff02::2", hlim=255) / ICMPv6ND_RS()
    assert outcome(Punt.NEIGHBOUR, tunnelled(request)) == Outcome.ROUTER_SOUGHT
    request[IPv6].hlim = 254
    assert outcome(Punt.NEIGHBOUR, tunnelled(request)) == Outcome.MALFORMED


def test_a_tenant_cannot_change_the_neighbour_cache():
    lie = Ether(src=A_MAC, dst=RED_MAC) / ARP(op=2, hwsrc=A_MAC, psrc=A, hwdst=RED_MAC, pdst=GATEWAY)
    assert outcome(Punt.ARP, tunnelled(lie)) == Outcome.NOT_ASKED
    lie = Ether(src=A_MAC, dst=RED_MAC) / IPv6(src=A_6, dst="fd00:1::1", hlim=255) / ICMPv6ND_NA(tgt=A_6)
    assert outcome(Punt.NEIGHBOUR, tunnelled(lie)) == Outcome.NOT_ASKED


def test_the_reply_to_a_request_resolves_the_neighbour():
    path = slow_path()
    path.configure(path._directory, path._next_hops, 0)
    path.tick(0)
    mac = PORT_MACS[EXTERNAL]
    reply = Ether(src=STRANGER, dst=mac) / ARP(op=2, hwsrc=STRANGER, psrc=ROUTER, hwdst=mac, pdst=EXTERNAL_ADDRESS)
    path.handle(punted(Punt.ARP, bytes(reply), EXTERNAL), 1)
    assert path.resolved() == {(EXTERNAL, IPv4Address(ROUTER)): 0x02EE_EEEE_EEEE}
    path.handle(punted(Punt.ARP, bytes(reply), EXTERNAL), 2)
    assert path.outcomes == {Outcome.LEARNED: 1, Outcome.NOT_ASKED: 1}


@pytest.mark.parametrize(("hop", "port", "wanted"), [(TUNNEL_HOP, UNDERLAY, OTHER_VTEP), (ON_LINK_HOP, EXTERNAL, B)])
def test_a_packet_with_an_unresolved_next_hop_causes_a_request(hop, port, wanted):
    path = slow_path()
    path.handle(punted(Punt.RESOLVE, from_a(IP(src=A, dst=B) / UDP()), hop=hop), 5)
    (effect,) = path.tick(5)
    assert (effect.port, Ether(effect.frame)[ARP].pdst) == (port, wanted)
    assert path.resolved() == {}


def test_the_newest_packets_wait_for_a_neighbour_and_the_others_are_counted():
    path = slow_path()
    for number in range(10):
        packet = IP(src=A, dst="203.0.113.77", id=number) / UDP()
        path.handle(punted(Punt.RESOLVE, from_a(packet), hop=ON_LINK_HOP), 0)
    assert (len(path.waiting), path.waiting.dropped) == (3, 7)
    for number in range(400):
        packet = IP(src=A, dst=f"10.0.{number // 200}.{number % 200 + 1}") / UDP()
        path.handle(punted(Punt.RESOLVE, from_a(packet), hop=ON_LINK_HOP), 0)
    assert (len(path.waiting), path.waiting.dropped) == (MAX_WAITING, 7 + 403 - MAX_WAITING)
    path.configure(path._directory, path._next_hops, 1)
    assert (len(path.waiting), path.waiting.dropped) == (0, 410)


@pytest.mark.parametrize("reason", [Punt.RESOLVE, Punt.TOO_BIG])
@pytest.mark.parametrize("hop", [-1, 4, 1 << 40])
def test_a_next_hop_of_another_generation_is_stale(reason, hop):
    assert outcome(reason, from_a(IP(src=A, dst="203.0.113.77") / UDP()), hop=hop) == Outcome.STALE


def test_a_flood_of_expired_packets_in_one_vpc_does_not_affect_others():
    path = SlowPath(
        slow_path()._directory,
        slow_path()._next_hops,
        Allowance(*(Buckets(per_second=1, burst=3) for _ in range(3))),
    )
    packet = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst="198.51.100.7", ttl=1) / UDP()
    red, blue = tunnelled(packet, RED), tunnelled(packet, BLUE)
    for _ in range(50):
        path.handle(punted(Punt.TTL_EXPIRED, red), 0)
    assert path.outcomes == {Outcome.SENT_ERROR: 3, Outcome.RATE_LIMITED: 47}
    assert path.handle(punted(Punt.TTL_EXPIRED, blue), 0)
    assert path.handle(punted(Punt.ARP, tunnelled(who_has(B))), 0)


def test_the_outer_header_of_a_reply_has_the_inner_dscp():
    request = Ether(src=A_MAC, dst=RED_MAC) / IP(src=A, dst=GATEWAY, tos=0x2B) / ICMP()
    (effect,) = slow_path().handle(punted(Punt.FOR_GATEWAY, tunnelled(request)), 0)
    outer = Ether(effect.frame)[IP]
    assert (outer.tos, outer[VXLAN][IP].tos) == (0x28, 0x28)
    assert outer[VXLAN][Ether].dst == A_MAC != B_MAC
