"""Admission: route a packet that opens a connection, apply the rules, translate it, and create the connection.

Order: route, RoCE, rules of the source's VPC, rules of the target's VPC (or of the border), translation, room.

- From a VPC: its endpoints first, then its longest route. A PEER prefix leads to endpoints of the peer and no further.
  EXTERNAL and PROVIDER require source translation: a floating IP, otherwise the VPC's NAT address; towards the
  provider's networks, which have no routes to tenants' addresses, the port's own address. A packet to one of the
  gateway's own public addresses hairpins (RFC 4787, REQ-9), with the public source that an outside host would see; if
  the far end's rules deny it, the connection awaits the far end (`hairpin`).
- From a customer's network: endpoints of its VPC only.
- From outside: the endpoint of the floating IP or NAT mapping of the destination address, if the rules of that VPC
  allow it. Filtering is thus left to the rules: endpoint-independent (RFC 4787, REQ-8) where they allow it.
- From the provider's networks: nothing; these hosts can only reply.

Rules match addresses as the VPC sees them: the target before translation on the way out, the source after translation
on the way in. Not translated: IPv6, UDP port 4791 (either port: a reply has it as well), and protocols whose checksum
covers addresses but cannot be updated by the gateway. The gateway's own addresses (LOCAL) need no connection.

A connection of another generation is admitted again, as if its first packet arrived, and keeps its mapping, also where
its endpoint has got a floating IP since. If anything but the next hop is different then, the connection ends: other
addresses, or another VPC, peering, direct connect or floating IP under the same numbers (`memory.incarnations`). Then
the packet is one without a connection: it opens another, or the sender of a TCP segment gets a RST, as no program
notices silence.

Without room older connections give way (`connecting`). TCP within a connection that is not known is adopted, or its
sender gets a RST (`adopt`).

If a VPC's member or customer sends to a destination without a route, or to an unassigned address of a subnet, the slow
path replies with an ICMP error as any router does (RFC 1812, 4.3.3.1; RFC 4443, 3.1). Such a packet counts as punted.
A packet denied by a rule is dropped silently, and so is a packet from outside without a receiver.
"""

import numpy as np

from heddle.dataplane.elements.headers.flow import is_error
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import LATER_FRAGMENT, NOT_A_FRAGMENT, ROUTED, drop, punt
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.graph import NEXT
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.gateway.elements.admission.adopt import RESET, adopt
from heddle.dataplane.gateway.elements.admission.connecting import connect_draft, reconnect_draft, write_key
from heddle.dataplane.gateway.elements.admission.decide import ACCEPTED, NO_CONNECTION, decide, release_mappings
from heddle.dataplane.gateway.elements.admission.hairpin import OPENS, await_on, expect_again, is_awaiting, is_hairpin
from heddle.dataplane.gateway.elements.check_source import is_own, is_ping
from heddle.dataplane.gateway.elements.routing import longest
from heddle.dataplane.gateway.elements.tracking.segments import begin
from heddle.dataplane.gateway.elements.tracking.track import (
    PROVIDER_SIDE,
    apply_connection,
    is_from_expected_side,
    route_by,
)
from heddle.dataplane.gateway.memory.connections import NO_ROW, end_connection, find_connection
from heddle.dataplane.gateway.memory.incarnations import belongs_alike, draft_of
from heddle.dataplane.gateway.memory.mappings import NO_MAPPING
from heddle.dataplane.gateway.memory.state import DECIDED, FROM_PARTNER, REPLY, SOURCE, TARGET, State
from heddle.dataplane.jit import Bytes, Row, element, inline, kernel, part
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.packet.transport import ACK, FIN, FLAGS_AT, ICMP, ICMPV6, RST, SYN, TCP, V6_ECHO_REQUEST
from heddle.dataplane.tables.schema import EMPTY, LOCAL, OUTSIDE, PORT_ADDRESS, PORT_SIDE, Tables

QUERIES = 1 << 8 | 1 << 13 | 1 << 15 | 1 << 17
"""Bit mask of ICMP request types: echo, timestamp, information, address mask. Each has an identifier (RFC 792, 950)."""
UNREACHABLE = -3
"""A verdict besides those of `decide`, of `adopt` and of `Drop`: reply to the sender that there is no route."""
FOR_GATEWAY, CHANGED = -6, -7
"""Other ones: a fragment of a ping of the gateway; the connection ended because it would be another one now."""


@element
def admit(node: int, work: Work) -> None:
    """Admit packets that open a connection, and connections of an older generation again."""
    packets, memory, tables, state = work.packets, work.memory, work.tables, work.state
    for i in range(work.size):
        packet = packets[i]
        if packet.node == node:
            reason = _admitted(packet, memory, tables, state, work.now_ns)
            if reason == UNREACHABLE:
                punt(packet, Punt.UNREACHABLE)
            elif reason == RESET:
                punt(packet, Punt.NO_STATE)
            elif reason == FOR_GATEWAY:
                punt(packet, Punt.FOR_GATEWAY)
            elif reason < 0:
                packet.node = work.graph.next[node, NEXT]
            else:
                drop(packet, reason)


@part
def _admitted(packet: Row, memory: Bytes, tables: Tables, state: State, now_ns: int) -> int:
    """Route a packet by its connection, found or created; return ACCEPTED, UNREACHABLE or a drop reason."""
    row = packet.connection
    if is_error(memory, packet):
        if row == NO_ROW or state.connections[row].key == 0:
            return Drop.NO_STATE.value
    elif row == NO_ROW or state.connections[row].key == 0:
        # An earlier packet of this burst may have opened or ended the connection.
        key = key_of(packet.ports, packet.protocol, packet.vni)
        row = find_connection(state, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key)
    is_changed = False
    if row != NO_ROW and packet.vni == OUTSIDE and not is_from_expected_side(packet, tables, state.connections[row]):
        return Drop.MARTIAN.value
    if row != NO_ROW and state.connections[row].generation != tables.generation[0]:
        reason = _admitted_again(tables, state, row, now_ns)
        if reason == CHANGED:
            if is_error(memory, packet):
                return Drop.NO_STATE.value
            row, is_changed = NO_ROW, True
        elif reason == OPENS:
            row = state.draft[1].pair
        elif reason != ACCEPTED:
            return reason
    if row == NO_ROW:
        if packet.fragment != NOT_A_FRAGMENT and _is_fragment_of_ping(memory, packet, tables):
            return FOR_GATEWAY
        reason = _opens(packet, memory, tables)
        if reason < 0:
            reason = _open(packet, tables, state, now_ns)
            if reason == ACCEPTED and packet.protocol == TCP:
                begin(memory, packet, state, packet.connection)
        elif reason == Drop.NO_STATE.value and packet.protocol == TCP:
            reason = RESET if is_changed else adopt(packet, memory, tables, state, now_ns)
        if reason != ACCEPTED:
            return reason
        row = packet.connection
    if is_error(memory, packet):
        route_by(packet, state.connections[row], row)
    else:
        apply_connection(memory, packet, state, row, now_ns)
    return ACCEPTED


@part
def _admitted_again(tables: Tables, state: State, row: int, now_ns: int) -> int:
    """Decide again about a connection; return OPENS where another is in its place, else a verdict of `readmit`."""
    reason = readmit(tables, state, row)
    if reason == OPENS:
        reason = reconnect_draft(tables, state, row, now_ns)
        return OPENS if reason == ACCEPTED else reason
    if reason == Drop.DENIED_IN.value and state.connections[row].key != 0:
        state.connections[row].last_seen_ns = now_ns  # it awaits its far end
        state.connections[row].packets += 1
    return reason


@element
def _is_fragment_of_ping(memory: Bytes, packet: Row, tables: Tables) -> bool:
    """Whether a fragment that belongs to no connection is of an echo request to the gateway itself."""
    if not is_ping(memory, packet):
        return False
    if packet.vni == OUTSIDE:
        own = tables.ports[packet.in_port, PORT_ADDRESS]
        return packet.family == 4 and is_own(packet.target_lo & WORD, own, tables)
    hop = longest(tables, packet.vpc, packet.target_hi, packet.target_lo, packet.family)
    return hop != EMPTY and tables.next_hops[hop].kind == LOCAL


@inline
def _opens(packet: Row, memory: Bytes, tables: Tables) -> int:
    """Return ACCEPTED if a packet of this kind may open a connection, otherwise the drop reason."""
    if packet.fragment == LATER_FRAGMENT:
        return Drop.FRAGMENT_WITHOUT_FIRST.value
    if packet.protocol == TCP and memory[packet.l4 + FLAGS_AT] & (SYN | ACK | RST | FIN) != SYN:
        return Drop.NO_STATE.value
    if packet.protocol == ICMP and (memory[packet.l4] >= 64 or QUERIES >> np.int64(memory[packet.l4]) & 1 == 0):
        return Drop.NO_STATE.value
    if packet.protocol == ICMPV6 and memory[packet.l4] != V6_ECHO_REQUEST:
        return Drop.NO_STATE.value
    if packet.vni == OUTSIDE and tables.ports[packet.in_port, PORT_SIDE] == PROVIDER_SIDE:
        return Drop.DENIED_BORDER.value
    return ACCEPTED


@part
def _open(packet: Row, tables: Tables, state: State, now_ns: int) -> int:
    """Create a packet's connection.

    Return ACCEPTED; or NO_CONNECTION or UNREACHABLE, with the next hop written; or a drop reason.
    """
    forward = state.draft[0]
    write_key(packet, state)
    verdict = connect_draft(tables, state, now_ns)
    if verdict == NO_CONNECTION:
        packet.next_hop = forward.next_hop
        packet.connection = NO_ROW
        packet.translation = NO_ROW
    if packet.routed == ROUTED and verdict in (Drop.NO_ROUTE.value, Drop.DISCARD_ROUTE.value):
        packet.next_hop = forward.next_hop if verdict == Drop.DISCARD_ROUTE.value else NO_ROW
        return UNREACHABLE
    if verdict == ACCEPTED:
        packet.connection = state.draft[1].pair
    return verdict


@inline
def _is_the_same(state: State, forward: Row, back: Row) -> bool:
    """Whether the draft is a connection: belongs to the same, and is translated alike by the same mappings."""
    draft, incarnations = state.draft[0], draft_of(state)
    source, target = state.incarnations[incarnations, SOURCE], state.incarnations[incarnations, TARGET]
    return (
        belongs_alike(state, back.pair >> 1, source, target)
        and draft.new_source_lo == forward.new_source_lo
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
    """Decide again about a connection, given either of its rows; return ACCEPTED, or if it ended CHANGED or why.

    One that awaits its far end (`hairpin`) stays: return DENIED_IN; or OPENS, if it need not wait any longer.
    """
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
    verdict = decide(tables, state, forward.mapping != NO_MAPPING)
    if (verdict == ACCEPTED or verdict == Drop.DENIED_IN.value) and is_hairpin(state):
        if is_awaiting(forward):
            return await_on(state, row, verdict)
        if verdict == Drop.DENIED_IN.value:
            verdict = expect_again(tables, state, forward.flags)
    if verdict == ACCEPTED:
        is_same = _is_the_same(state, forward, back)
        release_mappings(state)
        if is_same:
            forward.next_hop = draft.next_hop
            back.next_hop = state.draft[1].next_hop
            for each in (forward, back):
                each.generation = tables.generation[0]
                each.flags = each.flags & ~(FROM_PARTNER | DECIDED) | draft.flags
            return ACCEPTED
        verdict = CHANGED
    elif verdict == NO_CONNECTION:
        verdict = Drop.NO_ROUTE.value
    elif verdict == Drop.NO_MAPPING.value or verdict == Drop.NO_NAT.value:
        verdict = CHANGED
    end_connection(state, row)
    return verdict
