"""VXLAN packets from host to host through the gateway's elements, byte for byte against scapy."""

from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway import graph as kinds
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.foundation.address import mac_text
from tests.fakes.gateway.elements import Elements, Fate
from tests.fakes.gateway.gateway_frames import RED_10, RED_11, arriving, dissected, inner, tunnelled
from tests.fakes.gateway.gateway_site import (
    CUSTOMER,
    GREEN,
    HOST_A,
    HOST_B,
    HOST_C,
    HOST_MACS,
    LOCAL,
    NEIGHBOURS,
    NETWORK,
    PORT_MACS,
    RED,
    VTEP,
    site_tables,
)

GATEWAY = Elements(LOCAL, site_tables())
V4 = {"src": "10.0.0.10", "dst": "10.0.0.11"}
V6 = {"src": "fd00::10", "dst": "fd00::11"}


def through(frame: Packet | bytes, **how: Any) -> Fate:
    return GATEWAY.one(0, tunnelled(frame, **how))


def outer(tos: int, source_port: int, vni: int = RED) -> Packet:
    """Return the outer headers that the gateway is expected to write, towards host B."""
    ether = Ether(src=mac_text(PORT_MACS[0]), dst=mac_text(HOST_MACS[HOST_B]))
    ip = IP(src=str(VTEP), dst=str(HOST_B), tos=tos, id=0, flags="DF", ttl=64)
    return ether / ip / UDP(sport=source_port, dport=4789, chksum=0) / VXLAN(flags=8, vni=vni)


PACKETS = {
    "udp": IP(**V4, ttl=9, tos=0xB8) / UDP(sport=1, dport=2) / Raw(b"hello"),
    "no payload": IP(**V4, ttl=2) / UDP(sport=1, dport=2),
    "tcp with options": IP(**V4) / TCP(options=[("MSS", 1460), ("SAckOK", b"")], seq=7),
    "ip options": IP(**V4, options=[b"\x01\x01\x07\x07\x04\0\0\0\0\0"]) / UDP() / Raw(b"x" * 100),
    "ping": IP(**V4) / ICMP(id=77) / Raw(b"y" * 56),
    "another protocol": IP(**V4, proto=132) / Raw(b"z" * 33),
    "v6 udp": IPv6(**V6, hlim=3, tc=0x2C, fl=0x12345) / UDP(sport=1, dport=2) / Raw(b"hello"),
    "v6 tcp": IPv6(**V6) / TCP(),
    "v6 ping": IPv6(**V6) / ICMPv6EchoRequest(id=5, data=b"abc"),
    "v6 options": IPv6(**V6) / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / UDP() / Raw(b"abc"),
}


@pytest.mark.parametrize("name", PACKETS)
def test_a_packet_goes_from_tunnel_to_tunnel_with_its_ttl_decremented(name: str) -> None:
    packet = PACKETS[name]
    fate = through(inner(packet))
    assert fate.end == "sent"
    assert fate.row["out_port"] == 0
    expected = packet.copy()
    if IP in expected:
        expected[IP].ttl -= 1
        service = expected[IP].tos
    else:
        expected[IPv6].hlim -= 1
        service = expected[IPv6].tc
    port = Ether(fate.frame)[UDP].sport
    frame = inner(expected, source=gateway_mac(RED), target=RED_11)
    assert fate.frame == bytes(outer(service, port) / frame)
    assert port >= 49152
    dissected(fate.frame)


def test_a_bridged_frame_is_unchanged() -> None:
    frame = inner(PACKETS["udp"], target=RED_11)
    fate = through(frame)
    assert fate.frame == bytes(outer(0xB8, Ether(fate.frame)[UDP].sport) / frame)


def test_a_back_end_of_direct_return_replies_from_the_virtual_ip_by_the_gateway() -> None:
    vip = IPv4Address("10.0.0.12")
    served = (VirtualIp(vpc="red", ip=vip, vteps=(HOST_C,), back_ends=(IPv4Address("10.0.0.11"),)),)
    tables = compile_tables(LOCAL, NETWORK, neighbours=NEIGHBOURS, generation=1, virtual_ips=served)
    packet = IP(src=str(vip), dst="10.0.0.10") / UDP()
    frame, bridged = inner(packet, source=RED_11), inner(packet, source=RED_11, target=RED_10)
    gateway = Elements(LOCAL, tables)
    assert through(frame, host=HOST_B).why is Drop.SPOOFED_SOURCE
    assert gateway.one(0, tunnelled(frame, host=HOST_B)).end == "sent"
    for strange in (tunnelled(frame, host=HOST_A), tunnelled(bridged, host=HOST_B)):
        assert gateway.one(0, strange).why is Drop.SPOOFED_SOURCE


def test_a_frame_with_the_mac_of_another_endpoint_is_dropped() -> None:
    assert through(inner(PACKETS["udp"], target=0x029900000001)).why is Drop.NOT_FOR_US


def test_a_frame_to_the_mac_of_a_peers_endpoint_is_not_bridged() -> None:
    assert through(inner(IP(src="10.0.0.10", dst="10.3.0.10") / UDP(), target=0x023000000010)).why is Drop.NOT_FOR_US


def test_a_packet_to_a_peers_endpoint_carries_the_peers_vni() -> None:
    fate = through(inner(IP(src="10.0.0.10", dst="10.3.0.10") / UDP()))
    packet = dissected(fate.frame)
    assert (packet[VXLAN].vni, packet[Ether:2].dst) == (GREEN, mac_text(0x023000000010))
    assert packet[Ether:2].src == mac_text(gateway_mac(GREEN))


def source_port(sport: int, payload: bytes) -> int:
    return Ether(through(inner(IP(**V4) / UDP(sport=sport) / Raw(payload))).frame)[UDP].sport


def test_a_flow_has_one_outer_source_port_and_flows_have_many() -> None:
    ports = [{source_port(sport, payload) for payload in (b"", b"a" * 9)} for sport in range(1000, 1040)]
    assert all(len(found) == 1 for found in ports)
    assert len(set.union(*ports)) > 35


@given(
    payload=st.binary(max_size=200),
    tos=st.integers(0, 255),
    ttl=st.integers(2, 255),
    sport=st.integers(0, 65535),
    identification=st.integers(0, 65535),
    is_v6=st.booleans(),
)
def test_encapsulated_frames_decapsulate_unchanged(payload, tos, ttl, sport, identification, is_v6) -> None:
    head = IPv6(**V6, hlim=ttl, tc=tos) if is_v6 else IP(**V4, ttl=ttl, tos=tos, id=identification)
    frame = bytes(inner(head / UDP(sport=sport, dport=9) / Raw(payload), target=RED_11))
    there = through(frame)
    packet = Ether(there.frame)
    assert packet[IP].tos == tos
    # As host B would send it on to a gateway: what that takes out has to be the first frame.
    again = tunnelled(bytes(packet[VXLAN].payload), host=HOST_A, tos=packet[IP].tos)
    assert GATEWAY.one(0, again, until=kinds.TRACK).frame == frame


@given(st.integers(0, 255).flatmap(lambda ttl: st.tuples(st.just(ttl), st.binary(max_size=64))))
def test_a_hop_limit_is_decremented_and_expires_at_the_gateway(case: tuple[int, bytes]) -> None:
    ttl, payload = case
    for head in (IP(**V4, ttl=ttl), IPv6(**V6, hlim=ttl)):
        fate = through(inner(head / UDP() / Raw(payload)))
        if ttl <= 1:
            assert fate.why is Punt.TTL_EXPIRED
            assert fate.frame == bytes(inner(head / UDP() / Raw(payload)))
        else:
            found = dissected(fate.frame)[Ether:2].payload
            assert (found.ttl if IP in found else found.hlim) == ttl - 1


def test_padding_is_not_forwarded() -> None:
    frame = bytes(inner(PACKETS["udp"])) + bytes(31)
    assert len(through(frame).frame) == len(frame) - 31 + 50


def test_without_head_room_nothing_is_written_before_a_frame() -> None:
    frame = tunnelled(inner(PACKETS["udp"]))
    assert GATEWAY.one(0, frame, head_room=0).end == "sent"  # the old outer headers make the room
    tagged = arriving(CUSTOMER, IP(src="10.99.1.1", dst="10.0.0.11") / UDP())
    assert GATEWAY.one(CUSTOMER, tagged, head_room=45).why is Drop.NO_HEAD_ROOM
    assert GATEWAY.one(CUSTOMER, tagged, head_room=46).end == "sent"


def test_a_packet_for_an_unknown_mac_is_punted_for_resolution() -> None:
    fate = through(inner(IP(src="10.0.0.10", dst="10.0.0.12", ttl=5) / UDP()))
    assert fate.why is Punt.RESOLVE
    assert Ether(fate.frame)[IP].ttl == 4  # it waits for the reply and leaves then
    assert HOST_C not in HOST_MACS


def test_the_row_contains_the_parsed_fields() -> None:
    fate = GATEWAY.one(0, tunnelled(inner(PACKETS["v6 options"]), tos=2), until=kinds.TRACK)
    row = fate.row
    frame = Ether(fate.frame)
    assert fate.frame == bytes(inner(PACKETS["v6 options"]))
    assert (row["vni"], row["vpc"], row["family"], row["protocol"]) == (RED, 0, 6, 17)
    assert (row["outer_source"], row["outer_ecn"], row["source_hop"]) == (int(HOST_A), 2, 3)
    assert row["l4_bytes"] == len(frame[UDP])
    assert row["l4"] + row["l4_bytes"] == row["at"] + row["length"]
    assert (row["ports"] >> 16, row["ports"] & 0xFFFF) == (frame[UDP].sport, frame[UDP].dport)
    assert (row["connection"], row["next_hop"], row["translation"]) == (-1, -1, -1)
    assert int(row["source_hi"]) & (1 << 64) - 1 == 0xFD00 << 48
