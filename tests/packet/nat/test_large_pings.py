"""The gateway replies to pings of its own addresses that exceed the MTU: they come and go in fragments."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, defragment, fragment
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    IPv6,
    IPv6ExtHdrFragment,
    defragment6,
    fragment6,
)
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.control.slow.fragment import MAX_FRAGMENTS
from heddle.dataplane.control.slow.reassembly import MAX_OF_ACCOUNT, MAX_PACKETS, TIMEOUT_NS, Reassembly
from heddle.dataplane.control.slow.slow_path import Outcome
from heddle.dataplane.control.slow.view import Ip, read_ip
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.packet.ethernet import IPV4, IPV6
from tests.fakes.gateway.gateway_frames import arriving, inner, tunnelled
from tests.fakes.gateway.gateway_site import CUSTOMER, EXTERNAL, HOST_B, UNDERLAY
from tests.fakes.gateway.whole_gateway import WholeGateway
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

BODY = random.Random(3).randbytes(65_507)


def request(source: str, target: str, size: int) -> list[Packet]:
    """Return the fragments of a ping with `size` bytes of data."""
    if ":" not in source:
        return list(fragment(IP(src=source, dst=target, id=44) / ICMP(id=5, seq=6) / Raw(BODY[:size]), 1480))
    head = IPv6(src=source, dst=target) / IPv6ExtHdrFragment(id=44)
    return list(fragment6(head / ICMPv6EchoRequest(id=5, seq=6, data=BODY[:size]), 1500))


def reply_of(packets: list[Packet]) -> tuple[str, str, bytes]:
    """Return source, target and data of the echo reply that fragments are joined to."""
    assert all(len(packet) <= 1500 and bytes(type(packet)(bytes(packet))) == bytes(packet) for packet in packets)
    if IP in packets[0]:
        (whole,) = defragment(packets)
        assert (whole[ICMP].type, whole[ICMP].id, whole[ICMP].seq) == (0, 5, 6)
        return whole.src, whole.dst, bytes(whole[ICMP].payload)
    whole = IPv6(bytes(defragment6([IPv6(bytes(packet)) for packet in packets])))
    echo = whole[ICMPv6EchoReply]
    assert (echo.id, echo.seq) == (5, 6)
    return whole.src, whole.dst, bytes(echo.data)


CASES: list[tuple[str, str, int]] = [
    ("10.0.0.10", "10.0.0.1", UNDERLAY),
    ("fd00::10", "fd00::1", UNDERLAY),
    ("fd00::10", "fe80::48:ff:fe00:64", UNDERLAY),
    ("198.51.100.7", "203.0.113.2", EXTERNAL),
    ("198.51.100.7", "203.0.113.10", EXTERNAL),
    ("10.99.0.5", "10.0.0.1", CUSTOMER),
]


@pytest.mark.parametrize(("source", "target", "port"), CASES)
@pytest.mark.parametrize("size", [1473, 3000, 65_000])
def test_a_ping_in_fragments_gets_its_reply_in_fragments(source: str, target: str, port: int, size: int) -> None:
    gateway = WholeGateway()
    packets = request(source, target, size)
    frames = [tunnelled(inner(each)) if port == UNDERLAY else arriving(port, each) for each in packets]
    left = gateway.through(port, *frames)
    assert set(left) == {port}
    found = [Ether(frame)[VXLAN][Ether] if port == UNDERLAY else Ether(frame) for frame in left[port]]
    assert reply_of([each[IP] if IP in each else each[IPv6] for each in found]) == (target, source, BODY[:size])
    assert gateway.path.outcomes == {Outcome.GATHERED: len(frames) - 1, Outcome.ANSWERED_PING: 1}
    assert gateway.drops() == {}


def test_fragments_of_a_reply_to_an_endpoints_ping_still_reach_the_endpoint() -> None:
    gateway = WholeGateway()
    ping = IP(src="10.0.0.11", dst="198.51.100.7") / ICMP(id=77)
    (out,) = gateway.through(UNDERLAY, tunnelled(inner(ping, source=0x021000000011), host=HOST_B))[EXTERNAL]
    reply = IP(src="198.51.100.7", dst="203.0.113.10", id=3) / ICMP(type=0, id=Ether(out)[ICMP].id) / Raw(BODY[:3000])
    left = gateway.through(EXTERNAL, *(arriving(EXTERNAL, each) for each in fragment(reply, 1480)))[UNDERLAY]
    (whole,) = defragment([Ether(frame)[VXLAN][Ether][IP] for frame in left])
    assert (whole.dst, whole[ICMP].id, bytes(whole[ICMP].payload)) == ("10.0.0.11", 77, BODY[:3000])


def test_later_fragments_without_a_first_are_dropped() -> None:
    gateway = WholeGateway()
    _, *later = request("198.51.100.7", "203.0.113.10", 4000)
    assert gateway.through(EXTERNAL, *(arriving(EXTERNAL, each) for each in later)) == {}
    assert gateway.drops() == {Drop.FRAGMENT_WITHOUT_FIRST: len(later)}


def parsed(packet: Packet) -> Ip:
    found = read_ip(IPV4 if IP in packet else IPV6, bytes(packet))
    assert found is not None
    return found


@given(data=st.data(), family=st.sampled_from([4, 6]), size=st.integers(1481, 20_000))
@settings(max_examples=examples(40), deadline=None)
def test_fragments_in_any_order_and_repeated_join_to_the_request(data: Any, family: int, size: int) -> None:
    ends = ("10.0.0.10", "10.0.0.1") if family == 4 else ("fd00::10", "fd00::1")
    parts = [parsed(each) for each in request(*ends, size)]
    order = data.draw(st.permutations(range(len(parts))))
    repeated = data.draw(st.sets(st.sampled_from(order[:-1]))) if len(order) > 1 else set()
    pings = Reassembly()
    for number in [each for each in order[:-1] for _ in range(1 + (each in repeated))]:
        assert pings.add(1, parts[number], 0) is True
    found = pings.add(1, parts[order[-1]], 0)
    assert not isinstance(found, bool)
    assert found[0].payload[8:] == BODY[:size]
    assert found[1] == [part.fragment_offset for part in parts]
    assert len(pings) == 0


def first(number: int) -> Ip:
    return parsed(IP(src="10.0.0.10", dst="10.0.0.1", id=number, flags="MF") / ICMP() / Raw(bytes(16)))


def test_incomplete_pings_are_bounded_by_account_in_all_and_in_time() -> None:
    pings = Reassembly()
    assert [pings.add(1, first(number), 0) for number in range(MAX_OF_ACCOUNT + 1)] == [True] * MAX_OF_ACCOUNT + [False]
    for number in range(MAX_PACKETS):
        pings.add(2 + number // MAX_OF_ACCOUNT, first(number), 0)
    assert len(pings) == MAX_PACKETS
    assert pings.add(999, first(1), TIMEOUT_NS) is False
    assert pings.add(999, first(1), TIMEOUT_NS + 1) is True
    assert len(pings) == 1


def piece(start: int, size: int, *, more: bool = True) -> Ip:
    return parsed(
        IP(src="10.0.0.10", dst="10.0.0.1", id=1, frag=start // 8, flags="MF" if more else "", proto=1)
        / Raw(bytes(size))
    )


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(0, 16), piece(8, 16)],
        [piece(16, 8, more=False), piece(24, 8)],
        [piece(16, 8, more=False), piece(8, 8, more=False)],
        [piece(65_528, 8)],
        [piece(8 * number, 8) for number in range(MAX_FRAGMENTS + 1)],
    ],
    ids=["overlap", "behind the last", "two last ones", "past 65,535 bytes", "too many"],
)
def test_fragments_that_contradict_each_other_or_are_too_many_are_forgotten(pieces: list[Ip]) -> None:
    pings = Reassembly()
    *fine, last = [pings.add(1, each, 0) for each in pieces]
    assert (fine, last, len(pings)) == ([True] * len(fine), False, 0)
