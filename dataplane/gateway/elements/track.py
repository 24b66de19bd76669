"""Find the connection of each packet, count it, and follow TCP as far as time-outs need it.

Fragments get their ports (`fragments`), ICMP errors the connection that they are about (`quoted`).

HIT: next hop and translation are the connection's. MISS: nothing is known of it, or only by an older generation of
tables; `admit` decides. `connection` is the row then, or -1.

TCP: who opened it acknowledges an answer: ESTABLISHED. A FIN or RST from either side: CLOSING, until both are silent
for the transitory time-out or a SYN opens it anew (RFC 5382, REQ-5; RFC 6191 for the reuse of ports). Sequence numbers
are the endpoints' business.

What comes from outside and what comes from the provider's networks has the same VNI in its key, OUTSIDE; it has to
come from the side that its connection leads to.
"""

from dataplane.engine.burst import LATER_FRAGMENT, NOT_A_FRAGMENT, drop
from dataplane.engine.graph import GraphArrays
from dataplane.engine.reasons import Drop
from dataplane.gateway.elements.fragments import follow
from dataplane.gateway.elements.quoted import find_quoted, is_error
from dataplane.gateway.kinds import HIT, MISS
from dataplane.gateway.memory.connections import (
    NOWHERE,
    end_connection,
    find_connection,
    is_of,
    key_of,
    look_ahead,
    look_further,
    release_ended,
)
from dataplane.gateway.memory.journal import note
from dataplane.gateway.memory.state import UPDATED, State
from dataplane.gateway.tables.lookup import place
from dataplane.gateway.tables.schema import (
    BORDER,
    CLOSING,
    ESTABLISHED,
    OUTSIDE,
    REPLY,
    SEEN_REPLY,
    SIDES,
    TRANSLATED,
    Tables,
)
from dataplane.jit import Bytes, Row, Rows, element, inline
from dataplane.packet.memory import load8
from dataplane.packet.transport import TCP

FIN, SYN, RST, ACK = 1, 2, 4, 16
FLAGS_AT = 13
"""Byte of a TCP header (RFC 9293, 3.1)."""
PROVIDER_SIDE = SIDES.index("provider")


@element
def track(
    node: int, packets: Rows, count: int, memory: Bytes, graph: GraphArrays, tables: Tables, state: State, now_ns: int
) -> None:
    """Find connections."""
    hit, miss = graph.next[node, HIT], graph.next[node, MISS]
    generation = tables.generation[0]
    release_ended(state)
    _look_ahead(node, packets, count, state)
    _look_further(node, packets, count, state)
    for i in range(count):
        packet = packets[i]
        if packet.node != node:
            continue
        row = packet.connection
        if packet.fragment != NOT_A_FRAGMENT:
            reason = follow(memory, packet, tables, state, now_ns)
            if reason >= 0:
                drop(packet, reason)
                continue
            row = NOWHERE
        error = is_error(memory, packet)
        if error:
            row = find_quoted(memory, packet, state)
        else:
            key = key_of(packet.ports, packet.protocol, packet.vni)
            if row < 0 or not is_of(state.connections[place(row)], packet, key):
                row = _find(packet, state, key)
            if row != NOWHERE and packet.protocol == TCP and state.connections[place(row)].flags & CLOSING:
                row = _reopened(memory, packet, state, row)
        packet.connection = row
        if row < 0 or state.connections[place(row)].generation != generation:
            packet.node = miss
        elif packet.vni == OUTSIDE and not comes_from_its_side(packet, tables, state.connections[place(row)]):
            drop(packet, Drop.MARTIAN)
        else:
            packet.node = hit
            if error:
                lead(packet, state.connections[place(row)], row)
            else:
                carry(memory, packet, state, row, now_ns)


@element
def _find(packet: Row, state: State, key: int) -> int:
    """Return the row of a packet that was not where one would look first."""
    return find_connection(state, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key)


@inline
def _look_ahead(node: int, packets: Rows, count: int, state: State) -> None:
    """Begin to load what all packets of the burst will need: a table of a million rows is in no cache."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            look_ahead(state, packet.hash)


@inline
def _look_further(node: int, packets: Rows, count: int, state: State) -> None:
    """Write down for each packet the row of its connection, most likely, and begin to load it."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            packet.connection = look_further(state, packet.hash)


@inline
def comes_from_its_side(packet: Row, tables: Tables, connection: Row) -> bool:
    """Say whether a packet without a VPC came in where its connection leads out."""
    return (tables.ports[place(packet.in_port), 0] == PROVIDER_SIDE) == (connection.flags & BORDER != 0)


@inline
def lead(packet: Row, connection: Row, row: int) -> None:
    """Send a packet a connection's way: all that happens to an ICMP error about one."""
    packet.connection = row
    packet.next_hop = connection.next_hop
    packet.translation = row if connection.flags & TRANSLATED else NOWHERE


@inline
def carry(memory: Bytes, packet: Row, state: State, row: int, now_ns: int) -> None:
    """Count a packet of a connection and send it the connection's way."""
    connection = state.connections[place(row)]
    flags = connection.flags
    lead(packet, connection, row)
    connection.last_seen_ns = now_ns
    connection.packets += 1
    connection.bytes += packet.length
    if packet.protocol == TCP:
        if packet.fragment != LATER_FRAGMENT:
            seen = load8(memory, packet.l4 + FLAGS_AT)
            if flags & ESTABLISHED == 0 or seen & (FIN | RST | SYN):
                _follow(state, row, seen)
    elif flags & (REPLY | SEEN_REPLY) == REPLY:
        _change(state, row, SEEN_REPLY)


@element
def _follow(state: State, row: int, seen: int) -> None:
    """Follow a TCP connection by the flags of one of its packets."""
    flags = state.connections[row].flags
    found = flags
    if seen & (FIN | RST):
        found |= CLOSING
    if flags & REPLY:
        found |= SEEN_REPLY
    elif flags & SEEN_REPLY and seen & (ACK | SYN | RST) == ACK:
        found |= ESTABLISHED
    if found != flags:
        _change(state, row, found & ~flags)


@element
def _change(state: State, row: int, flags: int) -> None:
    """Set flags of both directions."""
    connection = state.connections[row]
    connection.flags |= flags
    state.connections[connection.pair].flags |= flags
    note(state, UPDATED, row, 0)


@element
def _reopened(memory: Bytes, packet: Row, state: State, row: int) -> int:
    """Return the row of a packet of a connection that was closing: a SYN begins another one.

    From who opened the old one: the same rows, to be admitted anew, so that the mapping stays. From the other side:
    another connection altogether.
    """
    if packet.fragment == LATER_FRAGMENT or memory[packet.l4 + FLAGS_AT] & (SYN | ACK | RST | FIN) != SYN:
        return row
    connection = state.connections[row]
    if connection.flags & REPLY:
        end_connection(state, row)
        return NOWHERE
    back = state.connections[connection.pair]
    for each in (connection, back):
        each.flags &= ~(CLOSING | ESTABLISHED | SEEN_REPLY)
        each.generation = NOWHERE
    return row
