"""Source validation: drop spoofed source addresses before any state is created for a packet.

A tenant's source address must be an endpoint of that VPC at the sending VTEP; the source MAC of a bridged frame must
be that endpoint's as well. The source MAC of a routed frame is not checked, because the gateway replaces it. From a
virtual IP, routed frames may also come from the VTEPs of its back ends, which reply to clients by direct return. A
customer's source address must be within the prefix of its connection; an ICMP error about a packet to that prefix may
come from any router on the path, whose addresses are often outside of it (RFC 1191; RFC 1812, 4.3.2.4), but not from an
address that the VPC routes elsewhere. A packet from the internet or from the provider must not have the gateway's own
address or a public address of the gateway as its source.
"""

from heddle.dataplane.elements.headers.flow import is_error
from heddle.dataplane.elements.headers.quoted import NO_QUOTE, quoted_target, quoted_transport
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BRIDGED, LATER_FRAGMENT, NOT_A_FRAGMENT, drop, punt
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.hashing import mixed3
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.elements.routing import longest
from heddle.dataplane.gateway.elements.sides import customer_of
from heddle.dataplane.gateway.graph import CUSTOMER_SIDE
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline
from heddle.dataplane.packet.ethernet import source_mac
from heddle.dataplane.packet.memory import WORD, load8
from heddle.dataplane.packet.transport import ECHO_REQUEST, ICMP, ICMPV6, V6_ECHO_REQUEST
from heddle.dataplane.tables.lookup import ahead3, place, row1, row3, row3_hashed
from heddle.dataplane.tables.schema import (
    CUSTOMER_MASK_HI,
    CUSTOMER_MASK_LO,
    CUSTOMER_PREFIX_HI,
    CUSTOMER_PREFIX_LO,
    EMPTY,
    EXTERNAL,
    PORT_ADDRESS,
    PORT_SIDE,
    Tables,
)


@element
def check_source(node: int, work: Work) -> None:
    """Drop spoofed sources; punt pings of the gateway's own and NAT addresses, but forward those of floating IPs.

    Fragments of pings are punted by `admit`: later ones need the first, and may be of a reply to an endpoint.
    """
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
    if row == EMPTY or not (
        _is_customers(tables, row, packet.source_hi, packet.source_lo) or _is_from_path(memory, packet, tables, row)
    ):
        drop(packet, Drop.SPOOFED_SOURCE)


@inline
def _is_customers(tables: Tables, row: int, hi: int, lo: int) -> bool:
    """Whether an address is within the prefix of a customer, given by its row."""
    customers = tables.customers
    return (
        hi & customers[row, CUSTOMER_MASK_HI] == customers[row, CUSTOMER_PREFIX_HI]
        and lo & customers[row, CUSTOMER_MASK_LO] == customers[row, CUSTOMER_PREFIX_LO]
    )


@element
def _is_from_path(memory: Bytes, packet: Row, tables: Tables, row: int) -> bool:
    """Whether a packet is an ICMP error about one to the customer, from no address that the VPC routes elsewhere."""
    if not is_error(memory, packet) or quoted_transport(memory, packet)[0] == NO_QUOTE:
        return False
    hi, lo = quoted_target(memory, packet)
    if not _is_customers(tables, row, hi, lo):
        return False
    hop = row3(tables.endpoints, packet.vni, packet.source_hi, packet.source_lo)
    if hop == EMPTY:
        hop = longest(tables, packet.vpc, packet.source_hi, packet.source_lo, packet.family)
    return hop == EMPTY or tables.next_hops[hop].kind == EXTERNAL


@inline
def _check_outsider(memory: Bytes, packet: Row, tables: Tables) -> None:
    if packet.family != 4:
        return
    own = tables.ports[packet.in_port, PORT_ADDRESS]
    source, target = packet.source_lo & WORD, packet.target_lo & WORD
    if source == own or is_public(source, tables):
        drop(packet, Drop.SPOOFED_SOURCE)
    elif packet.fragment == NOT_A_FRAGMENT and is_ping(memory, packet) and is_own(target, own, tables):
        punt(packet, Punt.FOR_GATEWAY)


@inline
def is_own(address: int, own: int, tables: Tables) -> bool:
    """Whether the gateway replies at an address: that of a port or of NAT, unless it is a floating IP."""
    return (address == own or row1(tables.nat_in, address) != EMPTY) and row1(tables.floating_in, address) == EMPTY


@inline
def is_ping(memory: Bytes, packet: Row) -> bool:
    """Whether a packet is an echo request, or a later fragment that may be of one."""
    if packet.protocol != (ICMP if packet.family == 4 else ICMPV6):
        return False
    if packet.fragment == LATER_FRAGMENT:
        return True
    return load8(memory, packet.l4) == (ECHO_REQUEST if packet.family == 4 else V6_ECHO_REQUEST)


@inline
def is_public(address: int, tables: Tables) -> bool:
    """Whether an IPv4 address is that of a NAT gateway or a floating IP."""
    return row1(tables.nat_in, address) != EMPTY or row1(tables.floating_in, address) != EMPTY
