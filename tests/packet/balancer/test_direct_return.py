"""Packets to a virtual IP reach the back end of their connection as they are, by VXLAN or by IP-in-IP."""

from dataclasses import replace

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror
from scapy.layers.inet6 import ICMPv6PacketTooBig, IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.balancer.memory.connections import CLOSING, ESTABLISHED, FIRST, HALF_OPEN, STREAM
from heddle.dataplane.balancer.memory.state import Count
from heddle.dataplane.config.balancers import BackEnd, HealthCheck, balancer_mac
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.foundation.address import mac_text
from tests.fakes.balancer_site import (
    BALANCERS,
    BLUE,
    CONFIG,
    GATEWAY,
    HOST_B,
    LOCAL,
    RED,
    VIP,
    VIP6,
    BalancerLoop,
    changed,
    mac_of,
    name_of,
    tunnelled,
)
from tests.fakes.gateway.gateway_frames import dissected
from tests.oracles.inet_checksum import faults, ones_complement, pseudo_header

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

HEALTH = HealthCheck()


@pytest.fixture
def loop():
    found = BalancerLoop()
    yield found
    assert list(found.state_faults()) == []
    assert found.drops().get(Drop.BAD_STATE, 0) == 0


def tcp(flags="S", sport=1000, dport=80, source="10.0.0.10", vip=VIP, **fields):
    return IP(src=source, dst=str(vip)) / TCP(sport=sport, dport=dport, flags=flags, **fields)


def back_end_of(frame, vni=RED, *, is_whole=True):
    """Return the last byte of the address of the back end that a tunnelled frame is for.

    Scapy computes the checksums of whole packets anew; it cannot do so for a fragment or a quote.
    """
    found = dissected(bytes(frame)) if is_whole else Ether(bytes(frame))
    assert found[IP].dst == str(HOST_B)
    assert found[VXLAN].vni == vni
    inner = found[VXLAN].payload
    assert inner.src == mac_text(balancer_mac(vni))
    ends = {mac_text(mac_of(vni, last)): last for last in (51, 52, 53, 54)}
    return ends[inner.dst]


def test_the_inner_packet_is_unchanged_but_for_its_ttl(loop):
    packet = tcp() / Raw(b"hello")
    (frame,) = loop.through(tunnelled(packet))
    back_end_of(frame)
    wanted = packet.copy()
    wanted.ttl -= 1
    assert bytes(frame[VXLAN].payload.payload) == bytes(wanted)


def test_a_connection_keeps_its_back_end_and_connections_spread(loop):
    chosen = {}
    for sport in range(2000, 2060):
        (first,) = loop.through(tunnelled(tcp(sport=sport)))
        chosen[sport] = back_end_of(first)
    assert set(chosen.values()) == {51, 52, 53}
    for sport, end in chosen.items():
        (later,) = loop.through(tunnelled(tcp("A", sport=sport)))
        assert back_end_of(later) == end
    assert loop.count(Count.NEW) == 60
    assert loop.rows_by_state()[ESTABLISHED] == 60


def test_two_balancers_choose_alike(loop):
    other = BalancerLoop()
    other.state.counts[SEED] = 12345
    for sport in range(3000, 3030):
        (here,), (there,) = (each.through(tunnelled(tcp(sport=sport))) for each in (loop, other))
        assert back_end_of(here) == back_end_of(there)


def test_a_connection_goes_on_at_a_balancer_that_has_not_seen_its_beginning(loop):
    other = BalancerLoop()
    for sport in range(3000, 3030):
        (first,), (later,) = (
            loop.through(tunnelled(tcp(sport=sport))),
            other.through(tunnelled(tcp("PA", sport=sport) / Raw(b"x"))),
        )
        assert back_end_of(first) == back_end_of(later)


def test_equal_virtual_ips_of_two_tenants_are_two_services(loop):
    (red,) = loop.through(tunnelled(tcp()))
    (blue,) = loop.through(tunnelled(tcp(), vni=BLUE))
    assert back_end_of(red) in (51, 52, 53)
    assert back_end_of(blue, BLUE) == 54


def test_a_client_outside_of_the_vpc_comes_through_a_gateway(loop):
    (frame,) = loop.through(tunnelled(tcp(source="8.8.8.8"), host=GATEWAY, last=1))
    assert back_end_of(frame) in (51, 52, 53)


def test_a_client_in_another_subnet_of_the_vpc_comes_through_a_gateway(loop):
    (frame,) = loop.through(tunnelled(tcp(), host=GATEWAY, last=1))
    assert back_end_of(frame) in (51, 52, 53)


def test_spoofed_sources_are_dropped(loop):
    assert loop.through(tunnelled(tcp(source="8.8.8.8"))) == []  # a host's VTEP, but no endpoint
    assert loop.through(tunnelled(tcp(source="10.0.0.10"), host=HOST_B)) == []  # another host
    assert loop.drops() == {Drop.SPOOFED_SOURCE: 2}


def test_tcp_states_follow_the_clients_packets(loop):
    for flags, state in (("S", HALF_OPEN), ("A", ESTABLISHED), ("PA", ESTABLISHED), ("FA", CLOSING), ("A", CLOSING)):
        loop.through(tunnelled(tcp(flags)))
        assert loop.rows_by_state()[state] == 1, flags
    loop.through(tunnelled(tcp("S")))  # the ports are used again
    assert loop.rows_by_state() == {HALF_OPEN: 1, ESTABLISHED: 0, CLOSING: 0, FIRST: 0, STREAM: 0}


@pytest.mark.parametrize("vip", [VIP, VIP6])
def test_ip_in_ip_puts_one_header_in_front(loop, vip):
    network = IP if vip.version == 4 else IPv6
    source = "10.0.0.10" if vip.version == 4 else "fd00::10"
    packet = network(src=source, dst=str(vip)) / TCP(sport=1000, dport=8080) / Raw(b"x" * 100)
    (frame,) = loop.through(tunnelled(packet))
    found = dissected(bytes(frame))
    assert (found.src, found.dst) == (mac_text(0x020000000001), mac_text(0x02AA00000031))
    assert (found[IP].src, found[IP].dst, found[IP].proto) == (
        "192.168.0.1",
        "192.168.0.31",
        4 if network is IP else 41,
    )
    inner = packet.copy()
    if network is IP:
        inner.ttl -= 1
    else:
        inner.hlim -= 1
    assert bytes(found[IP].payload) == bytes(inner)


def test_all_queue_pairs_of_a_client_reach_one_back_end(loop):
    ends = {}
    for last in (10, 11, 12, 13):
        frames = [
            tunnelled(IP(src=f"10.0.0.{last}", dst=str(VIP)) / UDP(sport=sport, dport=4791) / Raw(bytes(40)), last=last)
            for sport in (49152, 50000, 65535)
        ]
        ends[last] = {back_end_of(frame) for frame in loop.through(*frames)}
        assert len(ends[last]) == 1
    assert loop.rows_by_state()[STREAM] == 4


def test_fragments_reach_the_back_end_of_their_first(loop):
    for number in range(8):
        whole = IP(src="10.0.0.10", dst=str(VIP), id=number + 1) / UDP(sport=5000 + number, dport=53) / Raw(bytes(2000))
        parts = [IP(bytes(part)) for part in whole.fragment(1000)]
        assert len(parts) == 3
        out = loop.through(*(tunnelled(part) for part in parts))
        assert len(out) == 3
        assert len({back_end_of(frame, is_whole=False) for frame in out}) == 1


def test_a_packet_beyond_the_mtu_of_its_tunnel_goes_to_the_slow_path_to_be_fragmented():
    small = replace(LOCAL, interfaces=(replace(LOCAL.interfaces[0], mtu_bytes=1500),))
    loop = BalancerLoop(local=small)
    fits, exceeds = (IP(src="10.0.0.10", dst=str(VIP)) / UDP(dport=53) / Raw(bytes(size)) for size in (1400, 1500))
    assert len(loop.through(tunnelled(fits), tunnelled(exceeds))) == 1
    assert loop.punted() == {Punt.TOO_BIG: 1}


@pytest.mark.parametrize("known", [True, False])
def test_an_icmp_error_reaches_the_back_end_that_it_is_about(loop, known):
    (frame,) = loop.through(tunnelled(tcp(sport=7777)))
    if not known:
        loop.state.words[:] = 0
        loop.state.counters[:] = 0
    quoted = IP(src=str(VIP), dst="10.0.0.10") / TCP(sport=80, dport=7777, flags="A")
    error = IP(src="10.9.9.9", dst=str(VIP)) / ICMP(type=3, code=4, nexthopmtu=1400) / Raw(bytes(quoted)[:28])
    (found,) = loop.through(tunnelled(error, host=GATEWAY, last=1))
    assert back_end_of(found, is_whole=False) == back_end_of(frame)
    assert found[VXLAN].payload[ICMP].nexthopmtu == 1400
    assert found[IPerror].src == str(VIP)


@pytest.mark.parametrize("header", [None, IPv6ExtHdrFragment(id=3, m=1)], ids=["plain", "about a fragment"])
def test_an_icmpv6_error_does_so_too(loop, header):
    packet = IPv6(src="fd00::10", dst=str(VIP6)) / TCP(sport=7777, dport=80, flags="S")
    (frame,) = loop.through(tunnelled(packet))
    head = IPv6(src=str(VIP6), dst="fd00::10")
    quoted = (head / header if header else head) / TCP(sport=80, dport=7777, flags="A") / Raw(bytes(100))
    error = IPv6(src="fd99::9", dst=str(VIP6)) / ICMPv6PacketTooBig(mtu=1280) / Raw(bytes(quoted))
    (found,) = loop.through(tunnelled(error, host=GATEWAY, last=1))
    assert back_end_of(found) == back_end_of(frame)


def test_an_icmp_error_about_nothing_is_dropped(loop):
    quoted = IP(src="10.0.0.99", dst="10.0.0.10") / TCP(sport=80, dport=1)
    error = IP(src="10.0.0.10", dst=str(VIP)) / ICMP(type=3, code=4) / Raw(bytes(quoted)[:28])
    assert loop.through(tunnelled(error)) == []
    assert loop.drops() == {Drop.NO_STATE: 1}


def test_established_connections_survive_every_change_of_other_back_ends(loop):
    ends = {}
    for sport in range(4000, 4120):
        (frame,) = loop.through(tunnelled(tcp(sport=sport)))
        ends[sport] = back_end_of(frame)
        loop.through(tunnelled(tcp("A", sport=sport)))
    b51, b52, b53 = BALANCERS[0].back_ends
    b54 = BackEnd(ip=b51.ip + 3, port=80)
    for back_ends in ((b51, b52, b53, b54), (b51, b54), (replace(b51, weight=9), b54), (b51, b52, b53)):
        loop.configure(changed(b0={"back_ends": back_ends}))
        for sport, end in ends.items():
            if end == 51:
                (frame,) = loop.through(tunnelled(tcp("A", sport=sport)))
                assert back_end_of(frame) == end


def test_a_drained_back_end_keeps_its_connections_and_gets_no_new_ones(loop):
    ends = {}
    for sport in range(4000, 4060):
        (frame,) = loop.through(tunnelled(tcp(sport=sport)))
        ends[sport] = back_end_of(frame)
        loop.through(tunnelled(tcp("A", sport=sport)))
    b51, b52, b53 = BALANCERS[0].back_ends
    loop.configure(changed(b0={"back_ends": (replace(b51, draining=True), b52, b53)}))
    for sport, end in ends.items():
        (frame,) = loop.through(tunnelled(tcp("A", sport=sport)))
        assert back_end_of(frame) == end
    new = [back_end_of(loop.through(tunnelled(tcp(sport=sport)))[0]) for sport in range(5000, 5060)]
    assert 51 in ends.values()
    assert set(new) == {52, 53}


def test_a_change_writes_only_the_slots_that_change():
    loop = BalancerLoop()
    b51, b52, b53 = BALANCERS[0].back_ends
    before = loop.slots.copy()
    written = loop.configure(changed(b0={"back_ends": (b51, b52, b53, BackEnd(ip=b51.ip + 3, port=80))}))
    assert written == (before != loop.slots).sum()
    assert 65_537 / 4 <= written <= 65_537 / 4 * 1.1
    assert loop.configure(changed(b0={"back_ends": (b51, b52, b53, BackEnd(ip=b51.ip + 3, port=80))})) == 0


def test_datagrams_leave_a_back_end_that_is_down_and_tcp_does_not(loop):
    config = changed(b0={"health": HEALTH}, b1={"health": HEALTH})
    loop.configure(config)
    udp = [IP(src="10.0.0.10", dst=str(VIP)) / UDP(sport=sport, dport=53) / Raw(b"?") for sport in range(6000, 6030)]
    sent = [tunnelled(packet) for packet in udp] + [tunnelled(tcp("A", sport=sport)) for sport in range(6000, 6030)]
    before = [back_end_of(frame) for frame in loop.through(*sent)]
    down = {name_of(config.balancers[row], config.balancers[row].back_ends[0]) for row in (0, 1)}
    loop.configure(config, down=down)
    after = [back_end_of(frame) for frame in loop.through(*sent)]
    assert 51 in before[:30]
    assert 51 not in after[:30]
    assert all(b in (51, a) for b, a in zip(before[:30], after[:30], strict=True))
    assert after[30:] == before[30:]


def from_elsewhere(frame, source, sport):
    """Return a tunnelled TCP packet with another source; scapy would take milliseconds for each of thousands."""
    outer, packet = frame[:-40], bytearray(frame[-40:])
    packet[12:16], packet[20:22] = source, sport.to_bytes(2, "big")
    packet[10:12], packet[36:38] = bytes(2), bytes(2)
    packet[10:12] = ones_complement(bytes(packet[:20])).to_bytes(2, "big")
    packet[36:38] = ones_complement(pseudo_header(packet) + bytes(packet[20:])).to_bytes(2, "big")
    assert faults(packet) == []
    return outer + packet


def test_a_syn_flood_displaces_no_established_connection():
    loop = BalancerLoop()
    for sport in range(1000, 1100):
        loop.through(tunnelled(tcp(sport=sport)), tunnelled(tcp("A", sport=sport)))
    ends = {sport: back_end_of(loop.through(tunnelled(tcp("A", sport=sport)))[0]) for sport in range(1000, 1100)}
    kept = loop.rows_by_state()[ESTABLISHED]
    assert kept >= 98
    rng, frame = np.random.default_rng(7), bytes(tunnelled(tcp(), host=GATEWAY, last=1))
    for _ in range(100):
        for sport, *source in rng.integers(1, 250, (60, 4)):
            assert loop.io.put(0, from_elsewhere(frame, bytes([8, *source]), int(sport)))
        loop.forward()
        assert len(loop.io.take(0)) == 60
    assert loop.rows_by_state()[ESTABLISHED] == kept
    assert loop.rows_by_state()[HALF_OPEN] <= len(loop.state.words) // 2
    assert loop.count(Count.DISPLACED) > 1000
    for sport, end in ends.items():
        assert back_end_of(loop.through(tunnelled(tcp("A", sport=sport)))[0]) == end
    assert list(loop.state_faults()) == []


def test_idle_connections_end_by_the_timeout_of_their_state(loop):
    loop.through(tunnelled(tcp(sport=1)), tunnelled(tcp(sport=2)), tunnelled(tcp("A", sport=2)))
    loop.let_pass(300)  # more than half-open TCP may idle, less than established
    loop.forward()
    assert loop.rows_by_state()[HALF_OPEN] == 0
    assert loop.rows_by_state()[ESTABLISHED] == 1


def test_a_call_that_never_sleeps_ends_once_the_slow_path_has_work(loop):
    loop.configure(CONFIG, neighbours={})
    assert loop.io.put(0, bytes(tunnelled(tcp())))
    loop.forward(call_ns=10**15, sleep_ms=0)
    assert loop.punted() == {Punt.RESOLVE: 1}


def test_the_slow_path_resolves_neighbours_and_arp(loop):
    loop.configure(CONFIG, neighbours={})
    assert loop.through(tunnelled(tcp()), tunnelled(tcp(dport=8080))) == []
    assert loop.punted() == {Punt.RESOLVE: 2}
    arp = Ether(src=mac_text(mac_of(RED, 10)), dst="ff:ff:ff:ff:ff:ff") / ARP(
        hwsrc=mac_text(mac_of(RED, 10)), psrc="10.0.0.10", pdst=str(VIP)
    )
    frame = tunnelled(tcp())
    frame[VXLAN].remove_payload()
    assert loop.through(frame / arp) == []
    assert loop.punted() == {Punt.RESOLVE: 2, Punt.ARP: 1}
