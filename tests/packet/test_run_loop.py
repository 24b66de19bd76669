"""A whole gateway on ports in memory: from the tunnel through routing, rules and translation to the way out."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from dataplane.engine.reasons import Drop, Punt
from dataplane.io.layout import FRAMES, FREE
from tests.fakes.gateway_frames import RED_11, arriving, dissected, inner, tunnelled
from tests.fakes.gateway_loop import GatewayLoop
from tests.fakes.gateway_site import BLUE, EXTERNAL, HOST_B, LOCAL, PORT_MACS, RED, UNDERLAY, site_tables

TABLES = site_tables()


@pytest.fixture
def loop() -> Iterator[GatewayLoop]:
    made = GatewayLoop(LOCAL, TABLES)
    yield made
    assert made.received() == made.ended()


def udp(source: str, target: str, size: int = 30, **ports: int) -> IP:
    return IP(src=source, dst=target) / UDP(**{"sport": 1000, "dport": 2000, **ports}) / Raw(bytes(size))


def test_a_tenants_packet_goes_out_of_one_tunnel_and_into_the_other(loop: GatewayLoop) -> None:
    left = loop.through(UNDERLAY, tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11)))
    assert list(left) == [UNDERLAY]
    out = dissected(left[UNDERLAY][0])
    assert (out[IP].dst, out[VXLAN].vni) == (str(HOST_B), RED)
    assert (out[VXLAN].payload[IP].src, out[VXLAN].payload[IP].dst) == ("10.0.0.10", "10.0.0.11")


def test_what_leaves_by_nat_and_comes_back_is_translated_both_ways(loop: GatewayLoop) -> None:
    # Not 10.0.0.10: that one has a floating address.
    frame = tunnelled(inner(udp("10.0.0.11", "198.51.100.7"), source=RED_11), host=HOST_B)
    out = dissected(loop.through(UNDERLAY, frame)[EXTERNAL][0])
    assert out[IP].src == "203.0.113.10"
    answer = IP(src="198.51.100.7", dst="203.0.113.10") / UDP(sport=2000, dport=out[UDP].sport) / Raw(b"back")
    back = dissected(loop.through(EXTERNAL, arriving(EXTERNAL, answer))[UNDERLAY][0])
    assert (back[IP].dst, back[VXLAN].vni) == (str(HOST_B), RED)
    told = back[VXLAN].payload
    assert (told[IP].dst, told[UDP].dport, bytes(told[Raw])) == ("10.0.0.11", 1000, b"back")


def test_tenants_with_the_same_addresses_do_not_meet(loop: GatewayLoop) -> None:
    red = tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11))
    blue = tunnelled(
        inner(udp("10.0.0.10", "10.0.0.11"), source=0x022000000010, target=0x022000000011), vni=BLUE, host=HOST_B
    )
    left = loop.through(UNDERLAY, red, blue, red, blue)
    assert [dissected(frame)[VXLAN].vni for frame in left[UNDERLAY]] == [RED, BLUE, RED, BLUE]


def test_a_question_for_the_slow_path_arrives_there_with_its_tunnel(loop: GatewayLoop) -> None:
    asked = Ether(src="02:10:00:00:00:10", dst="ff:ff:ff:ff:ff:ff") / ARP(
        op=1, hwsrc="02:10:00:00:00:10", psrc="10.0.0.10", pdst="10.0.0.1"
    )
    frame = tunnelled(asked)
    assert loop.through(UNDERLAY, frame) == {}
    (told,) = loop.punts.read()
    assert (told.reason, told.in_port, told.vni, told.frame) == (Punt.ARP, UNDERLAY, RED, frame)
    assert told.frame[told.inner :] == bytes(asked)


def test_what_the_slow_path_sends_leaves_as_it_is(loop: GatewayLoop) -> None:
    frame = bytes(Ether(src="02:00:00:00:00:02", dst="02:bb:00:00:00:01") / udp("203.0.113.2", "203.0.113.1"))
    assert loop.injector.send(frame, EXTERNAL)
    assert loop.through(UNDERLAY) == {EXTERNAL: [frame]}
    assert loop.counters.ports["rx_injected"].tolist() == [0, 1, 0, 0]


def test_what_the_slow_path_lets_enter_goes_the_way_of_what_arrives(loop: GatewayLoop) -> None:
    frame = tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11))
    arrived = loop.through(UNDERLAY, frame)
    assert loop.injector.enter(frame, UNDERLAY)
    assert loop.through(UNDERLAY) == arrived


def test_a_slow_path_that_does_not_read_costs_it_packets_and_nobody_else(loop: GatewayLoop) -> None:
    asked = tunnelled(Ether(src="02:10:00:00:00:10", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.10", pdst="10.0.0.1"))
    for _ in range(20):
        loop.through(UNDERLAY, *[asked] * 32)
    assert loop.drops()[Drop.PUNT_FULL] + int(loop.counters.punts[Punt.ARP]) == 640
    assert loop.drops()[Drop.PUNT_FULL] == loop.punts.refused() > 0
    assert loop.through(UNDERLAY, tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11)))


def test_a_call_ends_after_its_time_though_packets_wait(loop: GatewayLoop) -> None:
    frame = tunnelled(inner(udp("10.0.0.10", "10.0.0.11"), target=RED_11))
    for _ in range(250):
        loop.io.put(UNDERLAY, frame)
    calls = 0
    while loop.counters.ports["rx_packets"][UNDERLAY] < 250:
        loop.forward(call_ns=0 if calls == 0 else 1)
        calls += 1
        assert calls < 300
    assert calls >= 5  # none of them took more than a burst of 64; the first took nothing


def test_another_generation_between_two_calls_loses_nothing(loop: GatewayLoop) -> None:
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


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), buffers=st.sampled_from([40, 1024]))
def test_every_frame_that_came_in_is_sent_punted_or_counted(seed: int, buffers: int) -> None:
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
