"""A whole gateway on ports in memory: from the tunnel through routing, rules and translation to the output port."""

import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from heddle.dataplane.control.slow.directory import Directory
from heddle.dataplane.control.slow.next_hops import NextHops
from heddle.dataplane.control.slow.slow_path import SlowPath
from heddle.dataplane.elements.memory.punt_share import MAX_BURST, PACKET_NS, may_punt
from heddle.dataplane.engine.burst import PACKET
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.io.frames.layout import FRAMES, FREE
from heddle.dataplane.jit import Ints, Rows, kernel
from tests.fakes.gateway.gateway_frames import RED_11, arriving, dissected, inner, tunnelled
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_site import (
    BLUE,
    CUSTOMER,
    EXTERNAL,
    HOST_A,
    HOST_B,
    LOCAL,
    NETWORK,
    PORT_MACS,
    RED,
    UNDERLAY,
    site_tables,
)
from tests.support.examples import examples

TABLES = site_tables()
FOREVER_NS = 1 << 62


@pytest.fixture
def loop() -> Iterator[GatewayLoop]:
    made = GatewayLoop(LOCAL, TABLES)
    yield made
    assert made.received() == made.ended()


def udp(source: str, target: str, size: int = 30, **ports: int) -> IP:
    return IP(src=source, dst=target) / UDP(**{"sport": 1000, "dport": 2000, **ports}) / Raw(bytes(size))


def test_a_tenants_packet_goes_from_one_tunnel_to_another(loop: GatewayLoop) -> None:
    left = loop.through(UNDERLAY, tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11)))
    assert list(left) == [UNDERLAY]
    out = dissected(left[UNDERLAY][0])
    assert (out[IP].dst, out[VXLAN].vni) == (str(HOST_B), RED)
    assert (out[VXLAN].payload[IP].src, out[VXLAN].payload[IP].dst) == ("10.0.0.10", "10.0.0.11")


def test_nat_translates_packets_and_their_replies(loop: GatewayLoop) -> None:
    # Not 10.0.0.10: that one has a floating address.
    frame = tunnelled(inner(udp("10.0.0.11", "198.51.100.7"), source=RED_11), host=HOST_B)
    out = dissected(loop.through(UNDERLAY, frame)[EXTERNAL][0])
    assert out[IP].src == "203.0.113.10"
    reply = IP(src="198.51.100.7", dst="203.0.113.10") / UDP(sport=2000, dport=out[UDP].sport) / Raw(b"back")
    back = dissected(loop.through(EXTERNAL, arriving(EXTERNAL, reply))[UNDERLAY][0])
    assert (back[IP].dst, back[VXLAN].vni) == (str(HOST_B), RED)
    within = back[VXLAN].payload
    assert (within[IP].dst, within[UDP].dport, bytes(within[Raw])) == ("10.0.0.11", 1000, b"back")


def test_tenants_with_equal_addresses_are_isolated(loop: GatewayLoop) -> None:
    red = tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11))
    blue = tunnelled(
        inner(udp("10.0.0.10", "10.0.0.11"), source=0x022000000010, target=0x022000000011), vni=BLUE, host=HOST_B
    )
    left = loop.through(UNDERLAY, red, blue, red, blue)
    assert [dissected(frame)[VXLAN].vni for frame in left[UNDERLAY]] == [RED, BLUE, RED, BLUE]


def test_an_arp_request_is_punted_with_its_tunnel_headers(loop: GatewayLoop) -> None:
    request = Ether(src="02:10:00:00:00:10", dst="ff:ff:ff:ff:ff:ff") / ARP(
        op=1, hwsrc="02:10:00:00:00:10", psrc="10.0.0.10", pdst="10.0.0.1"
    )
    frame = tunnelled(request)
    assert loop.through(UNDERLAY, frame) == {}
    (punted,) = loop.punts.read()
    assert (punted.reason, punted.in_port, punted.vni, punted.frame) == (Punt.ARP, UNDERLAY, RED, frame)
    assert punted.frame[punted.inner :] == bytes(request)


def test_a_call_that_has_punted_ends_without_a_sleep(loop: GatewayLoop) -> None:
    request = Ether(src="02:10:00:00:00:10", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.10", pdst="10.0.0.1")
    waker = os.eventfd(1)
    try:
        loop.sleepers = sleepers([waker])
        assert loop.io.put(UNDERLAY, tunnelled(request))
        loop.forward(call_ns=FOREVER_NS)
        assert (len(loop.punts.read()), has_slept(loop)) == (1, False)
        loop.forward(call_ns=FOREVER_NS)
        assert has_slept(loop)
    finally:
        os.close(waker)


def has_slept(loop: GatewayLoop) -> bool:
    """Return whether poll(2) has marked the readable file."""
    return bool(loop.sleepers.view(np.int16)[3])


def test_a_frame_sent_by_the_slow_path_leaves_unchanged(loop: GatewayLoop) -> None:
    frame = bytes(Ether(src="02:00:00:00:00:02", dst="02:bb:00:00:00:01") / udp("203.0.113.2", "203.0.113.1"))
    assert loop.injector.send(frame, EXTERNAL)
    assert loop.through(UNDERLAY) == {EXTERNAL: [frame]}
    assert loop.counters.ports["rx_injected"].tolist() == [0, 1, 0, 0]


def test_a_frame_that_the_slow_path_enters_passes_through_the_graph(loop: GatewayLoop) -> None:
    frame = tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11))
    arrived = loop.through(UNDERLAY, frame)
    assert loop.injector.enter(frame, UNDERLAY)
    assert loop.through(UNDERLAY) == arrived


def test_a_full_punt_ring_drops_only_packets_for_the_slow_path(loop: GatewayLoop) -> None:
    request = tunnelled(
        Ether(src="02:10:00:00:00:10", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.10", pdst="10.0.0.1")
    )
    for _ in range(20):
        loop.through(UNDERLAY, *[request] * 32)
    assert loop.drops()[Drop.PUNT_FULL] + int(loop.counters.punts[Punt.ARP]) == 640
    assert loop.drops()[Drop.PUNT_FULL] == loop.punts.refused() > 0
    assert loop.through(UNDERLAY, tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11)))


def icmp_replies(loop: GatewayLoop, port: int, frame: bytes) -> list[Packet]:
    """Return the packets that the slow path sends to the sender of a frame."""
    hops = NextHops.of(loop.tables)
    path = SlowPath(Directory(LOCAL, NETWORK), hops)
    path.configure(path._directory, hops, 0)
    assert loop.through(port, frame) == {}
    for punted in loop.punts.read():
        for effect in path.handle(punted, 0):
            assert loop.injector.send(effect.frame, effect.port)
    left = loop.through(port)
    assert list(left) in ([], [port])
    return [dissected(frame) for frame in left.get(port, [])]


@pytest.mark.parametrize(
    ("target", "code", "why"), [("10.0.0.77", 1, Drop.DISCARD_ROUTE), ("10.3.0.77", 0, Drop.NO_ROUTE)]
)
def test_the_sender_of_an_unroutable_packet_gets_an_icmp_error(
    loop: GatewayLoop, target: str, code: int, why: Drop
) -> None:
    packet = udp("10.0.0.10", target)
    (reply,) = icmp_replies(loop, UNDERLAY, tunnelled(inner(packet)))
    error = reply[VXLAN].payload
    assert (error[IP].src, error[IP].dst, error[ICMP].type, error[ICMP].code) == ("10.0.0.1", "10.0.0.10", 3, code)
    assert bytes(error[ICMP].payload) == bytes(packet)
    assert loop.drops() == {}
    assert icmp_replies(loop, UNDERLAY, tunnelled(inner(packet, target=RED_11))) == []  # bridging sends no errors
    assert loop.drops() == {why: 1}


def test_an_ipv6_sender_gets_an_icmp_error_as_well(loop: GatewayLoop) -> None:
    packet = IPv6(src="fd00::10", dst="fd00::77") / UDP(sport=5, dport=6)
    (reply,) = icmp_replies(loop, UNDERLAY, tunnelled(inner(packet)))
    error = reply[VXLAN].payload[ICMPv6DestUnreach]
    assert (error.code, bytes(error.payload)) == (3, bytes(packet))


def test_a_customer_gets_an_icmp_error_and_the_internet_does_not(loop: GatewayLoop) -> None:
    (reply,) = icmp_replies(loop, CUSTOMER, arriving(CUSTOMER, udp("10.99.1.2", "8.8.8.8")))
    assert (reply[IP].src, reply[ICMP].type, reply[ICMP].code) == ("10.0.0.1", 3, 0)
    assert icmp_replies(loop, EXTERNAL, arriving(EXTERNAL, udp("198.51.100.7", "203.0.113.10"))) == []
    assert loop.drops() == {Drop.NO_MAPPING: 1}


def arp_request(vni: int, mac: str, host: Any) -> bytes:
    return tunnelled(
        Ether(src=mac, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.10", pdst="10.0.0.1"), vni=vni, host=host
    )


def test_a_punt_flood_leaves_the_slow_path_to_other_tenants_and_neighbours() -> None:
    loop = GatewayLoop(LOCAL, TABLES, ring_bytes=1 << 20, buffers=1 << 12, ring=1 << 12)
    flood = tunnelled(inner(IP(src="10.0.0.10", dst="10.0.0.1") / ICMP()))
    loop.through(UNDERLAY, *[flood] * 2560)
    while loop.ended() < 2560:  # all frames wait, so little time passes between calls of the run loop
        loop.forward()
    heard = int(loop.counters.punts[Punt.FOR_GATEWAY])
    assert MAX_BURST <= heard < MAX_BURST + 900  # plus the allowance of the elapsed time
    assert loop.drops() == {Drop.PUNT_LIMITED: 2560 - heard}
    loop.through(
        UNDERLAY, arp_request(RED, "02:10:00:00:00:10", HOST_A), arp_request(BLUE, "02:20:00:00:00:10", HOST_B)
    )
    loop.through(UNDERLAY, bytes(Ether(src="02:aa:00:00:00:11", dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="192.168.0.1")))
    assert int(loop.counters.punts[Punt.ARP]) == 3


def test_the_punt_allowance_refills_with_time() -> None:
    dues = np.zeros(1 << 8, np.int64)
    row = np.zeros(1, PACKET)
    row["vpc"], row["reason"] = 3, Punt.TTL_EXPIRED
    taken = [count_allowed(dues, row, now_ns) for now_ns in (10**9, 10**9, 10**9 + 10 * PACKET_NS, 10**12)]
    assert taken == [MAX_BURST, 0, 10, MAX_BURST]


@kernel
def count_allowed(dues: Ints, rows: Rows, now_ns: int) -> int:
    taken = 0
    for _ in range(2 * MAX_BURST):
        if may_punt(dues, rows[0], now_ns):
            taken += 1
    return taken


def test_a_call_that_never_sleeps_ends_once_the_slow_path_has_work(loop: GatewayLoop) -> None:
    request = Ether(src="02:10:00:00:00:10", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.10", pdst="10.0.0.1")
    assert loop.io.put(UNDERLAY, tunnelled(request))
    loop.forward(call_ns=FOREVER_NS, sleep_ms=0)
    assert len(loop.punts.read()) == 1


def test_a_call_ends_after_its_time_though_packets_wait(loop: GatewayLoop) -> None:
    frame = tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11))
    for _ in range(250):
        loop.io.put(UNDERLAY, frame)
    calls = 0
    while loop.counters.ports["rx_packets"][UNDERLAY] < 250:
        loop.forward(call_ns=0 if calls == 0 else 1)
        calls += 1
        assert calls < 300
    assert calls >= 5  # each call took one burst of 64 at most; the first took none


def test_a_change_of_generation_between_two_calls_loses_nothing(loop: GatewayLoop) -> None:
    frame, sent = tunnelled(inner(udp("10.0.0.11", "198.51.100.7"), source=RED_11), host=HOST_B), 0
    ports = set()
    for generation in range(20):
        loop.tables = TABLES._replace(generation=np.array([generation + 1]))
        for out in loop.through(UNDERLAY, *[frame] * 50)[EXTERNAL]:
            sent += 1
            ports.add(dissected(out)[UDP].sport)
    assert (sent, len(ports), loop.drops()) == (1000, 1, {})


SOUND = [
    tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11)),
    tunnelled(inner(udp("10.0.0.11", "198.51.100.7"), source=RED_11), host=HOST_B),
    tunnelled(inner(IP(src="10.0.0.10", dst="198.51.100.9") / TCP(sport=4000, dport=443, flags="S"))),
    tunnelled(inner(udp("10.0.0.10", "10.0.0.10", 1400, dport=4791))),
    arriving(EXTERNAL, udp("198.51.100.7", "203.0.113.20")),
    bytes(Ether(dst="02:00:00:00:00:02") / ARP(pdst="203.0.113.2")),
]


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32), buffers=st.sampled_from([40, 1024]))
def test_every_received_frame_is_sent_punted_or_counted_as_dropped(seed: int, buffers: int) -> None:
    chance = random.Random(seed)
    loop = GatewayLoop(LOCAL, TABLES, ring_bytes=1 << 15, buffers=buffers)
    put = 0
    for _ in range(120):
        frame = bytearray(chance.choice(SOUND))
        for _ in range(chance.choice([0, 0, 1, 3])):
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        frame = frame[: chance.choice([len(frame), chance.randrange(1, len(frame))])]
        match chance.randrange(4) if len(frame) >= 14 else 3:
            case 0:
                put += loop.injector.send(bytes(frame), chance.randrange(len(PORT_MACS)))
            case 1:
                put += loop.injector.enter(bytes(frame), chance.randrange(len(PORT_MACS)))
            case _:
                put += loop.io.put(chance.randrange(len(PORT_MACS)), bytes(frame))
        if chance.random() < 0.2:
            loop.forward()
    loop.forward(call_ns=1_000_000_000)
    assert loop.received() == loop.ended() == put
    assert loop.counters.drops[Drop.BAD_STATE] == 0
    for port in range(len(PORT_MACS)):
        loop.io.take(port)
    assert loop.io.ports.pool[FREE] == loop.io.ports.pool[FRAMES]
