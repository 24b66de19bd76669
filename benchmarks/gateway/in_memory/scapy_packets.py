"""Encapsulation with lookup in scapy: dissect, look up, build."""

from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from heddle.benchmarks.gateway.wire.course import EGRESS_IP, EGRESS_MAC, SINK_IP, SINK_MAC


def encapsulate(frame: bytes, endpoints: dict[str, tuple[str, str]], vni: int) -> bytes:
    """Return the VXLAN packet around a frame; `endpoints` gives the MACs (to, from) for each address."""
    inner: Any = Ether(frame)
    target, source = endpoints[inner[IP].dst]
    inner.dst, inner.src = target, source
    port = 49152 | hash((inner[IP].src, inner[IP].dst, inner[UDP].sport, inner[UDP].dport)) & 0x3FFF
    outer = Ether(dst=SINK_MAC, src=EGRESS_MAC) / IP(src=EGRESS_IP, dst=SINK_IP, tos=inner[IP].tos, id=0, flags="DF")
    tunnel: Any = outer / UDP(sport=port, dport=4789, chksum=0) / VXLAN(vni=vni, flags="Instance") / inner
    return bytes(tunnel)
