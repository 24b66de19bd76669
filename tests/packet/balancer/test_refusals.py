"""A virtual IP without back ends refuses at once, as a host without a listener does; its pings are answered."""

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, IPv6
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.balancer.memory.state import Count
from heddle.dataplane.config.balancers import HealthCheck
from heddle.dataplane.engine.reasons import Drop
from heddle.foundation.address import mac_text
from tests.fakes.balancer_site import HOST_A, VIP, VIP6, BalancerLoop, changed, mac_of, name_of, tunnelled
from tests.fakes.gateway.gateway_frames import dissected

pytestmark = pytest.mark.timeout(900)

CHECKED = changed(**{f"b{row}": {"health": HealthCheck()} for row in range(9)})
DOWN = {name_of(each, end) for each in CHECKED.balancers for end in each.back_ends}


@pytest.fixture
def loop():
    found = BalancerLoop(CHECKED)
    found.configure(CHECKED, down=DOWN)
    return found


def answered(loop, packet):
    """Return the inner packet of the reply, which is sound and goes back to the client."""
    (frame,) = loop.through(tunnelled(packet))
    found = frame
    assert found[IP].dst == str(HOST_A)
    assert found[VXLAN].payload.dst == mac_text(mac_of(100, 10))
    return found[VXLAN].payload.payload


def addresses(vip):
    return (IP, {"src": "10.0.0.10", "dst": str(vip)}) if vip.version == 4 else (
        IPv6, {"src": "fd00::10", "dst": str(vip)})  # fmt: skip


@pytest.mark.parametrize("vip", [VIP, VIP6])
@pytest.mark.parametrize("port", [80, 443, 81])
def test_a_syn_gets_a_reset(loop, vip, port):
    network, ends = addresses(vip)
    packet = network(**ends) / TCP(sport=1000, dport=port, flags="S", seq=0xFFFFFFFF, options=[("MSS", 1400)])
    reply = answered(loop, packet)
    assert bytes(type(reply)(bytes(reply))) == bytes(reply)
    assert (reply.src, reply.dst) == (ends["dst"], ends["src"])
    assert (reply[TCP].sport, reply[TCP].dport, reply[TCP].flags) == (port, 1000, "RA")
    assert (reply[TCP].seq, reply[TCP].ack) == (0, 0)
    rebuilt = reply.copy()
    del rebuilt[TCP].chksum
    assert bytes(rebuilt) == bytes(reply)
    assert loop.count(Count.REFUSED) == 1


def test_the_reset_of_a_segment_with_ack_has_its_acknowledged_number(loop):
    segment = IP(src="10.0.0.10", dst=str(VIP)) / TCP(sport=1000, dport=443, flags="PA", seq=5, ack=77) / Raw(b"abc")
    reply = answered(loop, segment)
    assert (reply[TCP].flags, reply[TCP].seq, len(reply)) == ("R", 77, 40)
    dissected(bytes(loop.through(tunnelled(segment))[0]))


def test_the_payload_of_a_segment_is_acknowledged(loop):
    segment = IP(src="10.0.0.10", dst=str(VIP), options=[b"\x01" * 4]) / TCP(dport=80, flags="SF", seq=10) / Raw(b"abc")
    assert answered(loop, segment)[TCP].ack == 10 + 3 + 2


def test_a_reset_gets_nothing(loop):
    assert loop.through(tunnelled(IP(src="10.0.0.10", dst=str(VIP)) / TCP(dport=80, flags="R"))) == []
    assert loop.drops() == {Drop.NO_BACK_END: 1}


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_a_datagram_gets_port_unreachable(loop, size):
    packet = IP(src="10.0.0.10", dst=str(VIP)) / UDP(sport=1000, dport=53) / Raw(bytes(size))
    reply = answered(loop, packet)
    assert (reply[ICMP].type, reply[ICMP].code) == (3, 3)
    assert bytes(reply)[28:] == bytes(packet)[:548]
    rebuilt = IP(src=str(VIP), dst="10.0.0.10", id=0, flags="DF") / ICMP(type=3, code=3) / Raw(bytes(packet)[:548])
    assert bytes(rebuilt) == bytes(reply)


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_over_ipv6_too(loop, size):
    packet = IPv6(src="fd00::10", dst=str(VIP6)) / UDP(sport=1000, dport=53) / Raw(bytes(size))
    reply = answered(loop, packet)
    found = reply[ICMPv6DestUnreach]
    assert (found.type, found.code) == (1, 4)
    quote = bytes(packet)[: 1280 - 48]
    assert bytes(reply)[48:] == quote
    rebuilt = IPv6(bytes(reply)[:40] + bytes(reply)[40:42] + bytes(2) + bytes(reply)[44:48] + quote)
    del rebuilt[ICMPv6DestUnreach].cksum
    assert bytes(rebuilt)[40:48] == bytes(reply)[40:48]


def test_pings_of_a_virtual_ip_are_answered(loop):
    ping = IP(src="10.0.0.10", dst=str(VIP)) / ICMP(id=7, seq=9) / Raw(b"payload")
    (frame,) = loop.through(tunnelled(ping))
    reply = dissected(bytes(frame))[VXLAN].payload.payload
    assert (reply.src, reply[ICMP].type, reply[ICMP].id, reply[ICMP].seq) == (str(VIP), 0, 7, 9)
    ping = IPv6(src="fd00::10", dst=str(VIP6)) / ICMPv6EchoRequest(id=7, seq=9, data=b"payload")
    (frame,) = loop.through(tunnelled(ping))
    reply = frame[VXLAN].payload.payload
    rebuilt = reply.copy()
    del rebuilt[ICMPv6EchoReply].cksum
    assert bytes(rebuilt) == bytes(reply)


def test_the_reply_to_a_ping_of_zeros_has_a_valid_checksum(loop):
    (frame,) = loop.through(tunnelled(IP(src="10.0.0.10", dst=str(VIP)) / ICMP(id=0, seq=0)))
    assert dissected(bytes(frame))[VXLAN].payload.payload[ICMP].chksum == 0xFFFF


def test_an_address_that_is_no_virtual_ip_gets_nothing(loop):
    assert loop.through(tunnelled(IP(src="10.0.0.10", dst="10.0.0.77") / TCP(dport=80))) == []
    assert loop.drops() == {Drop.NO_ROUTE: 1}


def test_in_panic_all_back_ends_are_used():
    config = changed(CHECKED, b0={"panic_when_all_down": True})
    loop = BalancerLoop(config)
    loop.configure(config, down=DOWN)
    (frame,) = loop.through(tunnelled(IP(src="10.0.0.10", dst=str(VIP)) / TCP(dport=80, flags="S")))
    assert frame[VXLAN].payload.payload[TCP].flags == "S"
