"""Customers, the internet and the provider: accepted packets, sent packets, and packets for the slow path."""

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6TimeExceeded, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway import graph as kinds
from heddle.dataplane.tables.schema import EXTERNAL as EXTERNAL_HOP
from heddle.dataplane.tables.schema import PEER
from heddle.dataplane.tables.schema import PROVIDER as PROVIDER_HOP
from heddle.foundation.address import mac_text
from tests.fakes.gateway.elements import Elements, Fate
from tests.fakes.gateway.gateway_frames import NEXT_MACS, RED_11, arriving, dissected, inner, tunnelled
from tests.fakes.gateway.gateway_site import (
    CUSTOMER,
    EXTERNAL,
    LOCAL,
    PORT_MACS,
    PROVIDER,
    RED,
    UNDERLAY,
    VLAN,
    site_tables,
)

TABLES = site_tables()
GATEWAY = Elements(LOCAL, TABLES)
FROM_CUSTOMER = IP(src="10.99.1.2", dst="10.0.0.11", ttl=7) / UDP(sport=1, dport=2) / Raw(b"hello")
FROM_OUTSIDE = IP(src="198.51.100.7", dst="203.0.113.10") / UDP(sport=53, dport=40000)


def let_in(port: int, frame: bytes | Packet) -> Fate:
    return GATEWAY.one(port, bytes(frame), until=kinds.TRACK)


def first_hop(kind: int) -> int:
    return int((TABLES.next_hops["kind"] == kind).argmax())


def test_a_customers_packet_enters_the_vpc_of_its_vlan_and_leaves_through_the_tunnel() -> None:
    row = let_in(CUSTOMER, arriving(CUSTOMER, FROM_CUSTOMER)).row
    assert (row["vni"], row["vpc"], row["outer_source"], row["source_hop"]) == (RED, 0, 0, -1)
    packet = dissected(GATEWAY.one(CUSTOMER, arriving(CUSTOMER, FROM_CUSTOMER)).frame)
    assert packet[VXLAN].vni == RED
    assert Dot1Q not in packet
    expected = FROM_CUSTOMER.copy()
    expected.ttl -= 1
    assert bytes(packet[VXLAN].payload) == bytes(inner(expected, source=gateway_mac(RED), target=RED_11))


def test_a_tenants_packet_to_the_customer_leaves_with_the_tag() -> None:
    packet = IP(src="10.0.0.10", dst="10.99.7.7", ttl=9) / TCP()
    fate = GATEWAY.one(UNDERLAY, tunnelled(inner(packet)))
    assert (fate.end, fate.row["out_port"]) == ("sent", CUSTOMER)
    packet.ttl = 8
    tagged = Ether(src=mac_text(PORT_MACS[CUSTOMER]), dst=mac_text(NEXT_MACS[CUSTOMER])) / Dot1Q(vlan=VLAN) / packet
    assert fate.frame == bytes(tagged)


@pytest.mark.parametrize(("kind", "port"), [(EXTERNAL_HOP, EXTERNAL), (PROVIDER_HOP, PROVIDER)])
@pytest.mark.parametrize("head", [IP(src="10.0.0.10", dst="8.8.8.8"), IPv6(src="fd00::10", dst="2001:db8::1")])
def test_a_packet_to_the_internet_or_the_provider_leaves_as_plain_ethernet(kind: int, port: int, head: Packet) -> None:
    gateway = Elements(LOCAL, TABLES, hop_of=lambda packet: first_hop(kind))
    fate = gateway.one(UNDERLAY, tunnelled(inner(head / UDP() / Raw(b"abc"))))
    assert (fate.end, fate.row["out_port"]) == ("sent", port)
    found = dissected(fate.frame)
    assert (found.dst, found.src) == (mac_text(NEXT_MACS[port]), mac_text(PORT_MACS[port]))
    assert bytes(found[UDP]) == bytes((head / UDP() / Raw(b"abc"))[UDP])
    assert VXLAN not in found


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (arriving(CUSTOMER, FROM_CUSTOMER, vlan=8), Drop.UNKNOWN_VLAN),
        (arriving(CUSTOMER, FROM_CUSTOMER, vlan=0), Drop.UNKNOWN_VLAN),
        (bytes(Ether(dst=mac_text(PORT_MACS[CUSTOMER])) / FROM_CUSTOMER), Drop.UNKNOWN_VLAN),
        (arriving(CUSTOMER, Dot1Q(vlan=VLAN) / FROM_CUSTOMER), Drop.UNKNOWN_VLAN),
        (arriving(CUSTOMER, IP(src="10.98.1.2", dst="10.0.0.11") / UDP()), Drop.SPOOFED_SOURCE),
        (arriving(CUSTOMER, IP(src="10.0.0.10", dst="10.0.0.11") / UDP()), Drop.SPOOFED_SOURCE),
        (arriving(CUSTOMER, IPv6(src="fd00::10", dst="fd00::11") / UDP()), Drop.SPOOFED_SOURCE),
        (arriving(CUSTOMER, FROM_CUSTOMER)[:17], Drop.TOO_SHORT),
        (bytes(Ether(dst=mac_text(9)) / Dot1Q(vlan=VLAN) / FROM_CUSTOMER), Drop.NOT_FOR_US),
        (bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=VLAN) / FROM_CUSTOMER), Drop.BROADCAST),
    ],
)
def test_a_customers_source_must_match_its_vlan_and_prefix(frame: bytes, why: Drop) -> None:
    assert let_in(CUSTOMER, frame).why is why


def test_a_customers_arp_is_punted_with_the_vpc_of_its_vlan() -> None:
    arp = Ether(dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=VLAN) / ARP(pdst="10.0.0.1")
    fate = let_in(CUSTOMER, arp)
    assert (fate.end, fate.why, fate.row["vni"]) == ("punted", Punt.ARP, RED)


@pytest.mark.parametrize("port", [EXTERNAL, PROVIDER])
def test_a_packet_from_outside_has_no_vpc_until_its_connection_is_found(port: int) -> None:
    row = let_in(port, arriving(port, FROM_OUTSIDE)).row
    assert (row["vni"], row["vpc"], row["ports"]) == (0, -1, 53 << 16 | 40000)


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        (IP(src="203.0.113.10", dst="203.0.113.20") / UDP(), Drop.SPOOFED_SOURCE),
        (IP(src="203.0.113.20", dst="203.0.113.10") / UDP(), Drop.SPOOFED_SOURCE),
        (IP(src="203.0.113.2", dst="203.0.113.10") / UDP(), Drop.SPOOFED_SOURCE),
        (IP(src="198.51.100.7", dst="203.0.113.2") / ICMP(type=8, id=0), Punt.FOR_GATEWAY),
        (IP(src="198.51.100.7", dst="203.0.113.10") / ICMP(type=8), Punt.FOR_GATEWAY),
        (IP(src="198.51.100.7", dst="203.0.113.10") / ICMP(type=0), None),
        (IP(src="198.51.100.7", dst="203.0.113.20") / ICMP(type=8), None),
        (IP(src="198.51.100.7", dst="203.0.113.2") / ICMP(type=0), None),
        (IP(src="198.51.100.7", dst="203.0.113.2", frag=4, proto=1) / Raw(b"\x08" * 16), None),
        (Dot1Q(vlan=3) / FROM_OUTSIDE, Drop.UNKNOWN_VLAN),
    ],
)
def test_spoofed_gateway_addresses_are_dropped_and_pings_of_its_own_address_punted(packet: Packet, why: object) -> None:
    assert let_in(EXTERNAL, arriving(EXTERNAL, packet)).why is why


def test_a_standby_gateway_punts_arp_and_forwards_nothing_on_any_side() -> None:
    standby = Elements(LOCAL, site_tables(active=False))
    for port, packet in ((EXTERNAL, FROM_OUTSIDE), (PROVIDER, FROM_OUTSIDE), (CUSTOMER, FROM_CUSTOMER)):
        assert standby.one(port, arriving(port, packet)).why is Drop.STANDBY
        assert standby.one(port, arriving(port, ARP(pdst="203.0.113.10"))).why is Punt.ARP


def test_packets_to_the_gateways_address_in_a_vpc_are_punted_with_any_hop_limit() -> None:
    for packet in (
        IP(src="10.0.0.10", dst="10.0.0.1", ttl=1) / ICMP(),
        IPv6(src="fd00::10", dst="fd00::1", hlim=1) / ICMPv6EchoRequest(),
    ):
        assert GATEWAY.one(UNDERLAY, tunnelled(inner(packet))).why is Punt.FOR_GATEWAY


def test_an_unassigned_address_of_a_subnet_is_discarded() -> None:
    assert (
        GATEWAY.one(UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.77") / UDP()))).why is Drop.DISCARD_ROUTE
    )


def big(size: int, head: Packet) -> Packet:
    """Return an IP packet of a given size in bytes."""
    return head / UDP() / Raw(bytes(size - len(head) - 8))


V4 = {"src": "10.0.0.10", "dst": "10.0.0.11"}
V6 = {"src": "fd00::10", "dst": "fd00::11"}


@pytest.mark.parametrize("head", [IP(**V4), IP(**V4, flags="DF"), IPv6(**V6)])
def test_a_packet_of_the_mtu_is_sent_and_a_larger_one_fragmented_or_punted_unchanged(head: Packet) -> None:
    assert GATEWAY.one(UNDERLAY, tunnelled(inner(big(4250, head)))).end == "sent"
    frame = inner(big(4251, head))
    fate = GATEWAY.one(UNDERLAY, tunnelled(frame))
    if IP in head and not head.flags.DF:
        assert fate.end == "to fragment"
        frame[IP].ttl -= 1  # its parts leave by the next hop as they are
    else:
        assert fate.why is Punt.TOO_BIG
    assert fate.frame == bytes(frame)


def test_packets_to_the_internet_obey_its_mtu() -> None:
    gateway = Elements(LOCAL, TABLES, hop_of=lambda packet: first_hop(EXTERNAL_HOP))
    assert gateway.one(UNDERLAY, tunnelled(inner(big(1500, IP(**V4))))).end == "sent"
    assert gateway.one(UNDERLAY, tunnelled(inner(big(1501, IP(**V4))))).end == "to fragment"


def test_no_icmp_error_is_requested_for_an_icmp_error_or_a_later_fragment() -> None:
    error = IP(**V4, flags="DF") / ICMP(type=3, code=1) / Raw(bytes(5000))
    assert GATEWAY.one(UNDERLAY, tunnelled(inner(error))).why is Drop.TOO_BIG
    for kind in (3, 4, 5, 11, 12):
        last = IP(**V4, ttl=1) / ICMP(type=kind)
        assert GATEWAY.one(UNDERLAY, tunnelled(inner(last))).why is Drop.TTL_EXPIRED
    assert GATEWAY.one(UNDERLAY, tunnelled(inner(IP(**V4, ttl=1) / ICMP(type=8)))).why is Punt.TTL_EXPIRED
    error = IPv6(**V6, hlim=1) / ICMPv6TimeExceeded() / Raw(bytes(60))
    assert GATEWAY.one(UNDERLAY, tunnelled(inner(error))).why is Drop.TTL_EXPIRED
    later = IP(**V4, ttl=1, frag=100, proto=17) / Raw(bytes(64))
    assert GATEWAY.one(UNDERLAY, tunnelled(inner(later))).why is Drop.TTL_EXPIRED


@pytest.mark.parametrize("kind", [PEER, 99])
def test_an_invalid_next_hop_drops_the_packet(kind: int) -> None:
    hops = TABLES.next_hops.copy()
    hops["kind"][0] = kind
    gateway = Elements(LOCAL, TABLES._replace(next_hops=hops), hop_of=lambda packet: 0)
    assert gateway.one(UNDERLAY, tunnelled(inner(IP(**V4) / UDP()))).why is Drop.BAD_STATE


def test_each_packet_of_a_mixed_burst_gets_its_own_fate() -> None:
    good, bad = inner(IP(**V4) / UDP()), inner(IP(**V4, ttl=1) / UDP())
    frames = [tunnelled(each) for each in (good, bad, inner(IP(**V4) / UDP(), target=RED_11), good)]
    fates = GATEWAY.send(UNDERLAY, *frames, b"", frames[0][:60])
    assert [fate.end for fate in fates] == ["sent", "punted", "sent", "sent", "dropped", "dropped"]
    assert fates[0].frame == fates[3].frame
