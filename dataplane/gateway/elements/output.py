"""Put the headers of the way out in front of a packet and transmit it.

    TUNNEL               outer headers from the hop's template | Ethernet of the VPC | packet
    EXTERNAL, PROVIDER   Ethernet | packet
    CUSTOMER             Ethernet, 802.1Q | packet

They are written in front of the packet where it lies: the old headers and the head room make the space. A routed
packet gets the hop's MACs; a bridged frame stays as it is. A packet that has to be cut (RFC 791; `forward` kept the
others) and one for a hop whose MAC is not known go to the slow path, which sends them by that hop: translated, their
TTL counted down, the old headers in front.
"""

from dataplane.engine.burst import BRIDGED, drop, punt, transmit
from dataplane.engine.graph import GraphArrays
from dataplane.engine.reasons import Drop, Punt
from dataplane.gateway.tables.lookup import place
from dataplane.gateway.tables.schema import CUSTOMER, EXTERNAL, PROVIDER, TUNNEL, Tables
from dataplane.jit import Bytes, Row, Rows, element, inline
from dataplane.packet import ethernet, ipv6
from dataplane.packet.memory import load8
from dataplane.packet.vxlan import OUTER_BYTES, encapsulate


@element
def output(
    node: int,
    packets: Rows,
    count: int,
    memory: Bytes,
    graph: GraphArrays,
    tables: Tables,
    state: object,
    now_ns: int,
) -> None:
    """Bring every packet to an end."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            if packet.next_hop < 0:
                drop(packet, Drop.BAD_STATE)
            else:
                leave(memory, packet, tables.next_hops[place(packet.next_hop)], tables)


@inline
def leave(memory: Bytes, packet: Row, hop: Row, tables: Tables) -> None:
    """Send one packet by a next hop."""
    if packet.at + packet.length - packet.l3 > hop.mtu_bytes:
        punt(packet, Punt.TOO_BIG)
    elif hop.resolved == 0:
        punt(packet, Punt.RESOLVE)
    elif hop.kind == TUNNEL:
        _tunnel(memory, packet, hop, tables)
    elif hop.kind in (EXTERNAL, PROVIDER):
        _frame(memory, packet, hop)
    elif hop.kind == CUSTOMER:
        _tagged_frame(memory, packet, hop)
    else:
        drop(packet, Drop.BAD_STATE)


@inline
def _begin_at(packet: Row, at: int) -> bool:
    """Let the frame begin at another byte; false, and a drop, where there is no room for that."""
    if at < packet.floor:
        drop(packet, Drop.NO_HEAD_ROOM)
        return False
    more = packet.at - at
    packet.at = at
    packet.length += more
    packet.first_length += more
    return True


@inline
def _kind(packet: Row) -> int:
    return ethernet.IPV4 if packet.family == 4 else ethernet.IPV6


@inline
def _tunnel(memory: Bytes, packet: Row, hop: Row, tables: Tables) -> None:
    inner = packet.l3 - ethernet.ETHERNET_BYTES
    if hop.template_bytes != OUTER_BYTES:
        drop(packet, Drop.BAD_STATE)
    elif _begin_at(packet, inner - OUTER_BYTES):
        if packet.routed != BRIDGED:
            ethernet.write_header(memory, inner, hop.target_mac, hop.source_mac, _kind(packet))
        service = load8(memory, packet.l3 + 1) if packet.family == 4 else ipv6.traffic_class(memory, packet.l3)
        length = packet.length - OUTER_BYTES
        encapsulate(memory, inner, length, tables.templates, hop.template, service, packet.hash)
        transmit(packet, hop.port)


@inline
def _frame(memory: Bytes, packet: Row, hop: Row) -> None:
    if _begin_at(packet, packet.l3 - ethernet.ETHERNET_BYTES):
        ethernet.write_header(memory, packet.at, hop.target_mac, hop.source_mac, _kind(packet))
        transmit(packet, hop.port)


@inline
def _tagged_frame(memory: Bytes, packet: Row, hop: Row) -> None:
    if _begin_at(packet, packet.l3 - ethernet.TAGGED_BYTES):
        ethernet.write_tagged_header(memory, packet.at, hop.target_mac, hop.source_mac, hop.vlan, _kind(packet))
        transmit(packet, hop.port)
