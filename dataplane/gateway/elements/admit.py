"""Admission: what opens a connection is routed, judged by rules and given its translation; then it has two rows.

Order: route, RoCE, rules of the source's VPC, rules of the target's VPC (or the border's), translation, room.

- From a VPC: endpoints of it, then its longest route. A PEER's prefix leads to endpoints of the peer and no further.
  EXTERNAL and PROVIDER need a translation of the source: a floating IP, else the VPC's NAT address; towards the
  provider's networks, which know no tenant's addresses, the port's own address. A destination outside that is one of
  our own public addresses comes back in (RFC 4787, REQ-9), with the public source that anyone outside would see.
- From a customer's network: endpoints of its VPC, and nothing else.
- From outside: the endpoint of the floating IP or of the NAT mapping that it is addressed to, if its VPC's rules let
  it in. (So filtering is a matter of rules: endpoint-independent, RFC 4787 REQ-8, where they allow it.)
- From the provider's networks: nothing; they answer.

Rules see addresses as their VPC does: the target before its translation on the way out, the source after its on the
way in. What is not translated: IPv6, UDP 4791 (either port: an answer would have it as well), protocols whose checksum
covers addresses that this gateway does not know how to mend. The gateway's own addresses (LOCAL) need no connection.

A connection of another generation goes through all of this again as if its first packet came; its mapping is found
again. Where anything is different then but the next hop, it ends.

A VPC's member, or its customer, that sends to where no route leads, or to an address of a subnet that is nobody's, is
told so, as by any router (RFC 1812, 4.3.3.1; RFC 4443, 3.1): the slow path does it, which is PUNTED then and not
dropped. What a rule denies is dropped without a word, and so is all that comes from outside for nobody.
"""

import numpy as np

from dataplane.engine.burst import LATER_FRAGMENT, ROUTED, drop, punt
from dataplane.engine.graph import GraphArrays
from dataplane.engine.reasons import Drop, Punt
from dataplane.gateway.elements.decide import ACCEPTED, NO_CONNECTION, decide, let_go
from dataplane.gateway.elements.quoted import is_error
from dataplane.gateway.elements.track import (
    ACK,
    FIN,
    FLAGS_AT,
    PROVIDER_SIDE,
    RST,
    SYN,
    carry,
    comes_from_its_side,
    lead,
)
from dataplane.gateway.kinds import ON
from dataplane.gateway.memory.connections import LIMITED, NOWHERE, connect, end_connection, find_connection, key_of
from dataplane.gateway.memory.state import State
from dataplane.gateway.tables.schema import (
    DECIDED,
    FROM_PARTNER,
    OUTSIDE,
    OWN_PER_ENDPOINT,
    OWN_VPC_PERCENT,
    REPLY,
    Tables,
)
from dataplane.jit import Bytes, Row, Rows, element, inline, kernel, part
from dataplane.packet.transport import ICMP, ICMPV6, TCP, V6_ECHO_REQUEST

QUERIES = 1 << 8 | 1 << 13 | 1 << 15 | 1 << 17
"""ICMP types that ask: echo, timestamp, information, address mask; each has an identifier (RFC 792, 950)."""
UNREACHABLE = -3
"""A verdict beside `decide`'s and the reasons of `Drop`: the sender is to be told that there is no way."""


@element
def admit(
    node: int, packets: Rows, count: int, memory: Bytes, graph: GraphArrays, tables: Tables, state: State, now_ns: int
) -> None:
    """Admit what opens a connection, and connections of an older generation anew."""
    for i in range(count):
        packet = packets[i]
        if packet.node == node:
            reason = _admitted(packet, memory, tables, state, now_ns)
            if reason == UNREACHABLE:
                punt(packet, Punt.UNREACHABLE)
            elif reason < 0:
                packet.node = graph.next[node, ON]
            else:
                drop(packet, reason)


@part
def _admitted(packet: Row, memory: Bytes, tables: Tables, state: State, now_ns: int) -> int:
    """Give a packet its connection and way, new or found; a reason where it has none."""
    row = packet.connection
    if is_error(memory, packet):
        if row == NOWHERE or state.connections[row].key == 0:
            return Drop.NO_STATE.value
    elif row == NOWHERE or state.connections[row].key == 0:
        # An earlier packet of this burst may have opened or ended it.
        key = key_of(packet.ports, packet.protocol, packet.vni)
        row = find_connection(state, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key)
    if row == NOWHERE:
        reason = _opens(packet, memory, tables)
        if reason < 0:
            reason = _open(packet, memory, tables, state, now_ns)
        if reason != ACCEPTED:
            return reason
        row = packet.connection
    elif packet.vni == OUTSIDE and not comes_from_its_side(packet, tables, state.connections[row]):
        return Drop.MARTIAN.value
    elif state.connections[row].generation != tables.generation[0]:
        reason = readmit(tables, state, row)
        if reason >= 0:
            return reason
    if is_error(memory, packet):
        lead(packet, state.connections[row], row)
    else:
        carry(memory, packet, state, row, now_ns)
    return ACCEPTED


@inline
def _opens(packet: Row, memory: Bytes, tables: Tables) -> int:
    """Return ACCEPTED for a packet that may open a connection, by its kind alone, or why not."""
    if packet.fragment == LATER_FRAGMENT:
        return Drop.FRAGMENT_WITHOUT_FIRST.value
    if packet.protocol == TCP and memory[packet.l4 + FLAGS_AT] & (SYN | ACK | RST | FIN) != SYN:
        return Drop.NO_STATE.value
    if packet.protocol == ICMP and (memory[packet.l4] >= 64 or QUERIES >> np.int64(memory[packet.l4]) & 1 == 0):
        return Drop.NO_STATE.value
    if packet.protocol == ICMPV6 and memory[packet.l4] != V6_ECHO_REQUEST:
        return Drop.NO_STATE.value
    if packet.vni == OUTSIDE and tables.ports[packet.in_port, 0] == PROVIDER_SIDE:
        return Drop.DENIED_BORDER.value
    return ACCEPTED


@part
def _open(packet: Row, memory: Bytes, tables: Tables, state: State, now_ns: int) -> int:
    """Make a packet's connection; ACCEPTED, NO_CONNECTION or UNREACHABLE (its next hop is written) or why not."""
    forward = state.draft[0]
    forward.source_hi = packet.source_hi
    forward.source_lo = packet.source_lo
    forward.target_hi = packet.target_hi
    forward.target_lo = packet.target_lo
    forward.key = key_of(packet.ports, packet.protocol, packet.vni)
    verdict = decide(tables, state)
    if verdict == NO_CONNECTION:
        packet.next_hop = forward.next_hop
        packet.connection = NOWHERE
        packet.translation = NOWHERE
    if packet.routed == ROUTED and verdict in (Drop.NO_ROUTE.value, Drop.DISCARD_ROUTE.value):
        packet.next_hop = forward.next_hop if verdict == Drop.DISCARD_ROUTE.value else NOWHERE
        return UNREACHABLE
    if verdict != ACCEPTED:
        return verdict
    row = connect(state, tables.own[OWN_PER_ENDPOINT], tables.own[OWN_VPC_PERCENT], now_ns)
    if row < 0:
        let_go(state)
        return Drop.CONNECTIONS_LIMITED.value if row == LIMITED else Drop.CONNECTIONS_FULL.value
    packet.connection = row
    return ACCEPTED


@inline
def _is_translated_alike(state: State, forward: Row, back: Row) -> bool:
    """Whether the draft is what a connection is: addresses and ports as it leaves, and the mappings that it holds."""
    draft = state.draft[0]
    return (
        draft.new_source_lo == forward.new_source_lo
        and draft.new_source_hi == forward.new_source_hi
        and draft.new_target_lo == forward.new_target_lo
        and draft.new_target_hi == forward.new_target_hi
        and draft.new_ports == forward.new_ports
        and draft.out_vni == forward.out_vni
        and draft.mapping == forward.mapping
        and state.draft[1].mapping == back.mapping
    )


@kernel
def readmit(tables: Tables, state: State, row: int) -> int:
    """Decide about a connection anew, from whichever of its rows; a reason where it ended."""
    forward = state.connections[row]
    if forward.flags & REPLY:
        forward = state.connections[forward.pair]
    back = state.connections[forward.pair]
    draft = state.draft[0]
    draft.source_hi = forward.source_hi
    draft.source_lo = forward.source_lo
    draft.target_hi = forward.target_hi
    draft.target_lo = forward.target_lo
    draft.key = forward.key
    verdict = decide(tables, state)
    if verdict == ACCEPTED:
        is_same = _is_translated_alike(state, forward, back)
        let_go(state)
        if is_same:
            forward.next_hop = draft.next_hop
            back.next_hop = state.draft[1].next_hop
            for each in (forward, back):
                each.generation = tables.generation[0]
                each.flags = each.flags & ~(FROM_PARTNER | DECIDED) | draft.flags
            return ACCEPTED
        verdict = Drop.NO_MAPPING.value
    elif verdict == NO_CONNECTION:
        verdict = Drop.NO_ROUTE.value
    end_connection(state, row)
    return verdict
