"""The first steps with every packet: reset its row, check its destination MAC; and the drop for a fault of a header."""

from heddle.dataplane.engine.burst import GROUP, ROUTED, drop
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, inline
from heddle.dataplane.packet.ethernet import ETHERNET_BYTES, is_group, target_mac
from heddle.dataplane.packet.faults import BAD_FRAGMENT, BAD_TRANSPORT, MARTIAN, SHORT
from heddle.dataplane.tables.lookup import place
from heddle.dataplane.tables.schema import PORT_MAC, Tables


@inline
def begin(packet: Row) -> None:
    """Reset a row to "nothing known yet"; ports fill in only where the frame is."""
    packet.reason = -1
    packet.out_port = -1
    packet.vni = 0
    packet.vpc = -1
    packet.l3 = packet.at + ETHERNET_BYTES
    packet.l4 = packet.l3
    packet.l4_bytes = 0
    packet.family = 0
    packet.protocol = 0
    packet.fragment = 0
    packet.fragment_id = 0
    packet.source_hi = 0
    packet.source_lo = 0
    packet.target_hi = 0
    packet.target_lo = 0
    packet.ports = 0
    packet.hash = 0
    packet.outer_source = 0
    packet.outer_ecn = -1
    packet.connection = -1
    packet.next_hop = -1
    packet.translation = -1
    packet.source_hop = -1
    packet.routed = ROUTED


@inline
def is_addressed_to_us(memory: Bytes, packet: Row, tables: Tables) -> bool:
    """Whether a frame is for the port's MAC or a group address; drop it otherwise, and drop it if it is too short."""
    if packet.first_length < ETHERNET_BYTES:
        drop(packet, Drop.TOO_SHORT)
        return False
    if is_group(memory, packet.at):
        packet.routed = GROUP
        return True
    if target_mac(memory, packet.at) != tables.ports[place(packet.in_port), PORT_MAC]:
        drop(packet, Drop.NOT_FOR_US)
        return False
    return True


@inline
def fail(packet: Row, fault: int) -> None:
    """Drop a packet for a fault of `packet.faults`."""
    if fault == SHORT:
        drop(packet, Drop.TOO_SHORT)
    elif fault == BAD_TRANSPORT:
        drop(packet, Drop.BAD_TRANSPORT)
    elif fault == BAD_FRAGMENT:
        drop(packet, Drop.BAD_FRAGMENT)
    elif fault == MARTIAN:
        drop(packet, Drop.MARTIAN)
    else:
        drop(packet, Drop.BAD_IP_HEADER)
