"""Write the headers of the next hop in front of a packet and transmit it: the end of every graph.

    TUNNEL               outer headers from the hop's template | Ethernet of the VPC | packet
    EXTERNAL, PROVIDER   Ethernet | packet
    CUSTOMER             Ethernet, 802.1Q | packet

The headers are written in place: the old headers and the head room make the space. A routed packet gets the hop's
MACs; a bridged frame keeps its own. A packet that must be fragmented (RFC 791; `forward` stopped packets that must not
be) is marked for `fragment`. Two kinds of packets go to the slow path, which sends them by the same hop: a packet for a
hop whose MAC is not known, and one that must be fragmented and has options. They are already translated and their TTL
is decremented; the old headers are still in front.
"""

from heddle.dataplane.engine.burst import BRIDGED, TO_FRAGMENT, drop, punt, transmit
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.jit import Bytes, Row, inline
from heddle.dataplane.packet import ethernet, ipv4, ipv6
from heddle.dataplane.packet.memory import load8
from heddle.dataplane.packet.vxlan import OUTER_BYTES, encapsulate
from heddle.dataplane.tables.schema import CUSTOMER, EXTERNAL, PROVIDER, TUNNEL, Tables


@inline
def leave(memory: Bytes, packet: Row, hop: Row, tables: Tables) -> None:
    """Send one packet by a next hop."""
    if packet.at + packet.length - packet.l3 > hop.mtu_bytes:
        if packet.family == 4 and load8(memory, packet.l3) == ipv4.PLAIN and hop.resolved:
            packet.node = TO_FRAGMENT
        else:
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
    """Move the start of the frame; return False, and drop the packet, without head room for it."""
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
