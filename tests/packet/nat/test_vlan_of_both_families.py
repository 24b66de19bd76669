"""A customer's VLAN carries IPv4 and IPv6: a direct connect for each, with a prefix and a router of its own."""

from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.config.check_change import network_problems
from heddle.dataplane.config.network import DirectConnect, Direction, NetworkConfig, SecurityRule
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.compiler.compile import link_of
from tests.fakes.gateway.gateway_frames import arriving, inner, tunnelled
from tests.fakes.gateway.gateway_site import CUSTOMER, NETWORK, RED, UNDERLAY, VLAN
from tests.fakes.gateway.whole_gateway import WholeGateway

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

OLD, NEW = ip_address("192.168.5.1"), ip_address("2001:db8:5::1")
MACS = {OLD: 0x02CC00000004, NEW: 0x02CC00000006}
IPV4 = DirectConnect(vlan=VLAN, customer=ip_network("10.88.0.0/16"), next_hop=OLD)
IPV6 = DirectConnect(vlan=VLAN, customer=ip_network("fd88::/48"), next_hop=NEW)


def network(*connects: DirectConnect) -> NetworkConfig:
    red, *others = NETWORK.vpcs
    rules = tuple(SecurityRule(allow=True, direction=Direction.IN, remote=each.customer) for each in (IPV4, IPV6))
    return replace(NETWORK, vpcs=(replace(red, direct_connects=connects, rules=rules), *others))


def gateway(*connects: DirectConnect) -> WholeGateway:
    known = {(link_of(CUSTOMER, VLAN), router): mac for router, mac in MACS.items()}
    return WholeGateway(network(*connects), neighbours=known)


PACKETS = [
    (IP(src="10.88.1.2", dst="10.0.0.10") / UDP(sport=1, dport=2) / Raw(b"old"), MACS[OLD]),
    (IPv6(src="fd88::2", dst="fd00::10") / UDP(sport=1, dport=2) / Raw(b"new"), MACS[NEW]),
]


def back(packet: Packet) -> Packet:
    head = type(packet)(src=packet.dst, dst=packet.src)
    return head / UDP(sport=2, dport=1) / Raw(b"reply")


def one_hop_later(packet: Packet) -> bytes:
    after = packet.copy()
    setattr(after, "ttl" if IP in after else "hlim", 63)
    return bytes(after)


@pytest.mark.parametrize("order", [(IPV4, IPV6), (IPV6, IPV4)], ids=["IPv4 first", "IPv6 first"])
@pytest.mark.parametrize(("packet", "mac"), PACKETS, ids=["IPv4", "IPv6"])
def test_each_family_enters_and_leaves_by_its_own_prefix_and_router(
    order: tuple[DirectConnect, ...], packet: Packet, mac: int
) -> None:
    whole = gateway(*order)
    (frame,) = whole.through(CUSTOMER, arriving(CUSTOMER, packet))[UNDERLAY]
    tunnel = Ether(frame)[VXLAN]
    assert (tunnel.vni, bytes(tunnel[Ether].payload)) == (RED, one_hop_later(packet))
    (left,) = whole.through(UNDERLAY, tunnelled(inner(back(packet))))[CUSTOMER]
    assert (left[:6].hex(), Ether(left)[Dot1Q].vlan) == (f"{mac:012x}", VLAN)
    assert left[18:] == one_hop_later(back(packet))


SPOOFED = [
    IP(src="10.99.1.2", dst="10.0.0.10") / UDP(),
    IPv6(src="fd89::2", dst="fd00::10") / UDP(),
    IPv6(src="::ffff:10.88.1.2", dst="fd00::10") / UDP(),
]


@pytest.mark.parametrize("packet", SPOOFED, ids=lambda each: each.src)
def test_a_source_must_be_within_the_prefix_of_its_family(packet: Packet) -> None:
    whole = gateway(IPV4, IPV6)
    assert whole.through(CUSTOMER, arriving(CUSTOMER, packet)) == {}
    assert whole.drops() in ({Drop.SPOOFED_SOURCE: 1}, {Drop.MARTIAN: 1})


def test_arp_and_neighbour_discovery_find_both_routers_on_one_vlan() -> None:
    whole = WholeGateway(network(IPV4, IPV6))
    whole.path.configure(whole.path._directory, whole.path._next_hops, 0)
    asked = [Ether(each.frame) for each in whole.path.tick(0) if each.port == CUSTOMER]
    assert {frame[Dot1Q].vlan for frame in asked} == {VLAN}
    assert [frame[ARP].pdst for frame in asked if ARP in frame] == [str(OLD)]
    assert [frame["ICMPv6ND_NS"].tgt for frame in asked if IPv6 in frame] == [str(NEW)]


def test_a_vlan_has_one_direct_connect_of_each_family() -> None:
    assert list(network_problems(network(IPV4, IPV6))) == []
    another = DirectConnect(vlan=VLAN, customer=ip_network("10.77.0.0/16"), next_hop=OLD)
    assert list(network_problems(network(IPV4, IPV6, another))) == [
        f"vpc red: direct_connects[2].vlan: {VLAN} is direct_connects[0]'s already, for IPv4"
    ]
    red, blue, green = network(IPV4).vpcs
    shared = replace(NETWORK, vpcs=(red, replace(blue, direct_connects=(IPV6,)), green))
    assert list(network_problems(shared)) == [f"vpc blue: direct_connects[0].vlan: {VLAN} is used by vpc red already"]
