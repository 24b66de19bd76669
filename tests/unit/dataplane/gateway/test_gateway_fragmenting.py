"""The data process fragments what exceeds the next hop's MTU; scapy's reassembly returns the packet as it was."""

import random
from dataclasses import replace

import pytest
from scapy.layers.inet import IP, UDP, defragment, fragment
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.engine.reasons import Drop, Punt
from tests.fakes.gateway.gateway_frames import arriving, inner, tunnelled
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_site import CUSTOMER, EXTERNAL, HOST_A, UNDERLAY
from tests.fakes.gateway.two_tenants import LOCAL, MACS, RED, tenants_tables

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

A, FAR, NAT = "10.0.0.11", "198.51.100.9", "203.0.113.10"
BODY = random.Random(1).randbytes(60_000)


def loop(**sizes):
    local = replace(LOCAL, limits=replace(LOCAL.limits, connections=1 << 10, mappings=1 << 10))
    return GatewayLoop(local, tenants_tables(), **sizes)


def datagram(size, **fields):
    return IP(src=A, dst=FAR, id=77, **fields) / UDP(sport=5000, dport=53) / Raw(BODY[:size])


def leaving(packet):
    return tunnelled(inner(packet, source=MACS[RED] + 0x11), vni=RED, host=HOST_A)


def sent_by(gateway, *packets):
    frames = gateway.through(UNDERLAY, *(leaving(packet) for packet in packets)).get(EXTERNAL, [])
    assert gateway.received() == gateway.ended()
    return [Ether(frame)[IP] for frame in frames]


@pytest.mark.parametrize("chunk_bytes", [2048, 4096, 8192])
@pytest.mark.parametrize("size", [1473, 1500, 2952, 2960, 4000, 4222])
def test_a_packet_leaves_in_fragments_that_reassemble_to_it(size, chunk_bytes):
    gateway = loop(chunk_bytes=chunk_bytes)
    parts = sent_by(gateway, datagram(size))
    expected = fragment(datagram(size), 1480)
    assert [(len(part), int(part.flags), part.frag) for part in parts] == [
        (len(each), int(each.flags), each.frag) for each in map(IP, map(bytes, expected))
    ]
    assert all(len(part) <= 1500 and bytes(part) == bytes(rebuilt(part)) for part in parts)
    whole = reassembled(parts)
    assert (whole.src, whole[UDP].dport, bytes(whole[UDP].payload)) == (NAT, 53, BODY[:size])
    assert bytes(whole) == bytes(rebuilt(whole, UDP))
    assert gateway.counters.punts.sum() == 0


def rebuilt(packet, *layers):
    """Return a packet with its checksums computed anew."""
    copy = packet.copy()
    for layer in (IP, *layers):
        del copy[layer].chksum
    return IP(bytes(copy))


def reassembled(parts):
    (found,) = defragment([part.copy() for part in parts])
    return IP(bytes(found))


def test_fragments_are_fragmented_further_and_keep_their_offsets():
    gateway = loop(chunk_bytes=4096)
    parts = sent_by(gateway, *map(IP, map(bytes, fragment(datagram(8000), 4224))))
    whole = reassembled(parts)
    assert len(parts) == 6
    assert (bytes(whole[UDP].payload), bytes(whole)) == (BODY[:8000], bytes(rebuilt(whole, UDP)))


def test_the_fragments_of_a_packet_leave_one_after_the_other_in_the_order_of_arrival():
    gateway = loop()
    packets = [datagram(4000 if number % 3 else 100, tos=4 * number) for number in range(40)]
    found = [(part.tos // 4, part.frag) for part in sent_by(gateway, *packets)]
    assert found == [(number, at) for number in range(40) for at in ((0, 185, 370) if number % 3 else (0,))]


def test_a_burst_of_jumbo_packets_is_fragmented_as_a_whole_or_dropped_and_counted():
    gateway = loop(buffers=300, chunk_bytes=8192)
    parts = sent_by(gateway, *(datagram(4222) for _ in range(64)))
    assert gateway.drops() == {}
    assert len(parts) == 64 * 3
    scarce = loop(buffers=100, chunk_bytes=8192)
    some = sent_by(scarce, *(datagram(4222) for _ in range(64)))
    assert len(some) % 3 == 0
    assert scarce.drops() == {Drop.TRANSMIT_FULL: 64 - len(some) // 3}
    assert scarce.io.ports.pool[5] == 100  # all buffers are free again


def test_options_and_df_are_for_the_slow_path():
    gateway = loop()
    assert sent_by(gateway, datagram(2000, flags="DF")) == []
    assert sent_by(gateway, datagram(2000, options=[b"\x01\x01\x01\x00"])) == []
    assert gateway.counters.punts[Punt.TOO_BIG] == 2


def test_replies_in_fragments_arrive_translated_in_the_tunnel():
    gateway = loop()
    sent_by(gateway, datagram(100))
    reply = IP(src=FAR, dst=NAT, id=9) / UDP(sport=53, dport=5000) / Raw(BODY[:8000])
    frames = gateway.through(
        EXTERNAL, *(arriving(EXTERNAL, part) for part in map(IP, map(bytes, fragment(reply, 1480))))
    )
    whole = reassembled([Ether(frame)[VXLAN][IP] for frame in frames[UNDERLAY]])
    assert (whole.dst, bytes(whole[UDP].payload)) == (A, BODY[:8000])
    assert bytes(whole) == bytes(rebuilt(whole, UDP))


WAYS = {
    "to the internet": (UNDERLAY, 1500, lambda ip: leaving(ip), IP(src=A, dst=FAR, id=9, tos=5)),
    "from a customer": (
        CUSTOMER, 4250, lambda ip: arriving(CUSTOMER, ip), IP(src="10.99.0.5", dst="10.0.0.10", id=9, tos=7),
    ),
    "bridged": (
        UNDERLAY, 4250,
        lambda ip: tunnelled(
            inner(ip, source=MACS[RED] + 0x11, target=MACS[RED] + 0x10), vni=RED, host=HOST_A
        ),
        IP(src=A, dst="10.0.0.10", id=9, tos=2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_fragmented_packet_leaves_like_its_fragments_would(way):
    port, mtu, framed, head = WAYS[way]
    packet = IP(bytes(head / UDP(sport=5000, dport=5001) / Raw(BODY[:9000])))
    step = (mtu - 20) // 8 * 8
    cut = loop(chunk_bytes=8192).through(port, framed(packet))
    gateway, apart = loop(chunk_bytes=8192), {}
    for part in map(IP, map(bytes, fragment(packet, step))):
        for out, frames in gateway.through(port, framed(part)).items():
            apart.setdefault(out, []).extend(frames)
    assert cut == apart
    assert [len(frames) for frames in cut.values()] == [-(-9008 // step)]
