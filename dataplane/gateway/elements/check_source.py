"""Source validation: drop spoofed source addresses before any state is created for a packet.

A tenant's source address must be an endpoint of that VPC at the sending VTEP; the source MAC of a bridged frame must
be that endpoint's as well. The source MAC of a routed frame is not checked, because the gateway replaces it. From a
virtual IP, routed frames may also come from the VTEPs of its back ends, which reply to clients by direct return. A
customer's source address must be within the prefix of its connection. A packet from the internet or from the provider
must not have the gateway's own address or a public address of the gateway as its source.
"""

from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BRIDGED, LATER_FRAGMENT, drop, punt
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.hashing import mixed3
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.elements.sides import customer_of
from heddle.dataplane.gateway.graph import CUSTOMER_SIDE
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline
from heddle.dataplane.packet.ethernet import source_mac
from heddle.dataplane.packet.memory import WORD, load8
from heddle.dataplane.packet.transport import ECHO_REQUEST, ICMP
from heddle.dataplane.tables.lookup import ahead3, place, row1, row3_hashed
from heddle.dataplane.tables.schema import (
    CUSTOMER_MASK_HI,
    CUSTOMER_MASK_LO,
    CUSTOMER_PREFIX_HI,
    CUSTOMER_PREFIX_LO,
    EMPTY,
    PORT_ADDRESS,
    PORT_SIDE,
    Tables,
)


@element
def check_source(node: int, work: Work) -> None:
    """Drop spoofed sources; punt pings of the gateway's own and NAT addresses, but forward those of floating IPs."""
    packets, memory, tables = work.packets, work.memory, work.tables
    following = work.graph.next[node, NEXT]
    _prefetch(node, packets, work.size, tables)
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        packet.node = following
        if packet.outer_source != 0:
            _check_endpoint(memory, packet, tables)
        elif tables.ports[place(packet.in_port), PORT_SIDE] == CUSTOMER_SIDE:
            _check_customer(memory, packet, tables)
        else:
            _check_outsider(memory, packet, tables)


@inline
def _prefetch(node: int, packets: Rows, count: int, tables: Tables) -> None:
    """Prefetch the endpoint slots of all sources of the burst. Until the lookup, `source_hop` holds the hash."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node and packet.outer_source != 0:
            hashed = mixed3(packet.vni, packet.source_hi, packet.source_lo)
            packet.source_hop = hashed
            ahead3(tables.endpoints, hashed)


@inline
def _check_endpoint(memory: Bytes, packet: Row, tables: Tables) -> None:
    hashed = packet.source_hop
    row = row3_hashed(tables.endpoints, hashed, packet.vni, packet.source_hi, packet.source_lo)
    packet.source_hop = EMPTY
    is_known = row >= 0 and tables.endpoint_vteps[place(row)] == packet.outer_source
    if is_known and packet.routed == BRIDGED:
        is_known = source_mac(memory, packet.at) == tables.next_hops[place(row)].target_mac
    elif row >= 0 and not is_known and packet.routed != BRIDGED:
        is_known = row1(tables.replies, row << 32 | packet.outer_source) != EMPTY
    if is_known:
        packet.source_hop = row
    else:
        drop(packet, Drop.SPOOFED_SOURCE)


@inline
def _check_customer(memory: Bytes, packet: Row, tables: Tables) -> None:
    row = customer_of(memory, packet, tables)
    customers = tables.customers
    if (
        row == EMPTY
        or packet.source_hi & customers[row, CUSTOMER_MASK_HI] != customers[row, CUSTOMER_PREFIX_HI]
        or packet.source_lo & customers[row, CUSTOMER_MASK_LO] != customers[row, CUSTOMER_PREFIX_LO]
    ):
        drop(packet, Drop.SPOOFED_SOURCE)


@inline
def _check_outsider(memory: Bytes, packet: Row, tables: Tables) -> None:
    if packet.family != 4:
        return
    own = tables.ports[packet.in_port, PORT_ADDRESS]
    source, target = packet.source_lo & WORD, packet.target_lo & WORD
    if source == own or is_public(source, tables):
        drop(packet, Drop.SPOOFED_SOURCE)
    elif _is_ping(memory, packet) and _is_own(target, own, tables):
        punt(packet, Punt.FOR_GATEWAY)


@inline
def _is_own(address: int, own: int, tables: Tables) -> bool:
    """Whether the gateway replies at an address: that of a port or of NAT, unless it is a floating IP."""
    return (address == own or row1(tables.nat_in, address) != EMPTY) and row1(tables.floating_in, address) == EMPTY


@inline
def _is_ping(memory: Bytes, packet: Row) -> bool:
    if packet.protocol != ICMP or packet.fragment == LATER_FRAGMENT:
        return False
    return load8(memory, packet.l4) == ECHO_REQUEST


@inline
def is_public(address: int, tables: Tables) -> bool:
    """Whether an IPv4 address is that of a NAT gateway or a floating IP."""
    return row1(tables.nat_in, address) != EMPTY or row1(tables.floating_in, address) != EMPTY
