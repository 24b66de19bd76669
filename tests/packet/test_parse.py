"""The parser: fields read from IP and transport headers, and refused packets; IPv4, IPv6, fragments, header chains."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_LSRR, IPOption_NOP, IPOption_RR, IPOption_SSRR
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_Redirect,
    ICMPv6ND_RS,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.packet import Packet, Raw

from heddle.dataplane.engine.burst import FIRST_FRAGMENT, LATER_FRAGMENT
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway import graph as kinds
from tests.fakes.gateway.elements import Elements, Fate
from tests.fakes.gateway.gateway_frames import inner, tunnelled
from tests.fakes.gateway.gateway_site import LOCAL, site_tables

GATEWAY = Elements(LOCAL, site_tables())
V4 = {"src": "10.0.0.10", "dst": "10.0.0.11"}
V6 = {"src": "fd00::10", "dst": "fd00::11"}


def parsed(packet: Packet, **how: Any) -> Fate:
    return GATEWAY.one(0, tunnelled(inner(packet)), until=kinds.TRACK, **how)


def ports(source: int, target: int) -> int:
    return source << 16 | target


READ = {
    "tcp": (IP(**V4) / TCP(sport=70, dport=65535), 6, ports(70, 65535)),
    "udp": (IP(**V4) / UDP(sport=0, dport=1), 17, ports(0, 1)),
    "ping": (IP(**V4) / ICMP(type=8, id=500), 1, ports(500, 0)),
    "pong": (IP(**V4) / ICMP(type=0, id=501), 1, ports(0, 501)),
    "icmp error": (IP(**V4) / ICMP(type=3, code=4) / Raw(b"\x99" * 28), 1, 0),
    "sctp": (IP(**V4, proto=132) / Raw(b"\x99" * 28), 132, 0),
    "without payload": (IP(**V4, proto=200), 200, 0),
    "v6 tcp": (IPv6(**V6) / TCP(sport=70, dport=65535), 6, ports(70, 65535)),
    "v6 ping": (IPv6(**V6) / ICMPv6EchoRequest(id=500), 58, ports(500, 0)),
    "v6 pong": (IPv6(**V6) / ICMPv6EchoReply(id=501), 58, ports(0, 501)),
    "v6 icmp error": (IPv6(**V6) / ICMPv6PacketTooBig() / Raw(b"\x99" * 48), 58, 0),
    "v6 without more": (IPv6(**V6, nh=59), 59, 0),
    "v6 chain": (
        IPv6(**V6)
        / IPv6ExtHdrHopByHop()
        / IPv6ExtHdrDestOpt(options=[])
        / IPv6ExtHdrRouting(type=0, segleft=0)
        / IPv6ExtHdrDestOpt()
        / UDP(sport=5, dport=6),
        17,
        ports(5, 6),
    ),
    "v6 authenticated": (IPv6(**V6) / AH(nh=17, payloadlen=4, icv=bytes(12)) / UDP(sport=5, dport=6), 17, ports(5, 6)),
    "v6 encrypted": (IPv6(**V6, nh=50) / Raw(b"\x99" * 30), 50, 0),
    "v6 fragment that is whole": (IPv6(**V6) / IPv6ExtHdrFragment(id=9) / UDP(sport=5, dport=6), 17, ports(5, 6)),
}


@pytest.mark.parametrize("what", READ)
def test_protocol_and_ports_are_read_behind_every_header(what: str) -> None:
    packet, protocol, expected = READ[what]
    row = parsed(packet).row
    assert (row["protocol"], row["ports"], row["fragment"], row["fragment_id"]) == (protocol, expected, 0, 0)
    assert row["l4"] + row["l4_bytes"] == row["at"] + row["length"]
    assert row["family"] == (4 if IP in packet else 6)


BAD = {
    "version": (IP(**V4, version=6) / UDP(), Drop.BAD_IP_HEADER),
    "header of three words": (IP(**V4, ihl=3) / UDP(), Drop.BAD_IP_HEADER),
    "header longer than the packet": (IP(**V4, ihl=15) / UDP(), Drop.BAD_IP_HEADER),
    "checksum": (IP(**V4, chksum=1) / UDP(), Drop.BAD_IP_HEADER),
    "checksum of ones": (IP(**V4, chksum=0xFFFF) / UDP(), Drop.BAD_IP_HEADER),
    "total length beyond": (IP(**V4, len=29) / UDP(), Drop.BAD_IP_HEADER),
    "loose source route": (IP(**V4, options=[IPOption_LSRR(routers=["1.1.1.1"])]) / UDP(), Drop.BAD_IP_HEADER),
    "strict one": (IP(**V4, options=[IPOption_NOP(), IPOption_SSRR(routers=["1.1.1.1"])]) / UDP(), Drop.BAD_IP_HEADER),
    "option without end": (IP(**V4, options=[b"\x07\x28\x04\x00"]) / UDP(), Drop.BAD_IP_HEADER),
    "option of no length": (IP(**V4, options=[b"\x07\x00\x00\x00"]) / UDP(), Drop.BAD_IP_HEADER),
    "reserved protocol": (IP(**V4, proto=0) / Raw(b"\x99" * 28), Drop.BAD_IP_HEADER),
    "option of one byte at the end": (IP(**V4, options=[b"\x01\x01\x01\x07"]) / UDP(), Drop.BAD_IP_HEADER),
    "UDP cut": (IP(**V4, proto=17) / Raw(b"1234567"), Drop.TOO_SHORT),
    "TCP cut": (IP(**V4, proto=6) / Raw(b"\x99" * 19), Drop.TOO_SHORT),
    "ICMP cut": (IP(**V4, proto=1) / Raw(b"\x08\x00\x00\x00\x00\x00\x00"), Drop.TOO_SHORT),
    "UDP length beyond": (IP(**V4) / UDP(len=9), Drop.BAD_TRANSPORT),
    "UDP length within": (IP(**V4) / UDP(len=7), Drop.BAD_TRANSPORT),
    "TCP offset of four": (IP(**V4) / TCP(dataofs=4), Drop.BAD_TRANSPORT),
    "TCP offset beyond": (IP(**V4) / TCP(dataofs=6), Drop.BAD_TRANSPORT),
    "multicast": (IP(src="10.0.0.10", dst="224.0.0.5") / UDP(), Drop.BROADCAST),
    "broadcast": (IP(src="10.0.0.10", dst="255.255.255.255") / UDP(), Drop.BROADCAST),
    "to itself": (IP(src="10.0.0.10", dst="10.0.0.10") / UDP(), Drop.MARTIAN),
    "from the unspecified address": (IP(src="0.0.0.0", dst="10.0.0.10") / UDP(), Drop.MARTIAN),
    "from the loop": (IP(src="127.0.0.1", dst="10.0.0.10") / UDP(), Drop.MARTIAN),
    "from many": (IP(src="224.0.0.1", dst="10.0.0.10") / UDP(), Drop.MARTIAN),
    "from all": (IP(src="255.255.255.255", dst="10.0.0.10") / UDP(), Drop.MARTIAN),
    "to an invalid address": (IP(src="10.0.0.10", dst="0.1.2.3") / UDP(), Drop.MARTIAN),
    "to the loop": (IP(src="10.0.0.10", dst="127.0.0.1") / UDP(), Drop.MARTIAN),
    "to the future": (IP(src="10.0.0.10", dst="240.0.0.1") / UDP(), Drop.MARTIAN),
    "to a link-local address": (IP(src="10.0.0.10", dst="169.254.169.254") / UDP(), Drop.MARTIAN),
    "from a link-local address": (IP(src="169.254.0.1", dst="10.0.0.10") / UDP(), Drop.MARTIAN),
    "SYN with the checksum of a veth with offloads": (IP(**V4) / TCP(flags="S", chksum=0x1442), Drop.BAD_CHECKSUM),
    "SYN and ACK with a wrong checksum": (IP(**V4) / TCP(flags="SA", chksum=1) / Raw(b"odd"), Drop.BAD_CHECKSUM),
    "v6 SYN with a wrong checksum": (IPv6(**V6) / TCP(flags="S", chksum=1), Drop.BAD_CHECKSUM),
    "v6 version": (IPv6(**V6, version=4) / UDP(), Drop.BAD_IP_HEADER),
    "v6 length beyond": (IPv6(**V6, plen=9) / UDP(), Drop.BAD_IP_HEADER),
    "v6 UDP cut": (IPv6(**V6, nh=17) / Raw(b"1234567"), Drop.TOO_SHORT),
    "v6 chain cut": (IPv6(**V6, nh=60) / Raw(b"\x11\x00\x00\x00"), Drop.TOO_SHORT),
    "v6 chain beyond": (IPv6(**V6, nh=60) / Raw(b"\x11\x01" + bytes(10)), Drop.TOO_SHORT),
    "v6 chain beyond, to nothing that is read": (IPv6(**V6, nh=60) / Raw(b"\x84\x01" + bytes(6)), Drop.TOO_SHORT),
    "v6 fragment header cut": (IPv6(**V6, nh=44) / Raw(b"\x11\x00\x00\x00"), Drop.TOO_SHORT),
    "v6 hop by hop in another place": (
        IPv6(**V6) / IPv6ExtHdrDestOpt() / IPv6ExtHdrHopByHop() / UDP(),
        Drop.BAD_IP_HEADER,
    ),
    "v6 source route": (
        IPv6(**V6) / IPv6ExtHdrRouting(type=0, segleft=1, addresses=["::5"]) / UDP(),
        Drop.BAD_IP_HEADER,
    ),
    "v6 two fragment headers": (
        IPv6(**V6) / IPv6ExtHdrFragment(m=1) / IPv6ExtHdrFragment(m=1) / UDP(),
        Drop.BAD_IP_HEADER,
    ),
    "v6 multicast": (IPv6(src="fd00::10", dst="ff02::1") / UDP(), Drop.BROADCAST),
    "v6 from many": (IPv6(src="ff02::1", dst="fd00::10") / UDP(), Drop.MARTIAN),
    "v6 from the unspecified address": (IPv6(src="::", dst="fd00::10") / UDP(), Drop.MARTIAN),
    "v6 to the loop": (IPv6(src="fd00::10", dst="::1") / UDP(), Drop.MARTIAN),
    "v6 to itself": (IPv6(src="fd00::10", dst="fd00::10") / UDP(), Drop.MARTIAN),
    "v6 of its link": (IPv6(src="fe80::1", dst="fd00::10") / UDP(), Drop.MARTIAN),
    "v6 to its link": (IPv6(src="fd00::10", dst="fe80::1") / UDP(), Drop.MARTIAN),
    "v6 that says it is v4": (IPv6(src="::ffff:10.0.0.10", dst="::ffff:10.0.0.11") / UDP(), Drop.MARTIAN),
    "v6 to a v4 address": (IPv6(src="fd00::10", dst="::ffff:10.0.0.11") / UDP(), Drop.MARTIAN),
}


@pytest.mark.parametrize("what", BAD)
def test_an_invalid_packet_is_dropped_for_its_reason(what: str) -> None:
    packet, why = BAD[what]
    fate = parsed(packet)
    assert (fate.end, fate.why) == ("dropped", why)


def test_options_other_than_source_routes_are_accepted() -> None:
    for options in ([IPOption_NOP()], [IPOption_RR(routers=["1.1.1.1"])], [b"\x00\x07\x00\x00"], [b"\x01" * 40]):
        assert parsed(IP(**V4, options=options) / UDP()).end == "track"


@pytest.mark.parametrize("headers", range(1, 12))
def test_a_chain_of_at_most_eight_extension_headers_is_accepted(headers: int) -> None:
    packet = IPv6(**V6)
    for _ in range(headers):
        packet = packet / IPv6ExtHdrDestOpt()
    fate = parsed(packet / UDP())
    assert fate.end == ("track" if headers <= 8 else "dropped")
    assert headers <= 8 or fate.why is Drop.BAD_IP_HEADER


def test_a_chain_that_leaves_the_first_buffer_is_dropped() -> None:
    options = bytes((17, 255, 1, 253)) + bytes(2044)
    packet = IPv6(**V6, nh=60) / Raw(options + bytes(UDP(len=1008)) + bytes(1000))
    assert parsed(packet, first_length=1000).why is Drop.TOO_SHORT
    assert parsed(packet).end == "track"


@pytest.mark.parametrize("cut", range(20, 60))
def test_options_beyond_the_first_buffer_are_not_read(cut: int) -> None:
    packet = IP(**V4, options=[b"\x01" * 40]) / UDP() / Raw(bytes(100))
    assert parsed(packet, first_length=50 + 14 + cut).why is Drop.TOO_SHORT


@pytest.mark.parametrize(("layer", "size"), [(TCP(), 20), (UDP(), 8), (ICMP(), 8)])
def test_a_transport_header_beyond_the_first_buffer_is_not_read(layer: Packet, size: int) -> None:
    packet = IP(**V4) / layer / Raw(bytes(100))
    for there in range(size):
        assert parsed(packet, first_length=50 + 14 + 20 + there).why is Drop.TOO_SHORT
    assert parsed(packet, first_length=50 + 14 + 20 + size).end == "track"


def fragment(offset: int, more: int, payload: bytes, protocol: int, family: int) -> Packet:
    if family == 4:
        return IP(**V4, id=77, frag=offset // 8, flags="MF" if more else 0, proto=protocol) / Raw(payload)
    return IPv6(**V6) / IPv6ExtHdrFragment(id=77, offset=offset // 8, m=more, nh=protocol) / Raw(payload)


TCP_HEAD = bytes(TCP(sport=1, dport=2))
UDP_HEAD = bytes(UDP(sport=1, dport=2, len=4000))
FRAGMENTS = {
    "first of UDP": (fragment, (0, 1, UDP_HEAD + bytes(8), 17), FIRST_FRAGMENT, ports(1, 2)),
    "first of UDP, the header alone": (fragment, (0, 1, UDP_HEAD, 17), FIRST_FRAGMENT, ports(1, 2)),
    "first of TCP": (fragment, (0, 1, TCP_HEAD + bytes(4), 6), FIRST_FRAGMENT, ports(1, 2)),
    "later, more to come": (fragment, (24, 1, bytes(16), 6), LATER_FRAGMENT, 0),
    "last": (fragment, (1480, 0, bytes(13), 17), LATER_FRAGMENT, 0),
    "last of the longest": (fragment, (65512, 0, bytes(23), 17), LATER_FRAGMENT, 0),
}


@pytest.mark.parametrize("what", FRAGMENTS)
@pytest.mark.parametrize("family", [4, 6])
def test_kind_and_identification_of_a_fragment_are_read(what: str, family: int) -> None:
    make, arguments, kind, expected = FRAGMENTS[what]
    row = parsed(make(*arguments, family)).row
    assert (row["fragment"], row["ports"]) == (kind, expected)
    assert row["fragment_id"] == 77 | arguments[3] << 32
    assert row["protocol"] == arguments[3]


BAD_FRAGMENTS = {
    "empty": (0, 1, b"", 17),
    "last and empty": (8, 0, b"", 17),
    "odd, and more to come": (8, 1, bytes(15), 17),
    "past the largest packet": (65528, 0, bytes(16), 17),
    "first of TCP within its header": (0, 1, TCP_HEAD[:16], 6),
    "over the header of TCP": (8, 0, bytes(16), 6),
    "over the end of the header of TCP": (16, 0, bytes(16), 6),
}


@pytest.mark.parametrize("what", BAD_FRAGMENTS)
@pytest.mark.parametrize("family", [4, 6])
def test_an_invalid_fragment_is_dropped(what: str, family: int) -> None:
    assert parsed(fragment(*BAD_FRAGMENTS[what], family)).why is Drop.BAD_FRAGMENT


def discovery(packet: Packet, source: str = "fd00::10", target: str = "ff02::1:ff00:1", limit: int = 255) -> Fate:
    frame = inner(IPv6(src=source, dst=target, hlim=limit) / packet, target=0x3333FF000001)
    return GATEWAY.one(0, tunnelled(frame), until=kinds.TRACK)


def test_neighbour_discovery_goes_to_the_slow_path() -> None:
    assert discovery(ICMPv6ND_NS(tgt="fd00::1")).why is Punt.NEIGHBOUR
    assert discovery(ICMPv6ND_NS(tgt="fd00::10"), source="::").why is Punt.NEIGHBOUR  # is the address free?
    assert discovery(ICMPv6ND_NA(tgt="fd00::10"), target="ff02::1").why is Punt.NEIGHBOUR
    assert discovery(ICMPv6ND_RS(), source="fe80::5", target="ff02::2").why is Punt.NEIGHBOUR
    probe = inner(IPv6(**V6, hlim=255) / ICMPv6ND_NS(tgt="fd00::11"), target=0x021000000011)
    assert GATEWAY.one(0, tunnelled(probe), until=kinds.TRACK).why is Punt.NEIGHBOUR


def test_discovery_from_beyond_a_router_or_of_another_router_is_dropped() -> None:
    assert discovery(ICMPv6ND_NS(tgt="fd00::1"), limit=254).why is Drop.BAD_IP_HEADER
    assert discovery(IPv6ExtHdrFragment(m=1) / ICMPv6ND_NS(tgt="fd00::1")).why is Drop.BAD_IP_HEADER
    assert discovery(ICMPv6ND_RA()).why is Drop.NOT_FOR_US
    assert discovery(ICMPv6ND_Redirect()).why is Drop.NOT_FOR_US


def test_a_ping_of_the_gateways_link_local_address_goes_to_the_slow_path() -> None:
    packet = IPv6(src="fe80::10", dst="fe80::48:ff:fe00:64")
    assert parsed(packet / ICMPv6EchoRequest()).why is Punt.FOR_GATEWAY
    assert parsed(packet / UDP()).why is Drop.MARTIAN


@given(
    packet=st.binary(max_size=120),
    kind=st.sampled_from([0x0800, 0x86DD, 0x0806, 0x8100, 0x1234]),
    behind=st.binary(min_size=1, max_size=64),
)
def test_bytes_behind_a_packet_are_ignored(packet: bytes, kind: int, behind: bytes) -> None:
    frame = tunnelled(Raw(bytes(12) + kind.to_bytes(2, "big") + packet))
    one, other = (GATEWAY.one(0, frame, behind=each) for each in (b"", behind))
    assert (one.end, one.why, one.frame) == (other.end, other.why, other.frame)
    assert one.row == other.row


@given(
    place=st.integers(0, 139),
    bit=st.integers(0, 7),
    length=st.integers(0, 140),
    behind=st.binary(min_size=200, max_size=200),
    name=st.sampled_from(sorted(READ)),
)
def test_flipped_bits_and_truncation_are_judged_by_the_packet_alone(
    place: int, bit: int, length: int, behind: bytes, name: str
) -> None:
    mutated = bytearray(tunnelled(inner(READ[name][0])))
    mutated[place % len(mutated)] ^= 1 << bit
    whole = bytes(mutated)
    for frame, first_length in ((whole, None), (whole, max(length, 1)), (whole[:length], None)):
        one, other = (GATEWAY.one(0, frame, behind=each, first_length=first_length) for each in (b"", behind))
        assert (one.end, one.why, one.frame, one.row) == (other.end, other.why, other.frame, other.row)
