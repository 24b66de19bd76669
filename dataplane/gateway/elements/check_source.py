"""Let pass only sources that may come from where a packet came from, before any state is made for it.

A tenant's address has to be an endpoint of that VPC at that VTEP; where the frame goes on as it is, its source MAC has
to be that endpoint's as well. A customer's address has to lie in the prefix of its connection. From the internet and
from the provider, nothing comes that says it is the gateway or one of the public addresses it serves.
"""

from dataplane.engine.burst import BRIDGED, LATER_FRAGMENT, drop, punt
from dataplane.engine.graph import GraphArrays
from dataplane.engine.hashing import mixed3
from dataplane.engine.reasons import Drop, Punt
from dataplane.gateway.elements.sides import customer_of
from dataplane.gateway.kinds import CUSTOMER_SIDE, ON
from dataplane.gateway.tables.lookup import ahead3, place, row1, row3_hashed
from dataplane.gateway.tables.schema import (
    CUSTOMER_MASK_HI,
    CUSTOMER_MASK_LO,
    CUSTOMER_PREFIX_HI,
    CUSTOMER_PREFIX_LO,
    EMPTY,
    PORT_ADDRESS,
    PORT_SIDE,
    Tables,
)
from dataplane.jit import Bytes, Row, Rows, element, inline
from dataplane.packet.ethernet import source_mac
from dataplane.packet.memory import load8
from dataplane.packet.transport import ECHO_REQUEST, ICMP


@element
def check_source(
    node: int,
    packets: Rows,
    count: int,
    memory: Bytes,
    graph: GraphArrays,
    tables: Tables,
    state: object,
    now_ns: int,
) -> None:
    """Drop spoofed sources; a ping of the gateway's own or NAT address goes to the slow path, a floating one's on."""
    following = graph.next[node, ON]
    _look_ahead(node, packets, count, tables)
    for i in range(count):
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
def _look_ahead(node: int, packets: Rows, count: int, tables: Tables) -> None:
    """Begin to load where all sources of the burst will be looked for; until then `source_hop` is a source's hash."""
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
    source, target = packet.source_lo & 0xFFFF_FFFF, packet.target_lo & 0xFFFF_FFFF
    if source == own or is_public(source, tables):
        drop(packet, Drop.SPOOFED_SOURCE)
    elif _is_ping(memory, packet) and _is_own(target, own, tables):
        punt(packet, Punt.FOR_GATEWAY)


@inline
def _is_own(address: int, own: int, tables: Tables) -> bool:
    """Whether the gateway itself answers at an address: a port's or a NAT gateway's, but not an endpoint's."""
    return (address == own or row1(tables.nat_in, address) != EMPTY) and row1(tables.floating_in, address) == EMPTY


@inline
def _is_ping(memory: Bytes, packet: Row) -> bool:
    if packet.protocol != ICMP or packet.fragment == LATER_FRAGMENT:
        return False
    return load8(memory, packet.l4) == ECHO_REQUEST


@inline
def is_public(address: int, tables: Tables) -> bool:
    """Whether an IPv4 address is a NAT gateway's or a floating one."""
    return row1(tables.nat_in, address) != EMPTY or row1(tables.floating_in, address) != EMPTY
