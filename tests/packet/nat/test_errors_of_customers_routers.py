"""ICMP errors of a customer's routers reach the VPC, which learns its path MTU from them, from any address."""

from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, UDP, fragment
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    fragment6,
)
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.config.network import DirectConnect
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.compiler.compile import link_of
from heddle.foundation.address import mac_text
from tests.fakes.gateway.gateway_frames import RED_10, arriving, inner, tunnelled
from tests.fakes.gateway.gateway_site import CUSTOMER, CUSTOMER_MAC, NETWORK, RED, UNDERLAY, VLAN
from tests.fakes.gateway.whole_gateway import WholeGateway

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

ROUTERS = ip_address("192.168.77.1"), ip_address("2001:db8:77::1")
CONNECTS = (
    DirectConnect(vlan=VLAN, customer=ip_network("10.99.0.0/16"), next_hop=ROUTERS[0]),
    DirectConnect(vlan=VLAN, customer=ip_network("fd99::/64"), next_hop=ROUTERS[1]),
)
TENANT, SITE = ("10.0.0.10", "fd00::10"), ("10.99.4.4", "fd99::4")


@pytest.fixture
def gateway() -> WholeGateway:
    red, *others = NETWORK.vpcs
    network = replace(NETWORK, vpcs=(replace(red, direct_connects=CONNECTS), *others))
    return WholeGateway(network, neighbours={(link_of(CUSTOMER, VLAN), router): CUSTOMER_MAC for router in ROUTERS})


def sent(gateway: WholeGateway, packet: Packet) -> bytes:
    """Let the tenant send a packet to its customer; return its bytes as the customer's router gets them."""
    (frame,) = gateway.through(UNDERLAY, tunnelled(inner(packet)))[CUSTOMER]
    return frame[18:]


def arrived(gateway: WholeGateway, error: Packet) -> list[bytes]:
    """Let an error come from the customer's VLAN; return the IP packets that the tenant's machine gets."""
    left = gateway.through(CUSTOMER, arriving(CUSTOMER, error))
    assert set(left) <= {UNDERLAY}
    packets = [Ether(frame)[VXLAN] for frame in left.get(UNDERLAY, [])]
    assert all((each.vni, each[Ether].dst) == (RED, mac_text(RED_10)) for each in packets)
    return [bytes(each[Ether].payload) for each in packets]


def routed(error: Packet) -> bytes:
    """Return a packet as it is one hop later."""
    after = error.copy()
    if IP in after:
        after.ttl -= 1
    else:
        after.hlim -= 1
    return bytes(after)


ERRORS_4 = [ICMP(type=3, code=4, nexthopmtu=1280), ICMP(type=11), ICMP(type=3, code=1), ICMP(type=12)]


@pytest.mark.parametrize("source", [str(ROUTERS[0]), "10.99.0.1", "100.64.3.3"])
@pytest.mark.parametrize("error", ERRORS_4, ids=lambda each: each.summary())
def test_an_ipv4_error_of_any_router_on_the_path_arrives_unchanged(
    gateway: WholeGateway, source: str, error: Packet
) -> None:
    quote = sent(gateway, IP(src=TENANT[0], dst=SITE[0], flags="DF") / UDP(sport=5, dport=9) / Raw(bytes(1300)))
    packet = IP(src=source, dst=TENANT[0]) / error / Raw(quote[:48])
    assert arrived(gateway, packet) == [routed(packet)]


ERRORS_6 = [ICMPv6PacketTooBig(mtu=1280), ICMPv6TimeExceeded(), ICMPv6DestUnreach(code=3)]
HEADERS: list[Any] = [None, IPv6ExtHdrDestOpt(options=[]), IPv6ExtHdrFragment(id=9)]


@pytest.mark.parametrize("header", HEADERS, ids=["plain", "destination options", "atomic fragment"])
@pytest.mark.parametrize("error", ERRORS_6, ids=lambda each: each.summary())
def test_an_ipv6_error_arrives_whatever_headers_it_quotes(gateway: WholeGateway, error: Packet, header: Any) -> None:
    head = IPv6(src=TENANT[1], dst=SITE[1]) / header if header else IPv6(src=TENANT[1], dst=SITE[1])
    quote = sent(gateway, head / UDP(sport=5, dport=9) / Raw(bytes(1300)))
    packet = IPv6(src=str(ROUTERS[1]), dst=TENANT[1]) / error / Raw(quote[:1232])
    assert arrived(gateway, packet) == [routed(packet)]


def test_packet_too_big_about_a_fragment_reaches_the_sender_of_the_packet(gateway: WholeGateway) -> None:
    whole = IPv6(src=TENANT[1], dst=SITE[1]) / IPv6ExtHdrFragment(id=7) / UDP(sport=5, dport=9) / Raw(bytes(4000))
    first, *_ = [sent(gateway, each) for each in fragment6(whole, 1500)]
    packet = IPv6(src=str(ROUTERS[1]), dst=TENANT[1]) / ICMPv6PacketTooBig(mtu=1280) / Raw(first[:1232])
    assert arrived(gateway, packet) == [routed(packet)]


def test_a_later_fragment_is_quoted_in_vain(gateway: WholeGateway) -> None:
    whole = IPv6(src=TENANT[1], dst=SITE[1]) / IPv6ExtHdrFragment(id=7) / UDP(sport=5, dport=9) / Raw(bytes(4000))
    _, second, *_ = [sent(gateway, each) for each in fragment6(whole, 1500)]
    packet = IPv6(src="fd99::1", dst=TENANT[1]) / ICMPv6PacketTooBig(mtu=1280) / Raw(second[:1232])
    assert arrived(gateway, packet) == []
    assert gateway.drops() == {Drop.NO_STATE: 1}


def quoting(source: str, quote: Packet) -> Packet:
    return IP(src=source, dst=TENANT[0]) / ICMP(type=3, code=4, nexthopmtu=600) / Raw(bytes(quote)[:48])


TO_SITE = IP(src=TENANT[0], dst=SITE[0]) / UDP(sport=5, dport=9)
TO_INTERNET = IP(src=TENANT[0], dst="8.8.8.8") / UDP(sport=5, dport=9)
TO_VPC = IP(src=TENANT[0], dst="10.0.0.11") / UDP(sport=5, dport=9)


@pytest.mark.parametrize(
    ("packet", "why"),
    [
        pytest.param(IP(src=str(ROUTERS[0]), dst=TENANT[0]) / UDP(), Drop.SPOOFED_SOURCE, id="no error"),
        pytest.param(IP(src=str(ROUTERS[0]), dst=TENANT[0]) / ICMP(type=8), Drop.SPOOFED_SOURCE, id="ping"),
        pytest.param(quoting(str(ROUTERS[0]), TO_INTERNET), Drop.SPOOFED_SOURCE, id="about a packet to the internet"),
        pytest.param(quoting(str(ROUTERS[0]), TO_VPC), Drop.SPOOFED_SOURCE, id="about a packet within the VPC"),
        pytest.param(quoting("10.0.0.11", TO_SITE), Drop.SPOOFED_SOURCE, id="from an endpoint's address"),
        pytest.param(quoting("10.0.0.1", TO_SITE), Drop.SPOOFED_SOURCE, id="from the gateway's address"),
        pytest.param(quoting("10.0.0.99", TO_SITE), Drop.SPOOFED_SOURCE, id="from an unused address of the VPC"),
        pytest.param(quoting("10.3.0.10", TO_SITE), Drop.SPOOFED_SOURCE, id="from a peer's address"),
        pytest.param(quoting("172.16.3.3", TO_SITE), Drop.SPOOFED_SOURCE, id="from the provider's storage"),
        pytest.param(
            quoting(str(ROUTERS[0]), IP(src=TENANT[0], dst=SITE[0]) / UDP(sport=6, dport=9)),
            Drop.NO_STATE,
            id="unknown",
        ),
    ],
)
def test_what_is_no_error_about_the_customers_traffic_is_dropped(
    gateway: WholeGateway, packet: Packet, why: Drop
) -> None:
    gateway.through(UNDERLAY, *(tunnelled(inner(each)) for each in (TO_SITE, TO_INTERNET, TO_VPC)))
    assert arrived(gateway, packet) == []
    assert gateway.drops() == {why: 1}


def test_an_error_about_the_first_of_ipv4_fragments_arrives(gateway: WholeGateway) -> None:
    whole = IP(src=TENANT[0], dst=SITE[0], id=8) / UDP(sport=5, dport=9) / Raw(bytes(3000))
    first, *_ = [sent(gateway, each) for each in fragment(whole, 1400)]
    packet = IP(src=str(ROUTERS[0]), dst=TENANT[0]) / ICMP(type=11, code=1) / Raw(first[:28])
    assert arrived(gateway, packet) == [routed(packet)]
