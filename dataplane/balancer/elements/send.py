"""Write the headers towards the next hop and transmit.

    an endpoint of the VPC     outer headers from the hop's template | Ethernet | packet          `elements.leave`
    a back end by IP-in-IP     Ethernet | IPv4, protocol 4 or 41 | packet                         RFC 2003, RFC 4213

The outer header of IP-in-IP has type of service of the inner one (RFC 6040, 4.1), DF, and its target from the hop's
`spare_0`. Its MTU needs no check of its own: what came through VXLAN had 30 bytes more in front.
The slow path fragments what exceeds a tunnel's MTU: only a path with a smaller MTU than the sender's has such packets.
"""

from typing import Any

from heddle.dataplane.elements.leave import leave
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import TO_FRAGMENT, drop, punt, transmit
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet import ethernet, ipv6
from heddle.dataplane.packet.checksum import folded, sum_of
from heddle.dataplane.packet.ipv4 import DONT_FRAGMENT, IPV4_BYTES, TTL
from heddle.dataplane.packet.memory import load8, store16, store32
from heddle.dataplane.tables.lookup import place
from heddle.dataplane.tables.schema import OWN_VTEP, TUNNEL

V4_IN_V4, V6_IN_V4 = 4, 41
"""IANA protocol numbers."""


@element
def send(node: int, work: Work) -> None:
    """Give every packet its fate."""
    packets, memory, tables = work.packets, work.memory, work.tables
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        if packet.next_hop < 0:
            drop(packet, Drop.BAD_STATE)
            continue
        hop = tables.next_hops[place(packet.next_hop)]
        if hop.kind == TUNNEL:
            leave(memory, packet, hop, tables)
            if packet.node == TO_FRAGMENT:
                punt(packet, Punt.TOO_BIG)
        else:
            _in_ip(memory, packet, hop, tables)


@inline
def _in_ip(memory: Bytes, packet: Row, hop: Row, tables: Any) -> None:
    """Send a packet to a back end by IP-in-IP."""
    at = packet.l3 - IPV4_BYTES
    frame = at - ethernet.ETHERNET_BYTES
    inner = packet.at + packet.length - packet.l3
    if frame < packet.floor:
        drop(packet, Drop.NO_HEAD_ROOM)
        return
    if inner + IPV4_BYTES > hop.mtu_bytes:
        drop(packet, Drop.TOO_BIG)
        return
    is_v4 = packet.family == 4
    service = load8(memory, packet.l3 + 1) if is_v4 else ipv6.traffic_class(memory, packet.l3)
    store32(memory, at, 0x4500_0000 | service << 16 | inner + IPV4_BYTES)
    store32(memory, at + 4, DONT_FRAGMENT)
    store32(memory, at + 8, TTL << 24 | (V4_IN_V4 if is_v4 else V6_IN_V4) << 16)
    store32(memory, at + 12, tables.own[OWN_VTEP])
    store32(memory, at + 16, hop.spare_0)
    store16(memory, at + 10, ~folded(sum_of(memory, at, IPV4_BYTES)) & 0xFFFF)
    more = packet.at - frame
    packet.at = frame
    packet.l3 = at
    packet.family = 4
    packet.length += more
    packet.first_length += more
    ethernet.write_header(memory, frame, hop.target_mac, hop.source_mac, ethernet.IPV4)
    if hop.resolved == 0:
        punt(packet, Punt.RESOLVE)
    else:
        transmit(packet, hop.port)
