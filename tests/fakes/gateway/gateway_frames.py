"""Frames for the gateway of `gateway_site`, built by scapy, and the dissection of the gateway's own frames."""

from ipaddress import IPv4Address

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Padding

from heddle.dataplane.config.addresses import gateway_mac
from heddle.foundation.address import mac_text
from tests.fakes.gateway.gateway_site import (
    CUSTOMER,
    CUSTOMER_MAC,
    EXTERNAL,
    HOST_A,
    HOST_MACS,
    PORT_MACS,
    PROVIDER,
    RED,
    ROUTER_MAC,
    STORAGE_MAC,
    VLAN,
    VTEP,
)

RED_10, RED_11 = 0x021000000010, 0x021000000011
NEXT_MACS = {EXTERNAL: ROUTER_MAC, CUSTOMER: CUSTOMER_MAC, PROVIDER: STORAGE_MAC}


def inner(packet: Packet, *, source: int = RED_10, target: int = gateway_mac(RED)) -> Packet:
    """Return a tenant's frame around an IP packet."""
    return Ether(src=mac_text(source), dst=mac_text(target)) / packet


def tunnelled(
    frame: Packet | bytes,
    *,
    vni: int = RED,
    host: IPv4Address = HOST_A,
    target: IPv4Address = VTEP,
    tos: int = 0,
    options: tuple = (),
    **fields: int,
) -> bytes:
    """Return an underlay frame as a host's VTEP sends it; `fields` are those of the VXLAN header."""
    ether = Ether(src=mac_text(HOST_MACS.get(host, 0x02AA000000FF)), dst=mac_text(PORT_MACS[0]))
    ip = IP(src=str(host), dst=str(target), tos=tos, flags="DF", options=list(options))
    udp = UDP(sport=54321, dport=4789, chksum=0)
    return bytes(ether / ip / udp / VXLAN(**{"flags": 8, "vni": vni, **fields}) / frame)


def arriving(port: int, packet: Packet, *, vlan: int = VLAN) -> bytes:
    """Return a frame as the neighbour on another port than the underlay sends it."""
    ether = Ether(src=mac_text(NEXT_MACS[port]), dst=mac_text(PORT_MACS[port]))
    return bytes(ether / Dot1Q(vlan=vlan) / packet if port == CUSTOMER else ether / packet)


def dissected(frame: bytes) -> Packet:
    """Return a frame dissected by scapy: without padding, and with lengths and checksums as scapy computes them."""
    packet = Ether(frame)
    assert Padding not in packet, packet.show(dump=True)
    assert bytes(packet) == frame
    rebuilt = packet.copy()
    layer: Packet | None = rebuilt
    while layer:
        for name in ("len", "plen", "ihl", "dataofs"):
            if name in layer.fields:
                layer.delfieldval(name)
        if "chksum" in layer.fields and not (isinstance(layer, UDP) and layer.chksum == 0):
            layer.delfieldval("chksum")
        layer = layer.payload if layer.payload else None
    assert bytes(rebuilt) == frame, packet.show(dump=True)
    return packet
