"""Connection tracking: find the connection of each packet, count the packet, and follow the TCP state.

Later fragments get their ports from the first one (`fragments`), but do not belong to a connection that is younger: the
first one belonged to another with the same addresses and ports. An ICMP error belongs to the connection of the packet
that it quotes (`quoted`). `connection` of a packet is the row of its connection, or -1. Next node:

- HIT: the present generation of tables has admitted the connection, which names next hop and translation.
- MISS: there is no connection, or only an older generation of tables has admitted it; `admit` decides.

TCP state selects the idle timeout (`memory.ageing.timeout_s`). A connection is ESTABLISHED once its opener acknowledges
a reply, CLOSING once either side sends FIN or RST, and CLOSED once both sent FIN or one sent RST; `dataplane.elements`
decides which of these count (`segments`). A CLOSING connection ends after the transitory timeout without packets, a
CLOSED one also when a SYN opens a new one between the same ports (RFC 5382, REQ-5; RFC 6191).

Other traffic is ESTABLISHED once it is more than requests with one reply each: the opener sends after a reply, or
there are more replies than requests. Whatever is not live may give way to new connections (`memory.queues`).

Packets from the internet and from the provider's networks have the same VNI in their key, OUTSIDE. If a packet does not
arrive on the side that its connection leads to, it is dropped as MARTIAN.
"""

from heddle.dataplane.elements.fragments import follow as follow_fragment
from heddle.dataplane.elements.headers.flow import is_error
from heddle.dataplane.elements.memory.state import FOLLOWED_NS
from heddle.dataplane.elements.segments import take
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, NOT_A_FRAGMENT, drop
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.tracking.quoted import find_quoted
from heddle.dataplane.gateway.elements.tracking.segments import begin, change, follow
from heddle.dataplane.gateway.graph import HIT, MISS
from heddle.dataplane.gateway.memory.connections import (
    NO_ROW,
    end_connection,
    find_connection,
    free_ended_pairs,
    is_of,
    prefetch_row,
    prefetch_slots,
)
from heddle.dataplane.gateway.memory.queues import enqueue
from heddle.dataplane.gateway.memory.state import (
    BORDER,
    CLOSED,
    CREATED_NS,
    DECIDED,
    ESTABLISHED,
    FROM_PARTNER,
    REPLY,
    SEEN_REPLY,
    TRANSLATED,
    State,
)
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline
from heddle.dataplane.packet.transport import ACK, FIN, FLAGS_AT, RST, SYN, TCP
from heddle.dataplane.tables.lookup import place
from heddle.dataplane.tables.schema import OUTSIDE, PORT_SIDE, SIDES, Tables

PROVIDER_SIDE = SIDES.index("provider")


@element
def track(node: int, work: Work) -> None:
    """Find the connections of all packets."""
    packets, memory, tables, state = work.packets, work.memory, work.tables, work.state
    hit, miss = work.graph.next[node, HIT], work.graph.next[node, MISS]
    generation = tables.generation[0]
    free_ended_pairs(state)
    _prefetch(node, packets, work.size, state)
    _prefetch_rows(node, packets, work.size, state)
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        row = packet.connection
        if packet.fragment != NOT_A_FRAGMENT:
            reason = follow_fragment(memory, packet, tables, state, work.now_ns)
            if reason < 0 and packet.fragment == LATER_FRAGMENT and _is_of_another(packet, state):
                reason = Drop.FRAGMENT_WITHOUT_FIRST.value
            if reason >= 0:
                drop(packet, reason)
                continue
            row = NO_ROW
        error = is_error(memory, packet)
        if error:
            row = find_quoted(memory, packet, state)
        else:
            key = key_of(packet.ports, packet.protocol, packet.vni)
            if row < 0 or not is_of(state.connections[place(row)], packet, key):
                row = _find(packet, state, key)
            if row != NO_ROW and packet.protocol == TCP and state.connections[place(row)].flags & CLOSED:
                row = _reopened(memory, packet, state, row, work.now_ns)
        packet.connection = row
        if row < 0 or state.connections[place(row)].generation != generation:
            packet.node = miss
        elif packet.vni == OUTSIDE and not is_from_expected_side(packet, tables, state.connections[place(row)]):
            drop(packet, Drop.MARTIAN)
        else:
            packet.node = hit
            if error:
                route_by(packet, state.connections[place(row)], row)
            else:
                apply_connection(memory, packet, state, row, work.now_ns)


@element
def _is_of_another(packet: Row, state: State) -> bool:
    """Whether the connection of a later fragment was created after its first fragment came, which `follow` found."""
    row = _find(packet, state, key_of(packet.ports, packet.protocol, packet.vni))
    return row != NO_ROW and state.incarnations[row >> 1, CREATED_NS] > state.counts[FOLLOWED_NS]


@element
def _find(packet: Row, state: State, key: int) -> int:
    """Return the row of a packet that the prefetched slot did not hold."""
    return find_connection(state, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key)


@inline
def _prefetch(node: int, packets: Rows, count: int, state: State) -> None:
    """Prefetch the index slots of all packets of the burst: a table of a million rows fits in no cache."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            prefetch_slots(state, packet.hash)


@inline
def _prefetch_rows(node: int, packets: Rows, count: int, state: State) -> None:
    """Store the likely connection row of each packet in `connection`, and prefetch it."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            packet.connection = prefetch_row(state, packet.hash)


@inline
def is_from_expected_side(packet: Row, tables: Tables, connection: Row) -> bool:
    """Return whether a packet without a VPC arrived on the side that its connection leads to."""
    return (tables.ports[place(packet.in_port), PORT_SIDE] == PROVIDER_SIDE) == (connection.flags & BORDER != 0)


@inline
def route_by(packet: Row, connection: Row, row: int) -> None:
    """Route a packet by a connection; this is all that applies to an ICMP error about one."""
    packet.connection = row
    packet.next_hop = connection.next_hop
    packet.translation = row if connection.flags & TRANSLATED else NO_ROW


@inline
def apply_connection(memory: Bytes, packet: Row, state: State, row: int, now_ns: int) -> None:
    """Count a packet of a connection and route it by the connection."""
    connection = state.connections[place(row)]
    flags = connection.flags
    route_by(packet, connection, row)
    connection.packets += 1
    is_segment = packet.protocol == TCP and packet.fragment != LATER_FRAGMENT
    if is_segment and not take(memory, packet, connection, flags):
        follow(memory, packet, state, row, now_ns)
        return
    connection.last_seen_ns = now_ns
    if packet.protocol == TCP or flags & ESTABLISHED or flags & (REPLY | SEEN_REPLY) == 0:
        return
    if packet.fragment != LATER_FRAGMENT:
        _follow_exchange(state, row)


@element
def _follow_exchange(state: State, row: int) -> None:
    """Update the state of a connection without TCP by a reply, or by a packet of the opener after a reply."""
    connection = state.connections[row]
    if connection.flags & SEEN_REPLY == 0:
        change(state, row, connection.flags | SEEN_REPLY)
    elif connection.flags & REPLY == 0 or connection.packets > state.connections[connection.pair].packets:
        change(state, row, connection.flags | ESTABLISHED)


@element
def _reopened(memory: Bytes, packet: Row, state: State, row: int, now_ns: int) -> int:
    """Return the row of a packet whose connection is closed: a SYN opens a new connection.

    A SYN from the opener of the old connection reuses its rows and is admitted again, so that the mapping is kept. A
    SYN from the other side opens a different connection.
    """
    if packet.fragment == LATER_FRAGMENT or memory[packet.l4 + FLAGS_AT] & (SYN | ACK | RST | FIN) != SYN:
        return row
    connection = state.connections[row]
    if connection.flags & REPLY:
        end_connection(state, row)
        return NO_ROW
    back = state.connections[connection.pair]
    for each in (connection, back):
        each.flags &= DECIDED | FROM_PARTNER | REPLY
        each.generation = NO_ROW
    begin(memory, packet, state, row)
    enqueue(state, row, now_ns)
    return row
