"""The underlay's entry: accepted packets, and the drop reasons of refused ones."""

from ipaddress import IPv4Address
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_LSRR, IPOption_NOP, IPOption_RR, IPOption_SSRR
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway import graph as kinds
from heddle.foundation.address import mac_text
from tests.fakes.gateway.elements import Elements, Fate
from tests.fakes.gateway.gateway_frames import RED_11, inner, tunnelled
from tests.fakes.gateway.gateway_site import (
    BLUE,
    GREEN,
    HOST_A,
    HOST_B,
    HOST_C,
    LOCAL,
    PORT_MACS,
    RED,
    VTEP,
    site_tables,
)

GATEWAY = Elements(LOCAL, site_tables())
PARTNER = IPv4Address("192.168.0.2")
TENANT = inner(IP(src="10.0.0.10", dst="10.0.0.11") / UDP() / Raw(b"hello"))


def fate_of(frame: Packet | bytes, gateway: Elements = GATEWAY) -> Fate:
    return gateway.one(0, bytes(frame), until=kinds.TRACK)


def changed(**fields: Any) -> Packet:
    """Return a valid packet of host A with changed outer fields; keys are layer_field."""
    packet = Ether(tunnelled(TENANT))
    for key, value in fields.items():
        layer, field = key.split("_", 1)
        setattr(packet[{"ether": Ether, "ip": IP, "udp": UDP, "vxlan": VXLAN}[layer]], field, value)
    if not any(key in fields for key in ("ip_chksum", "ip_len", "ip_ihl")):
        del packet[IP].chksum
    return packet


def test_a_valid_packet_is_accepted_unchanged() -> None:
    fate = fate_of(changed())
    assert (fate.end, fate.frame) == ("track", bytes(TENANT))


REFUSED: dict[str, tuple[dict[str, Any], Drop]] = {
    "another machine's MAC": ({"ether_dst": "02:00:00:00:00:77"}, Drop.NOT_FOR_US),
    "a group's MAC": ({"ether_dst": "01:00:5e:00:00:01"}, Drop.BROADCAST),
    "another ethertype": ({"ether_type": 0x88CC}, Drop.NOT_IP),
    "IPv6 outside": ({"ether_type": 0x86DD}, Drop.NOT_IP),
    "another address": ({"ip_dst": "192.168.0.99"}, Drop.NOT_FOR_US),
    "another version": ({"ip_version": 5}, Drop.BAD_IP_HEADER),
    "a header of four words": ({"ip_ihl": 4}, Drop.BAD_IP_HEADER),
    "a total length beyond the frame": ({"ip_len": 5000}, Drop.BAD_IP_HEADER),
    "a total length within the header": ({"ip_len": 19}, Drop.BAD_IP_HEADER),
    "a wrong checksum": ({"ip_chksum": 0x1234}, Drop.BAD_IP_HEADER),
    "a first fragment": ({"ip_flags": "MF"}, Drop.BAD_VXLAN),
    "a later fragment": ({"ip_frag": 10}, Drop.BAD_VXLAN),
    "another protocol": ({"ip_proto": 6}, Drop.NOT_FOR_US),
    "another port": ({"udp_dport": 4790}, Drop.NOT_FOR_US),
    "a UDP length beyond the packet": ({"udp_len": 4000}, Drop.BAD_VXLAN),
    "a UDP length one byte beyond it": ({"udp_len": 8 + 8 + len(TENANT) + 1}, Drop.BAD_VXLAN),
    "a UDP length within its header": ({"udp_len": 7}, Drop.BAD_VXLAN),
    "no I flag": ({"vxlan_flags": 0}, Drop.BAD_VXLAN),
    "an unknown VNI": ({"vxlan_vni": 101}, Drop.UNKNOWN_VNI),
    "VNI zero": ({"vxlan_vni": 0}, Drop.UNKNOWN_VNI),
    "an unknown VTEP": ({"ip_src": "192.168.0.77"}, Drop.UNKNOWN_VTEP),
    "a VTEP without an endpoint of the VPC": ({"vxlan_vni": BLUE}, Drop.UNKNOWN_VTEP),
    "a source that lives elsewhere": ({"ip_src": str(HOST_B)}, Drop.SPOOFED_SOURCE),
}


@pytest.mark.parametrize("what", REFUSED)
def test_invalid_outer_headers_are_refused(what: str) -> None:
    fields, why = REFUSED[what]
    fate = fate_of(changed(**fields))
    assert (fate.end, fate.why) == ("dropped", why)


ALLOWED = {
    "reserved bits of VXLAN": {"vxlan_flags": 0x0D, "vxlan_reserved2": 0xFF},
    "an unverified UDP checksum": {"udp_chksum": 0xBEEF},
    "any source port": {"udp_sport": 1},
    "DF or not": {"ip_flags": 0},
}


@pytest.mark.parametrize("what", ALLOWED)
def test_outer_headers_that_rfc_7348_allows_are_accepted(what: str) -> None:
    assert fate_of(changed(**ALLOWED[what])).frame == bytes(TENANT)


def test_an_outer_header_may_have_options_but_no_source_route() -> None:
    good = tunnelled(TENANT, options=(IPOption_NOP(), IPOption_RR(routers=["1.2.3.4"])))
    assert fate_of(good).frame == bytes(TENANT)
    for option in (IPOption_LSRR, IPOption_SSRR):
        assert fate_of(tunnelled(TENANT, options=(option(routers=["1.2.3.4"]),))).why is Drop.BAD_IP_HEADER


@pytest.mark.parametrize("length", range(50 + 14 + 20 + 8))
def test_a_packet_truncated_at_any_byte_is_dropped(length: int) -> None:
    frame = tunnelled(TENANT)
    assert fate_of(frame[:length]).end == "dropped"
    in_first_buffer = GATEWAY.one(0, frame, first_length=max(length, 1), until=kinds.TRACK)
    assert in_first_buffer.end == "dropped"


@pytest.mark.parametrize("size", range(14))
def test_an_inner_frame_shorter_than_its_header_is_too_short(size: int) -> None:
    assert fate_of(tunnelled(Raw(bytes(size)))).why is Drop.TOO_SHORT


def test_vpcs_with_equal_addresses_are_distinguished_by_vni_and_vtep() -> None:
    red, blue = fate_of(changed()), fate_of(tunnelled(TENANT, vni=BLUE, host=HOST_B))
    assert (red.row["vpc"], blue.row["vpc"]) == (0, 1)
    assert (red.row["vni"], blue.row["vni"]) == (RED, BLUE)


def test_the_highest_vni_is_valid() -> None:
    frame = inner(IP(src="10.3.0.10", dst="10.0.0.10") / UDP(), target=0x024800FFFFFF)
    assert fate_of(tunnelled(frame, vni=GREEN, host=HOST_B)).row["vni"] == GREEN


SPOOFED = {
    "an unassigned address": inner(IP(src="10.0.0.99", dst="10.0.0.11") / UDP()),
    "that of a neighbour at another host": inner(IP(src="10.0.0.11", dst="10.0.0.12") / UDP()),
    "the gateway's": inner(IP(src="10.0.0.1", dst="10.0.0.11") / UDP()),
    "an unassigned IPv6 address": inner(IPv6(src="fd00::99", dst="fd00::11") / UDP()),
    "its own, from another MAC to a neighbour's": inner(
        IP(src="10.0.0.10", dst="10.0.0.11") / UDP(), source=0x02990000000A, target=RED_11
    ),
}


@pytest.mark.parametrize("what", SPOOFED)
def test_a_tenants_spoofed_source_is_dropped(what: str) -> None:
    assert fate_of(tunnelled(SPOOFED[what])).why is Drop.SPOOFED_SOURCE


def test_arp_is_punted_with_its_vni_and_vtep() -> None:
    request = Ether(src=mac_text(0x021000000010), dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.10", pdst="10.0.0.1")
    inside = fate_of(tunnelled(request))
    assert (inside.why, inside.row["vni"], inside.row["outer_source"]) == (Punt.ARP, RED, int(HOST_A))
    outside = fate_of(Ether(src=mac_text(5), dst="ff:ff:ff:ff:ff:ff") / ARP(psrc=str(HOST_C), pdst=str(VTEP)))
    assert (inside.end, outside.end) == ("punted", "punted")
    assert (outside.why, outside.row["vni"], outside.row["outer_source"]) == (Punt.ARP, 0, 0)
    reply = Ether(src=mac_text(5), dst=mac_text(PORT_MACS[0])) / ARP(op=2, psrc=str(HOST_C), pdst=str(VTEP))
    assert fate_of(reply).why is Punt.ARP
    assert fate_of(Ether(src=mac_text(5), dst=mac_text(6)) / ARP(op=2)).why is Drop.NOT_FOR_US


def test_a_ping_of_the_vtep_itself_is_punted() -> None:
    ping = Ether(dst=mac_text(PORT_MACS[0])) / IP(src=str(HOST_A), dst=str(VTEP)) / ICMP()
    assert fate_of(ping).why is Punt.FOR_GATEWAY
    assert (
        fate_of(Ether(dst=mac_text(PORT_MACS[0])) / IP(src=str(HOST_A), dst=str(VTEP)) / TCP()).why is Drop.NOT_FOR_US
    )


def test_a_vlan_tag_is_refused_outside_and_inside() -> None:
    frame = Ether(tunnelled(TENANT))
    tagged = Ether(dst=frame.dst, src=frame.src) / Dot1Q(vlan=5) / frame.payload
    assert fate_of(tagged).why is Drop.UNKNOWN_VLAN
    inside = Ether(dst=TENANT.dst, src=TENANT.src) / Dot1Q(vlan=5) / TENANT.payload
    assert fate_of(tunnelled(inside)).why is Drop.UNKNOWN_VLAN


def test_a_tenants_broadcast_is_dropped() -> None:
    assert fate_of(tunnelled(inner(TENANT.payload, target=0xFFFFFFFFFFFF))).why is Drop.BROADCAST
    assert fate_of(tunnelled(inner(TENANT.payload, target=0x01005E000001))).why is Drop.BROADCAST


def test_the_partners_vtep_is_served_during_a_takeover() -> None:
    taken = Elements(LOCAL, site_tables(taken_vtep=PARTNER))
    frame = tunnelled(TENANT, target=PARTNER)
    assert fate_of(frame).why is Drop.NOT_FOR_US
    assert fate_of(frame, taken).end == "track"
    assert fate_of(changed(), taken).end == "track"


def test_a_standby_gateway_forwards_nothing_but_punts_arp_and_pings() -> None:
    standby = Elements(LOCAL, site_tables(active=False))
    assert fate_of(changed(), standby).why is Drop.STANDBY
    ping = Ether(dst=mac_text(PORT_MACS[0])) / IP(src=str(HOST_A), dst=str(VTEP)) / ICMP()
    assert fate_of(ping, standby).why is Punt.FOR_GATEWAY
    assert fate_of(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=str(VTEP)), standby).why is Punt.ARP


def test_a_jumbo_frame_ends_with_its_packet() -> None:
    big = inner(IP(src="10.0.0.10", dst="10.0.0.11") / UDP() / Raw(bytes(4000)))
    frame = tunnelled(big)
    assert GATEWAY.one(0, frame, first_length=3840, until=kinds.TRACK).end == "track"
    assert GATEWAY.one(0, frame + b"more", first_length=3840, until=kinds.TRACK).why is Drop.BAD_VXLAN
    trailing = tunnelled(bytes(big) + b"more")
    assert GATEWAY.one(0, trailing, first_length=3840, until=kinds.TRACK).why is Drop.BAD_IP_HEADER
