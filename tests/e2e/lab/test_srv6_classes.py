"""Every router of a path of three tiers keeps the DSCP and ECN of the outer header, and of the inner one."""

import socket
from contextlib import ExitStack
from itertools import product

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from heddle.controller.config import load_fabric
from heddle.controller.model.address import ip_text, ipv6_text
from heddle.controller.model.fabric import Nic
from heddle.controller.model.srv6 import Sids
from heddle.foundation.address import mac_text
from heddle.foundation.network_namespace import network_namespace
from heddle.foundation.traffic_class import CLASSES
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.probing.self_ping import next_hop_of
from tests.e2e.lab.test_routed_fabric import SHAPES, planned

pytestmark = pytest.mark.e2e

FABRIC = f"version: 1\nsteering: srv6\ngenerate: {{{SHAPES['3 tiers'][0]}, gbps: 0.01}}\n"
TRAFFIC_CLASSES = [each.dscp << 2 | ecn for each, ecn in product(CLASSES, range(4))]
ETH_P_IPV6, SOL_PACKET, IGNORE_OUTGOING = 0x86DD, 263, 23
PAYLOAD = b"which class is this?"


def listener(lab: RoutedLab, node: str, device: str) -> socket.socket:
    """Open a socket of what arrives at a device of a router or host."""
    with network_namespace(lab.net.host(node).pid):
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IPV6))
        found.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
        found.bind((device, ETH_P_IPV6))
        found.settimeout(10)
    return found


def marks_at(heard: socket.socket) -> list[tuple[int, int]]:
    """Return the traffic classes of the next packets of this test: outer and inner."""
    found = list[tuple[int, int]]()
    while len(found) < len(TRAFFIC_CLASSES):
        packet = Ether(heard.recv(2_048))
        if IP in packet and PAYLOAD in bytes(packet[IP].payload):
            found.append((packet[IPv6].tc, packet[IP].tos))
    return found


def send_all(lab: RoutedLab, source: Nic, target: Nic, sids: tuple[int, int]) -> None:
    """Send a packet of each traffic class from a NIC; `sids` are its address and that of the path."""
    device = lab.net.device_of[source.id]
    with network_namespace(lab.net.host(source.host).pid):
        leaf = next_hop_of(device)
        assert leaf is not None
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        out.bind((device, 0))
    head = Ether(src=mac_text(source.mac), dst=leaf.hex(":"))
    with out:
        for mark in TRAFFIC_CLASSES:
            outer = IPv6(src=ipv6_text(sids[0]), dst=ipv6_text(sids[1]), tc=mark, nh=4)
            inner = IP(src=ip_text(source.ip), dst=ip_text(target.ip), tos=mark) / UDP(sport=50_000, dport=4791)
            out.send(bytes(head / outer / inner / Raw(PAYLOAD)))


def test_every_router_keeps_dscp_and_ecn_of_both_headers(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    fabric = load_fabric(path)
    sids = Sids(fabric)
    flow = max(planned(fabric), key=lambda each: len(each.links))
    source, target = (fabric.nic_by_id[each] for each in (flow.src_nic, flow.dst_nic))
    assert len(flow.links) == 6
    with RoutedLab(fabric) as lab, ExitStack() as opened:
        interfaces = {str(port): name for port, name in lab.net.interface_of.items()}
        ends = [link.partition(">")[2] for link in flow.links[:-1]]
        places = [(end.partition(":")[0], interfaces[end]) for end in ends]
        places.append((target.host, lab.net.device_of[target.id]))
        heard = [opened.enter_context(listener(lab, *place)) for place in places]
        send_all(lab, source, target, (sids.source(source), sids.destination(flow.links, target.id)))
        for each in heard:
            assert marks_at(each) == [(mark, mark) for mark in TRAFFIC_CLASSES]
