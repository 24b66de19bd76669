"""A connection that finds no port or no room: its sender in a VPC gets an ICMP error, and the drop counts as before."""

from dataclasses import replace
from ipaddress import ip_network

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet

from heddle.dataplane.config.local import Limits, PortShare
from heddle.dataplane.config.network import Direction, SecurityRule
from heddle.dataplane.control.full_shares import FullShares
from heddle.dataplane.control.slow.slow_path import Outcome
from heddle.dataplane.engine.reasons import Drop
from heddle.foundation.address import mac_text
from tests.fakes.gateway.gateway_frames import RED_11, arriving, inner, tunnelled
from tests.fakes.gateway.gateway_site import EXTERNAL, HOST_B, LOCAL, NETWORK, RED, UNDERLAY
from tests.fakes.gateway.whole_gateway import WholeGateway

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels

INSIDE, INSIDE_6, FAR, NAT = "10.0.0.11", "fd00::11", "198.51.100.7", "203.0.113.10"
TWO_PORTS = replace(LOCAL, nat_ports=PortShare(first=2000, last=2001))
ROOMY = Limits(connections=1 << 6, mappings=1 << 6, fragments=16, vpc_percent=100, endpoint_ports_percent=100)


def leaving(packet: Packet) -> bytes:
    return tunnelled(inner(packet, source=RED_11), host=HOST_B)


def error_in(left: dict[int, list[bytes]]) -> Packet:
    """Return the one IP packet that the sender in the VPC gets, in a frame from its gateway."""
    (frame,) = left.pop(UNDERLAY)
    assert left == {}
    tunnel = Ether(frame)[VXLAN]
    assert (tunnel.vni, tunnel[Ether].dst, str(Ether(frame)[IP].dst)) == (RED, mac_text(RED_11), str(HOST_B))
    return tunnel[Ether].payload


def live(gateway: WholeGateway, protocol: str, port: int) -> None:
    """Open a connection and make it live: it gives way to no other."""
    if protocol == "tcp":
        there, back = TCP(sport=port, dport=80, flags="S"), TCP(sport=80, dport=port, flags="SA")
        again = TCP(sport=port, dport=80, flags="A", seq=1, ack=1)
    else:
        there, back = UDP(sport=port, dport=5353), UDP(sport=5353, dport=port)
        again = there
    (out,) = gateway.through(UNDERLAY, leaving(IP(src=INSIDE, dst=FAR) / there))[EXTERNAL]
    reply = back.copy()
    reply.dport = Ether(out)[protocol.upper()].sport
    gateway.through(EXTERNAL, arriving(EXTERNAL, IP(src=FAR, dst=NAT) / reply))
    gateway.through(UNDERLAY, leaving(IP(src=INSIDE, dst=FAR) / again))


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_the_sender_that_gets_no_port_gets_administratively_prohibited(protocol: str) -> None:
    gateway = WholeGateway(local=TWO_PORTS, limits=ROOMY)
    for port in (2000, 2001):
        live(gateway, protocol, port)
    head = TCP(sport=3000, dport=80, flags="S") if protocol == "tcp" else UDP(sport=3000, dport=5353)
    packet = IP(src=INSIDE, dst=FAR, id=9) / head
    error = error_in(gateway.through(UNDERLAY, leaving(packet)))
    assert (error.src, error.dst, error[ICMP].type, error[ICMP].code) == ("10.0.0.1", INSIDE, 3, 13)
    assert bytes(error[ICMP].payload) == bytes(packet)
    assert gateway.drops() == {Drop.PORTS_EXHAUSTED: 1}
    assert gateway.loop.received() == gateway.loop.ended()
    (line,) = FullShares().news(gateway.loop.state.full, {RED: "red"}, 0.0)
    assert line.startswith(f"red {INSIDE}: no NAT port of its public address is free (a protocol without ports ")
    assert "; 1 new connections refused" in line


def test_a_sender_of_ipv6_without_room_for_its_connection_gets_it_too() -> None:
    gateway = WholeGateway(limits=replace(ROOMY, connections_per_endpoint=1))
    packet = IPv6(src=INSIDE_6, dst="fd00::10") / TCP(sport=1, dport=80, flags="S")
    gateway.through(UNDERLAY, leaving(packet))
    live_reply = IPv6(src="fd00::10", dst=INSIDE_6) / TCP(sport=80, dport=1, flags="SA")
    gateway.through(UNDERLAY, tunnelled(inner(live_reply)))
    gateway.through(UNDERLAY, leaving(IPv6(src=INSIDE_6, dst="fd00::10") / TCP(sport=1, dport=80, flags="A")))
    error = error_in(gateway.through(UNDERLAY, leaving(IPv6(src=INSIDE_6, dst="fd00::10") / TCP(sport=2, dport=80))))
    assert (error.src, error[ICMPv6DestUnreach].code, error.dst) == ("fd00::1", 1, INSIDE_6)
    assert gateway.drops() == {Drop.CONNECTIONS_FULL: 1}


def test_a_sender_outside_gets_nothing() -> None:
    red, *others = NETWORK.vpcs
    rule = SecurityRule(allow=True, direction=Direction.IN, remote=ip_network("0.0.0.0/0"))
    network = replace(NETWORK, vpcs=(replace(red, rules=(rule,)), *others))
    gateway = WholeGateway(network, limits=replace(ROOMY, connections_per_endpoint=1))
    floating = {"src": FAR, "dst": "203.0.113.20"}
    for there, back in ((UDP(sport=1, dport=5353), UDP(sport=5353, dport=1)),) * 2:
        gateway.through(EXTERNAL, arriving(EXTERNAL, IP(**floating) / there))
        gateway.through(UNDERLAY, tunnelled(inner(IP(src="10.0.0.10", dst=FAR) / back)))
    assert gateway.through(EXTERNAL, arriving(EXTERNAL, IP(**floating) / UDP(sport=2, dport=5353))) == {}
    assert gateway.drops() == {Drop.CONNECTIONS_FULL: 1}


def test_a_flood_without_room_gets_errors_within_their_limit() -> None:
    gateway = WholeGateway(local=TWO_PORTS, limits=ROOMY)
    for port in (2000, 2001):
        live(gateway, "udp", port)
    flood = [leaving(IP(src=INSIDE, dst=FAR) / UDP(sport=port, dport=5353)) for port in range(3000, 3200)]
    sent = 0
    for begin in range(0, len(flood), 50):  # fewer at a time than the slow path's limit of punted packets
        sent += len(gateway.through(UNDERLAY, *flood[begin : begin + 50]).get(UNDERLAY, ()))
        gateway.loop.let_pass(10**9)
    assert sent == 50
    assert gateway.path.outcomes == {Outcome.SENT_ERROR: 50, Outcome.RATE_LIMITED: 150}
    assert gateway.drops() == {Drop.PORTS_EXHAUSTED: 200}
