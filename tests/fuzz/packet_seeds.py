"""Packets of every kind that a gateway receives, by input port, built by scapy."""

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RS,
    ICMPv6PacketTooBig,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from heddle.dataplane.config.addresses import gateway_mac
from heddle.foundation.address import mac_text
from tests.fakes.gateway.gateway_frames import tunnelled
from tests.fakes.gateway.gateway_site import (
    CUSTOMER,
    CUSTOMER_MAC,
    EXTERNAL,
    HOST_A,
    HOST_C,
    PORT_MACS,
    PROVIDER,
    ROUTER_MAC,
    STORAGE_MAC,
    UNDERLAY,
)
from tests.fakes.gateway.two_tenants import BLUE, FLOATING, GREEN, HOST_C_MAC, HOSTS, MACS, NAT, RED, VLANS

BODY = Raw(bytes(range(64)))
WORLD, STORAGE = "198.51.100.7", "172.16.5.5"


def _sent(vni, packet, last=0x10, to=None, host=None, tos=0):
    target = gateway_mac(vni) if to is None else MACS[vni] + to
    frame = Ether(src=mac_text(MACS[vni] + last), dst=mac_text(target)) / packet
    return UNDERLAY, tunnelled(frame, vni=vni, host=host or HOSTS[vni], tos=tos)


def _inside(vni):
    """Return packets between endpoints, and to the internet, their customer, their peer and the gateway."""
    a, b, out = "10.0.0.10", "10.0.0.11", "10.0.0.11"
    quoted = IP(src=WORLD, dst=out) / UDP(sport=53, dport=40000) / BODY
    return [
        _sent(vni, IP(src=a, dst=b) / UDP(sport=1111, dport=5001) / BODY, to=0x11),
        _sent(vni, IP(src=b, dst=a) / UDP(sport=5001, dport=1111) / BODY, last=0x11, to=0x10),
        _sent(vni, IP(src=a, dst=b, tos=1) / UDP(sport=4791, dport=4791) / Raw(bytes(4096)), to=0x11),
        _sent(vni, IP(src=a, dst="10.0.0.12", options=[IPOption_NOP()] * 4) / TCP(sport=9, dport=443, flags="S")),
        _sent(vni, IP(src=out, dst=WORLD) / UDP(sport=40000, dport=53) / BODY, last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / UDP(sport=40002, dport=53, chksum=0) / BODY, last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / TCP(sport=40001, dport=443, flags="S"), last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / TCP(sport=40001, dport=443, flags="A") / BODY, last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / TCP(sport=40001, dport=443, flags="FA"), last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / ICMP(type=8, id=77, seq=1) / BODY, last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / ICMP(type=3, code=3) / quoted, last=0x11),
        _sent(vni, IP(src=a, dst=WORLD, ttl=1) / UDP(sport=33434, dport=33434) / BODY),
        _sent(vni, IP(src=a, dst=WORLD) / UDP(sport=1, dport=4791) / BODY),
        _sent(vni, IP(src=out, dst=str(FLOATING[BLUE])) / TCP(sport=7, dport=443, flags="S"), last=0x11),
        _sent(vni, IP(src=out, dst=WORLD, id=7, flags="MF") / UDP(sport=6, dport=6, len=600) / Raw(bytes(248)),
              last=0x11),
        _sent(vni, IP(src=out, dst=WORLD, id=7, frag=32, proto=17) / Raw(bytes(200)), last=0x11),
        _sent(vni, IP(src=a, dst=STORAGE) / UDP(sport=800, dport=2049) / BODY),
        _sent(vni, IP(src=a, dst="10.99.3.3") / UDP(sport=3, dport=3) / BODY),
        _sent(vni, IP(src=a, dst="10.0.0.1") / ICMP(id=5) / BODY),
        _sent(vni, IP(src=a, dst=WORLD) / GRE() / IP(src=a, dst=WORLD) / BODY),
        _sent(vni, ARP(psrc=a, pdst="10.0.0.1", hwsrc=mac_text(MACS[vni] + 0x10))),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / UDP(sport=1, dport=5002) / BODY),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / ICMPv6EchoRequest(id=4) / BODY),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()
              / IPv6ExtHdrRouting(segleft=0) / TCP(sport=5, dport=443, flags="S")),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / AH(payloadlen=4, icv=bytes(12)) / UDP(dport=5001) / BODY),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / IPv6ExtHdrFragment(id=9, m=1) / UDP(len=600)
              / Raw(bytes(248))),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / IPv6ExtHdrFragment(id=9, offset=32, nh=17)
              / Raw(bytes(200))),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / ICMPv6DestUnreach()
              / IPv6(src="fd00::12", dst="fd00::10") / UDP(sport=5002, dport=1)),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12") / ICMPv6PacketTooBig(mtu=1280)
              / IPv6(src="fd00::12", dst="fd00::10") / TCP()),
        _sent(vni, IPv6(src="fd00::10", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt="fd00::1")),
        *_rarer(vni, a, out),
    ]  # fmt: skip


def _rarer(vni, a, out):
    """Return packets that reach rare code: too big, expired, denied, without a receiver, tagged, unusual ARP."""
    error = IP(src=out, dst=WORLD, flags="DF") / ICMP(type=3, code=3) / IP(src=WORLD, dst=out)
    expired = IP(src=out, dst=WORLD, ttl=1) / ICMP(type=3, code=3) / IP(src=WORLD, dst=out)
    wide = IPv6(src="fd00::10", dst="fd00::12")
    return [
        _sent(vni, IP(src=out, dst=WORLD, flags="DF") / UDP(sport=40000, dport=53) / Raw(bytes(1500)), last=0x11),
        _sent(vni, IP(src=out, dst=WORLD) / UDP(sport=40000, dport=53) / Raw(bytes(1500)), last=0x11),
        _sent(vni, error / UDP(sport=53, dport=40000) / Raw(bytes(1500)), last=0x11),
        _sent(vni, expired / UDP(sport=53, dport=40000) / BODY, last=0x11),
        _sent(vni, IP(src=out, dst=WORLD, id=8, flags="DF+MF") / UDP(sport=40000, dport=53, len=3000) / Raw(bytes(16)),
              last=0x11),
        _sent(vni, IP(src=out, dst=WORLD, id=8, flags="DF", frag=3, proto=17) / Raw(bytes(1600)), last=0x11),
        _sent(vni, wide / UDP(sport=1, dport=5002) / Raw(bytes(4300))),
        _sent(vni, IP(src=out, dst=WORLD) / ICMP(type=13, id=78), last=0x11),
        _sent(vni, IP(src=a, dst="10.0.0.77") / UDP(sport=1, dport=5002)),
        _sent(vni, IP(src=a, dst="10.3.0.77") / UDP(sport=1, dport=5002)),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::77") / UDP(sport=1, dport=5002)),
        _sent(vni, IP(src=a, dst="10.0.0.12") / UDP(sport=1, dport=5002) / BODY, tos=3),
        _sent(vni, IP(src=a, dst="10.0.0.12", tos=1) / UDP(sport=1, dport=5002) / BODY, tos=3),
        _sent(vni, wide / UDP(sport=1, dport=5002) / BODY, tos=3),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::12", tc=2) / UDP(sport=1, dport=5002) / BODY, tos=3),
        _sent(vni, Dot1Q(vlan=5) / IP(src=a, dst="10.0.0.12") / UDP()),
        _sent(vni, Dot1AD(vlan=5) / Dot1Q(vlan=6) / IP(src=a, dst="10.0.0.12") / UDP()),
        _sent(vni, IP(src=a, dst="10.0.0.12", proto=50) / BODY),
        _sent(vni, IP(src=a, dst=WORLD, proto=33) / BODY),
        _sent(vni, IPv6(src="fe80::10", dst=f"fe80::48:{vni >> 16 & 0xFF:x}ff:fe{vni >> 8 & 0xFF:02x}:{vni & 0xFF:x}")
              / ICMPv6EchoRequest(id=4)),
        _sent(vni, IPv6(src="fe80::10", dst="ff02::2", hlim=255) / ICMPv6ND_RS()),
        _sent(vni, IPv6(src="fd00::10", dst="fd00::1", hlim=255) / ICMPv6ND_NA(tgt="fd00::10")),
        _sent(vni, wide / IPv6ExtHdrFragment(id=10, m=0) / UDP(dport=5002)),
        _sent(vni, wide / ICMPv6TimeExceeded() / IPv6(src="fd00::12", dst="fd00::10") / ICMPv6EchoRequest(id=4)),
        _sent(vni, wide / ICMPv6TimeExceeded() / IPv6(src="fd00::12", dst="fd00::10") / IPv6ExtHdrFragment(id=5, m=1)
              / ICMPv6EchoRequest(id=4)),
        _sent(vni, IP(src=a, dst="10.0.0.1", id=11, flags="MF") / ICMP(id=6) / Raw(bytes(64))),
        _sent(vni, IP(src=a, dst="10.0.0.1", id=11, frag=9, proto=1) / Raw(bytes(40))),
    ]  # fmt: skip


def _outside(vni):
    """Return packets of the internet, the customer and the storage, most of them replies."""
    nat, floating = str(NAT[vni]), str(FLOATING[vni])
    ether = Ether(src=mac_text(ROUTER_MAC), dst=mac_text(PORT_MACS[EXTERNAL]))
    quoted = IP(src=nat, dst=WORLD) / UDP(sport=40000, dport=53) / BODY
    packets = [
        IP(src=WORLD, dst=nat) / UDP(sport=53, dport=40000) / BODY,
        IP(src=WORLD, dst=nat) / UDP(sport=53, dport=40002, chksum=0) / BODY,
        IP(src=WORLD, dst=nat) / TCP(sport=443, dport=40001, flags="SA"),
        IP(src=WORLD, dst=nat) / TCP(sport=443, dport=40001, flags="R"),
        IP(src=WORLD, dst=nat) / ICMP(type=0, id=77, seq=1) / BODY,
        IP(src="198.51.100.1", dst=nat) / ICMP(type=11) / quoted,
        IP(src=WORLD, dst=floating) / UDP(sport=9, dport=5005) / BODY,
        IP(src=WORLD, dst=floating, options=[IPOption_Router_Alert()]) / TCP(sport=9, dport=443, flags="S"),
        IP(src=WORLD, dst=floating) / ICMP(type=8, id=3) / BODY,
        IP(src=WORLD, dst=floating, id=3, flags="MF") / UDP(sport=9, dport=5005, len=400) / Raw(bytes(160)),
        IP(src=WORLD, dst=floating, id=3, frag=21, proto=17) / Raw(bytes(120)),
    ]
    customer = Ether(src=mac_text(CUSTOMER_MAC), dst=mac_text(PORT_MACS[CUSTOMER])) / Dot1Q(vlan=VLANS[vni])
    to_customer = IP(src="10.0.0.10", dst="10.99.3.3") / UDP(sport=3, dport=3) / BODY
    storage = Ether(src=mac_text(STORAGE_MAC), dst=mac_text(PORT_MACS[PROVIDER]))
    return [
        *((EXTERNAL, bytes(ether / packet)) for packet in packets),
        (CUSTOMER, bytes(customer / IP(src="10.99.3.3", dst="10.0.0.10") / UDP(sport=3, dport=3) / BODY)),
        (CUSTOMER, bytes(customer / IP(src="10.99.3.3", dst="10.0.0.10") / TCP(sport=3, dport=80, flags="S"))),
        (CUSTOMER, bytes(customer / ARP(psrc="10.99.0.1", pdst="10.0.0.1"))),
        (CUSTOMER, bytes(customer / Dot1Q(vlan=5) / IP(src="10.99.3.3", dst="10.0.0.10") / UDP())),
        (CUSTOMER, bytes(customer / IPv6(src="fd99::1", dst="fd00::10") / UDP(sport=3, dport=3))),
        (CUSTOMER, bytes(customer / IP(src="192.168.9.9", dst="10.0.0.10") / ICMP(type=11) / to_customer)),
        (EXTERNAL, bytes(ether / Dot1Q(vlan=5) / IP(src=WORLD, dst=nat) / UDP())),
        (EXTERNAL, bytes(ether / IP(src=WORLD, dst=nat, flags="DF") / UDP(sport=53, dport=40000) / Raw(bytes(1200)))),
        (EXTERNAL, bytes(ether / IP(src=WORLD, dst=nat) / ICMP(type=14, id=78))),
        (PROVIDER, bytes(storage / IP(src=STORAGE, dst="172.31.0.2") / UDP(sport=2049, dport=1024) / BODY)),
        (PROVIDER, bytes(storage / IP(src=STORAGE, dst="172.31.0.2") / ICMP(id=1) / BODY)),
    ]


def _plain():
    """Return packets that belong to no tenant."""
    underlay = Ether(src=mac_text(0x02AA00000011), dst=mac_text(PORT_MACS[UNDERLAY]))
    external = Ether(src=mac_text(ROUTER_MAC), dst=mac_text(PORT_MACS[EXTERNAL]))
    from_host = Ether(src=mac_text(HOST_C_MAC), dst=mac_text(PORT_MACS[UNDERLAY]))
    return [
        (UNDERLAY, bytes(underlay / ARP(psrc=str(HOST_A), pdst="192.168.0.1"))),
        (UNDERLAY, bytes(from_host / ARP(op=2, psrc=str(HOST_C), hwsrc=from_host.src, pdst="192.168.0.1"))),
        (EXTERNAL, bytes(external / ARP(op=2, psrc="203.0.113.1", hwsrc=external.src, pdst="203.0.113.2"))),
        (UNDERLAY, bytes(underlay / IP(src=str(HOST_A), dst="192.168.0.1") / ICMP())),
        (EXTERNAL, bytes(external / ARP(psrc="203.0.113.1", pdst=str(NAT[RED])))),
        (EXTERNAL, bytes(external / IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP() / BODY)),
    ]


SEEDS = [
    *_inside(RED),
    *_inside(BLUE),
    _sent(GREEN, IP(src="10.3.0.10", dst="10.0.0.11") / UDP(sport=8, dport=8) / BODY),
    _sent(RED, IP(src="10.0.0.11", dst="10.3.0.10") / UDP(sport=8, dport=8) / BODY, last=0x11),
    *_outside(RED),
    *_outside(BLUE),
    *_plain(),
]
"""(port, frame)."""
