"""With full NAT the back end sees an address of the pool, and the client the virtual IP; checksums are right."""

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6PacketTooBig, IPv6, IPv6ExtHdrFragment
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.balancer.memory.connections import CLOSING, ESTABLISHED, HALF_OPEN
from heddle.dataplane.config.balancers import balancer_mac
from heddle.dataplane.engine.reasons import Drop
from heddle.foundation.address import mac_text
from tests.fakes.balancer_site import (
    GATEWAY,
    HOST_A,
    HOST_B,
    POOL,
    POOL6,
    RED,
    VIP,
    VIP6,
    BalancerLoop,
    mac_of,
    tunnelled,
)
from tests.fakes.gateway.gateway_frames import dissected

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def loop():
    found = BalancerLoop()
    yield found
    assert list(found.state_faults()) == []


def inner(frame):
    return dissected(bytes(frame))[VXLAN].payload.payload


def network(vip, source=None):
    if vip.version == 4:
        return IP(src=source or "10.0.0.10", dst=str(vip))
    return IPv6(src=source or "fd00::10", dst=str(vip))


def last_of(address):
    return int(address.rsplit(":" if ":" in address else ".")[-1])


@pytest.mark.parametrize(("vip", "pool"), [(VIP, POOL), (VIP6, POOL6)])
def test_a_connection_goes_there_and_back(loop, vip, pool):
    (frame,) = loop.through(tunnelled(network(vip) / TCP(sport=1000, dport=443, flags="S")))
    there = inner(frame)
    assert there.src in map(str, pool)
    assert last_of(there.dst) in (51, 52, 53)
    assert there[TCP].dport == 8443
    assert there[TCP].sport >= 1024
    reply = type(there)(src=there.dst, dst=there.src) / TCP(sport=8443, dport=there[TCP].sport, flags="SA") / Raw(b"x")
    (frame,) = loop.through(tunnelled(reply, host=HOST_B, last=last_of(there.dst)))
    back = inner(frame)
    assert frame[IP].dst == str(HOST_A)
    assert frame[VXLAN].payload.dst == mac_text(mac_of(RED, 10))
    assert frame[VXLAN].payload.src == mac_text(balancer_mac(RED))
    assert (back.src, back.dst, back[TCP].sport, back[TCP].dport) == (str(vip), network(vip).src, 443, 1000)
    assert loop.rows_by_state()[HALF_OPEN] == 2
    (frame,) = loop.through(tunnelled(network(vip) / TCP(sport=1000, dport=443, flags="A") / Raw(b"GET")))
    assert (inner(frame).src, inner(frame)[TCP].sport) == (there.src, there[TCP].sport)
    assert loop.rows_by_state()[ESTABLISHED] == 2
    ends = type(there)(src=there.dst, dst=there.src) / TCP(sport=8443, dport=there[TCP].sport, flags="FA")
    loop.through(tunnelled(ends, host=HOST_B, last=last_of(there.dst)))
    assert loop.rows_by_state()[CLOSING] == 2


def test_a_handshake_without_reply_stays_half_open(loop):
    for flags in "SAA":
        loop.through(tunnelled(network(VIP) / TCP(sport=1000, dport=443, flags=flags)))
    assert loop.rows_by_state()[HALF_OPEN] == 2


@pytest.mark.parametrize("replies", [False, True])
def test_a_connection_lives_while_packets_go_in_either_direction(loop, replies):
    there, reply = established(loop)
    request = tunnelled(network(VIP) / TCP(sport=1000, dport=443, flags="A"))
    timeout_s = loop.local.timeouts.tcp_established_s
    for _ in range(3):
        loop.let_pass(0.8 * timeout_s)
        assert len(loop.through(reply if replies else request)) == 1
    (frame,) = loop.through(request)
    assert (inner(frame).src, inner(frame)[TCP].sport) == (there.src, there[TCP].sport)
    assert inner(loop.through(reply)[0])[TCP].dport == 1000
    loop.let_pass(1.1 * timeout_s)
    loop.forward()
    assert loop.rows_by_state()[ESTABLISHED] == 0


def established(loop):
    """Open a connection; return the first packet that the back end gets, and a reply to it."""
    (frame,) = loop.through(tunnelled(network(VIP) / TCP(sport=1000, dport=443, flags="S")))
    there = inner(frame)
    packet = IP(src=there.dst, dst=there.src) / TCP(sport=8443, dport=there[TCP].sport, flags="A")
    reply = tunnelled(packet, host=HOST_B, last=last_of(there.dst))
    loop.through(reply, tunnelled(network(VIP) / TCP(sport=1000, dport=443, flags="A")))
    assert loop.rows_by_state()[ESTABLISHED] == 2
    return there, reply


def test_a_client_outside_gets_its_replies_through_its_gateway(loop):
    syn = network(VIP, "8.8.8.8") / TCP(sport=1000, dport=443, flags="S")
    (frame,) = loop.through(tunnelled(syn, host=GATEWAY, last=1))
    there = inner(frame)
    reply = IP(src=there.dst, dst=there.src) / TCP(sport=8443, dport=there[TCP].sport, flags="SA")
    (frame,) = loop.through(tunnelled(reply, host=HOST_B, last=last_of(there.dst)))
    assert frame[IP].dst == str(GATEWAY)
    assert frame[VXLAN].payload.dst == mac_text(0x024800000000 | RED)
    assert inner(frame).dst == "8.8.8.8"


@pytest.mark.parametrize("checksum", [None, 0])
def test_udp_with_and_without_a_checksum(loop, checksum):
    packet = network(VIP) / UDP(sport=1000, dport=123, chksum=checksum) / Raw(b"time?")
    (frame,) = loop.through(tunnelled(packet))
    there = frame[VXLAN].payload.payload if checksum == 0 else inner(frame)
    assert there[UDP].dport == 1123
    assert (there[UDP].chksum == 0) == (checksum == 0)
    reply = IP(src=there.dst, dst=there.src) / UDP(sport=1123, dport=there[UDP].sport) / Raw(b"now")
    (frame,) = loop.through(tunnelled(reply, host=HOST_B, last=last_of(there.dst)))
    assert (inner(frame).src, inner(frame)[UDP].sport, inner(frame)[UDP].dport) == (str(VIP), 123, 1000)


def test_fragments_are_translated(loop):
    whole = IP(src="10.0.0.10", dst=str(VIP), id=3) / UDP(sport=1000, dport=123) / Raw(bytes(range(256)) * 8)
    out = loop.through(*(tunnelled(IP(bytes(part))) for part in whole.fragment(800)))
    parts = [frame[VXLAN].payload.payload for frame in out]
    assert len({(part.src, part.dst) for part in parts}) == 1
    joined = b"".join(bytes(part.payload) for part in sorted(parts, key=lambda part: part.frag))
    datagram = UDP(joined)
    rebuilt = IP(src=parts[0].src, dst=parts[0].dst) / UDP(joined)
    del rebuilt[UDP].chksum
    assert UDP(bytes(rebuilt[UDP])).chksum == datagram.chksum
    assert bytes(datagram.payload) == bytes(range(256)) * 8


def test_a_segment_of_no_connection_is_refused(loop):
    (frame,) = loop.through(tunnelled(network(VIP) / TCP(sport=1000, dport=443, flags="A", ack=5)))
    assert inner(frame)[TCP].flags == "R"
    assert loop.through(tunnelled(network(POOL[0]) / TCP(sport=1000, dport=2000, flags="A"))) == []
    assert loop.drops() == {Drop.NO_MAPPING: 1}


@pytest.mark.parametrize("vip", [VIP, VIP6])
def test_icmp_errors_are_translated_in_both_directions(loop, vip):
    (frame,) = loop.through(tunnelled(network(vip) / TCP(sport=1000, dport=443, flags="S", seq=99)))
    there = inner(frame)
    kind = type(there)
    # A router in front of the back end complains to the pool address; the client must hear of its own packet.
    router = "9.9.9.9" if vip.version == 4 else "fd99::9"
    found = error_from(loop, router, there.src, bytes(there))
    assert (found.src, found.dst) == (router, network(vip).src)
    wanted = (network(vip) / TCP(sport=1000, dport=443, flags="S", seq=99)).copy()
    if kind is IP:
        wanted.ttl = there.ttl
    else:
        wanted.hlim = there.hlim
    assert quote_of(found) == bytes(kind(bytes(wanted)))
    # A router in front of the client complains to the virtual IP; the back end must hear of its own packet.
    theirs = kind(src=str(vip), dst=network(vip).src) / TCP(sport=443, dport=1000, flags="SA")
    found = error_from(loop, router, str(vip), bytes(theirs))
    assert found.dst == there.dst
    wanted = kind(src=there.dst, dst=there.src) / TCP(sport=8443, dport=there[TCP].sport, flags="SA")
    assert quote_of(found) == bytes(wanted)


def test_an_error_that_quotes_a_fragment_header_is_translated_behind_it(loop):
    (frame,) = loop.through(tunnelled(network(VIP6) / TCP(sport=1000, dport=443, flags="S")))
    there, part = inner(frame), IPv6ExtHdrFragment(id=5, m=1)
    theirs = IPv6(src=str(VIP6), dst="fd00::10") / part / TCP(sport=443, dport=1000, flags="A") / Raw(bytes(20))
    found = error_from(loop, "fd99::9", str(VIP6), bytes(theirs))
    ports = TCP(sport=8443, dport=there[TCP].sport, flags="A")
    assert found.dst == there.dst
    assert quote_of(found) == bytes(IPv6(src=there.dst, dst=there.src) / part / ports / Raw(bytes(20)))


def error_from(loop, router, to, quoted):
    if ":" in to:
        error = IPv6(src=router, dst=to) / ICMPv6PacketTooBig(mtu=1280) / Raw(quoted)
    else:
        error = IP(src=router, dst=to) / ICMP(type=3, code=4, nexthopmtu=1400) / Raw(quoted)
    (frame,) = loop.through(tunnelled(error, host=GATEWAY, last=1))
    return frame[VXLAN].payload.payload


def quote_of(error):
    """Return the quoted packet of an ICMP error, after checking the error's own checksums."""
    raw = bytes(error)
    header = 20 if isinstance(error, IP) else 40
    quote = raw[header + 8 :]
    if isinstance(error, IP):
        rebuilt = IP(raw[:20]) / ICMP(type=3, code=4, nexthopmtu=1400) / Raw(quote)
        del rebuilt[IP].chksum
    else:
        rebuilt = IPv6(src=error.src, dst=error.dst, hlim=error.hlim) / ICMPv6PacketTooBig(mtu=1280) / Raw(quote)
    assert bytes(rebuilt)[header:] == raw[header:]
    return quote
