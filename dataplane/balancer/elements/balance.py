"""Find the back end of each packet: by its connection, or by Maglev for a packet that opens one.

The words of a burst's connections are prefetched by `client`, their rows here, then the rows of the other direction
that full NAT needs, so that the cache misses of a burst overlap. What a packet's flags say of its connection is in
`memory.connections`.

- A connection keeps its back end as long as that is in the service, drained or not. If it was removed, or if it is down
  and the protocol has no connections (UDP, RoCEv2), the connection gets another one.
- A packet of TCP without SYN may belong to a connection of another balancer, or of before a restart: with direct return
  it goes where the hash says, the same back end unless the back ends have changed. With full NAT it is refused.
- A packet to a virtual IP without back ends, or to another port of one, is refused.
- An ICMP error goes the way of the flow that it is about (`quoted`), and changes no state.
"""

from typing import Any

from heddle.dataplane.balancer.elements.quoted import become_flow
from heddle.dataplane.balancer.elements.segments import begin, follow_segment, touch_both
from heddle.dataplane.balancer.graph import REFUSED, SENT
from heddle.dataplane.balancer.maglev import SLOTS as MAGLEV_SLOTS
from heddle.dataplane.balancer.memory import connections as table
from heddle.dataplane.balancer.memory.connections import NO_ROW
from heddle.dataplane.balancer.memory.open_translated import open_translated
from heddle.dataplane.balancer.memory.partner import note
from heddle.dataplane.balancer.memory.sides import is_closed
from heddle.dataplane.balancer.memory.state import REPLY, SEEN_ANSWER, SEEN_REPLY, Count, State
from heddle.dataplane.balancer.tables.schema import DIRECT, FULL_NAT, VIRTUAL, service_key
from heddle.dataplane.config.limit import MAX_BACK_ENDS
from heddle.dataplane.elements.headers.flow import is_error
from heddle.dataplane.elements.headers.quoted import NO_QUOTE, quoted_transport
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, drop
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.hashing import mixed5
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, Rows, element, inline
from heddle.dataplane.packet.memory import load8
from heddle.dataplane.packet.transport import ACK, FIN, FLAGS_AT, RST, SYN, TCP, UDP
from heddle.dataplane.tables.lookup import place, row3
from heddle.dataplane.tables.schema import EMPTY

ACCEPTED, REFUSE = -1, -2
"""Verdicts besides the reasons of `Drop`."""
NEW, UNTRACKED, MOVED = int(Count.NEW), int(Count.UNTRACKED), int(Count.MOVED)
OPENED, ANSWERED = int(Count.OPENED), int(Count.ANSWERED)
MAX_SLOTS_TRIED = 64
find_key: Any = service_key
key_of_service = inline(find_key)


@element
def balance(node: int, work: Work) -> None:
    """Give every packet its next hop and its translation, or refuse or drop it."""
    packets, memory, tables, state = work.packets, work.memory, work.tables, work.state
    sent, refused = work.graph.next[node, SENT], work.graph.next[node, REFUSED]
    tick = table.tick_of(work.now_ns)
    _prefetch_rows(node, packets, work.size, state)
    for i in range(work.size):
        packet = packets[i]
        if packet.node != node:
            continue
        if is_error(memory, packet):
            verdict = _route_error(memory, packet, tables, state, tick)
        else:
            verdict = _route(memory, packet, tables, state, tick)
        if verdict == ACCEPTED:
            packet.node = sent
        elif verdict == REFUSE:
            packet.node = refused
        else:
            drop(packet, verdict)


@inline
def _prefetch_rows(node: int, packets: Rows, count: int, state: State) -> None:
    """Store the likely row of each packet in `connection`; prefetch it and the row of the other direction."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            packet.connection = table.prefetch_flow(state, packet.hash)
    for i in range(count):
        packet = packets[i]
        if packet.node == node and packet.connection != NO_ROW:
            table.prefetch_pair(state, packet.connection, packet.protocol == TCP)


@inline
def _route(memory: Bytes, packet: Row, tables: Any, state: State, tick: int) -> int:
    """Route a packet by its connection, found or made; return a verdict."""
    key, row = key_of(packet.ports, packet.protocol, packet.vni), packet.connection
    if row == NO_ROW or not _is_live(packet, tables, state, key, row, tick):
        row = _find(packet, tables, state, packet.hash, key, tick)
    if row != NO_ROW and state.flows[place(row)].flags & REPLY:
        return _reply(memory, packet, tables, state, row, tick)
    seen = _flags_of(memory, packet)
    if row != NO_ROW and seen & (SYN | ACK) == SYN and is_closed(state, row):
        table.free(state, row)
        row = NO_ROW
    if row != NO_ROW:
        number = state.flows[place(row)].back_end
        back_end = tables.back_ends[place(number & (tables.back_ends.shape[0] - 1))]
        if back_end.number == number and (back_end.up != 0 or packet.protocol == TCP):
            _follow(memory, packet, tables, state, row, seen, tick)
            packet.next_hop = back_end.next_hop
            packet.connection = row
            packet.translation = row if back_end.mode == FULL_NAT else NO_ROW
            return ACCEPTED
        state.counters[MOVED] += 1
        table.free(state, row)
    return _open(memory, packet, tables, state, seen, key, tick)


@inline
def _is_live(packet: Row, tables: Any, state: State, key: int, row: int, tick: int) -> bool:
    """Whether the prefetched row is the packet's connection."""
    word = state.words[place(row)]
    return (
        word >> 32 == packet.hash >> 32
        and not table.is_expired(word, tables.timeouts, tick)
        and table.is_of(
            state.flows[place(row)], packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key
        )
    )


@element
def _find(packet: Row, tables: Any, state: State, hashed: int, key: int, tick: int) -> int:
    return table.find(
        state,
        hashed,
        packet.source_hi,
        packet.source_lo,
        packet.target_hi,
        packet.target_lo,
        key,
        tables.timeouts,
        tick,
    )


@inline
def _flags_of(memory: Bytes, packet: Row) -> int:
    """Return the flags of a TCP header, 0 if the packet has none."""
    if packet.protocol != TCP or packet.fragment == LATER_FRAGMENT:
        return 0
    return load8(memory, packet.l4 + FLAGS_AT)


@inline
def _follow(memory: Bytes, packet: Row, tables: Any, state: State, row: int, seen: int, tick: int) -> None:
    """Follow the state of a connection by a packet of the client; a row of full NAT takes its pair along."""
    before = table.state_of_word(state.words[place(row)])
    after, flow = before, state.flows[place(row)]
    if flow.pair > 0:
        state.flows[flow.pair - 1].back_end = packet.outer_source
        if packet.protocol == TCP:
            follow_segment(memory, packet, tables, state, row, tick)
            return
    if seen & (FIN | RST):
        after = table.CLOSING
    elif flow.pair == 0 or flow.flags & SEEN_REPLY:
        if after == table.HALF_OPEN and seen & (SYN | ACK) == ACK:
            after = table.ESTABLISHED
        elif after == table.FIRST:
            after = table.STREAM
    table.touch(state, row, after, tick)
    if flow.pair > 0:
        table.touch(state, flow.pair - 1, after, tick)
    if after != before:
        note(tables, state, row, tick)


@element
def _reply(memory: Bytes, packet: Row, tables: Any, state: State, row: int, tick: int) -> int:
    """Route a back end's packet of full NAT to the client."""
    pair = state.flows[row].pair - 1
    if state.flows[pair].flags & SEEN_ANSWER == 0:
        _note_reply(memory, packet, state, pair)
    if packet.protocol == TCP:
        follow_segment(memory, packet, tables, state, row, tick)
    else:
        touch_both(state, row, table.state_of_word(state.words[row]), tick)
    packet.connection = row
    packet.translation = row
    return _towards_client(packet, tables, state, row)


@element
def _note_reply(memory: Bytes, packet: Row, state: State, pair: int) -> None:
    """Note in the client's row that the back end replies; count the first data or FIN of a TCP connection."""
    flow, seen = state.flows[pair], _flags_of(memory, packet)
    flow.flags |= SEEN_REPLY
    if packet.protocol != TCP:
        flow.flags |= SEEN_ANSWER
    elif packet.fragment != LATER_FRAGMENT and seen & RST == 0:
        if seen & FIN == 0 and packet.l4_bytes == (load8(memory, packet.l4 + 12) >> 4) * 4:
            return
        flow.flags |= SEEN_ANSWER
        state.counters[ANSWERED + (flow.back_end & MAX_BACK_ENDS - 1)] += 1


@inline
def _towards_client(packet: Row, tables: Any, state: State, row: int) -> int:
    """Set the next hop of a reply: the client, or the gateway that the client's last packet came from."""
    client = state.flows[state.flows[row].pair - 1]
    hop = row3(tables.endpoints, packet.vni, client.source_hi, client.source_lo)
    if hop == EMPTY:
        hop = row3(tables.endpoints, packet.vni, 0, state.flows[row].back_end)
    packet.next_hop = hop
    return ACCEPTED if hop >= 0 else Drop.NO_ROUTE.value


@element
def _open(memory: Bytes, packet: Row, tables: Any, state: State, seen: int, key: int, tick: int) -> int:
    """Choose a back end for a packet without a connection, and make the connection; return a verdict."""
    if packet.protocol != TCP and packet.protocol != UDP:
        return _of_no_service(packet, tables)
    first = key_of_service(packet.vni, packet.ports & 0xFFFF, packet.protocol)
    found = row3(tables.services, first, packet.target_hi, packet.target_lo)
    if found == EMPTY:
        return _of_no_service(packet, tables)
    service = tables.service_rows[found]
    row = _chosen(packet, tables, found, key)
    if row < 0:
        return REFUSE
    back_end = tables.back_ends[row]
    packet.next_hop = back_end.next_hop
    packet.connection = NO_ROW
    packet.translation = NO_ROW
    first_state = table.HALF_OPEN if packet.protocol == TCP else table.FIRST
    if service.mode == FULL_NAT:
        if packet.protocol == TCP and seen & (SYN | ACK | RST) != SYN:
            return REFUSE
        made = open_translated(packet, tables, state, service, back_end, key, tick, first_state)
        if made < 0:
            return Drop.PORTS_EXHAUSTED.value
        if packet.protocol == TCP:
            begin(memory, packet, state, made, tick)
            state.counters[OPENED + row] += 1
        packet.connection = made
        packet.translation = made
    elif seen & (FIN | RST) == 0:
        made = table.create(
            state, packet.hash, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key,
            tables.timeouts, tick, first_state, NO_ROW,
        )  # fmt: skip
        if made == NO_ROW:
            state.counters[UNTRACKED] += 1
            return ACCEPTED
        state.flows[made].back_end = back_end.number
        packet.connection = made
    else:
        return ACCEPTED
    state.counters[NEW] += 1
    return ACCEPTED


@inline
def _chosen(packet: Row, tables: Any, found: int, key: int) -> int:
    """Return the row of the back end that the flow's hash selects in a service, or NO_ROW if there is none.

    While slots are being written, one may name a back end that these tables do not have: the next slots decide then.
    """
    service = tables.service_rows[found]
    if service.open == 0:
        return NO_ROW
    # Without the process's seed: every balancer chooses alike.
    hashed = mixed5(packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key, 0)
    slot = hashed % MAGLEV_SLOTS
    for _ in range(MAX_SLOTS_TRIED):
        row = tables.slots[service.slots, slot]
        if 0 <= row < tables.back_ends.shape[0]:
            back_end = tables.back_ends[row]
            if back_end.number >= 0 and back_end.service == found:
                return row
        slot = slot + 1 if slot + 1 < MAGLEV_SLOTS else 0
    return NO_ROW


@inline
def _of_no_service(packet: Row, tables: Any) -> int:
    """Return the verdict on a packet to no service: refused at a virtual IP, dropped elsewhere."""
    owner = row3(tables.own_addresses, packet.vni, packet.target_hi, packet.target_lo)
    if owner == VIRTUAL:
        return REFUSE
    return Drop.NO_ROUTE.value if owner == EMPTY else Drop.NO_MAPPING.value


@element
def _route_error(memory: Bytes, packet: Row, tables: Any, state: State, tick: int) -> int:
    """Route an ICMP error as the flow that it is about; return ACCEPTED or a drop reason."""
    transport, protocol = quoted_transport(memory, packet)
    if transport == NO_QUOTE or protocol not in (TCP, UDP):
        return Drop.NO_STATE.value
    own_hi, own_lo, own_protocol = packet.source_hi, packet.source_lo, packet.protocol
    become_flow(memory, packet, transport, protocol)
    key = key_of(packet.ports, packet.protocol, packet.vni)
    hashed = mixed5(packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key, state.counts[SEED])
    row = _find(packet, tables, state, hashed, key, tick)
    verdict = _route_quoted(packet, tables, state, row, key)
    packet.source_hi = own_hi
    packet.source_lo = own_lo
    packet.protocol = own_protocol
    packet.connection = row
    return verdict


@inline
def _route_quoted(packet: Row, tables: Any, state: State, row: int, key: int) -> int:
    if row != NO_ROW and state.flows[row].flags & REPLY:
        packet.translation = row
        return _towards_client(packet, tables, state, row)
    if row != NO_ROW:
        number = state.flows[row].back_end
        back_end = tables.back_ends[number & (tables.back_ends.shape[0] - 1)]
        packet.next_hop = back_end.next_hop
        packet.translation = row if back_end.mode == FULL_NAT else NO_ROW
        return ACCEPTED if back_end.number == number else Drop.NO_STATE.value
    first = key_of_service(packet.vni, packet.ports & 0xFFFF, packet.protocol)
    found = row3(tables.services, first, packet.target_hi, packet.target_lo)
    if found == EMPTY or tables.service_rows[found].mode != DIRECT:
        return Drop.NO_STATE.value
    chosen = _chosen(packet, tables, found, key)
    if chosen < 0:
        return Drop.NO_STATE.value
    packet.next_hop = tables.back_ends[chosen].next_hop
    packet.translation = NO_ROW
    return ACCEPTED
