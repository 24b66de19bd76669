"""Hole punching between two endpoints behind this gateway, by its public addresses (RFC 4787, REQ-9; RFC 5128, 3.3).

To an endpoint a public address of this gateway is outside, as any other. What it sends there opens its own mapping and
expects replies, even where the rules of the far end's VPC drop the packet: as with two NATs, the first packet of one
side is lost, and the other side's is its reply. So a hairpin connection that the far end's rules deny is created as one
to the outside, with the far end's public address as its target; it awaits the far end. Its packets are dropped as
DENIED_IN, and each is decided again, because no generation of tables is AWAITS. What the far end sends to the awaiting
side's public address passes any inward rules, and opens one hairpin connection for both, which is EXPECTED. It stays so
as long as the outward rules of the side that awaited allow what that side sent.
"""

from heddle.dataplane.engine.flow_key import VNI, key_of
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.admission.decide import ACCEPTED, release_mappings
from heddle.dataplane.gateway.elements.admission.filter import allowed
from heddle.dataplane.gateway.elements.admission.translate import take_mappings
from heddle.dataplane.gateway.memory.connections import NO_ROW, connect, find_connection
from heddle.dataplane.gateway.memory.mappings import NO_MAPPING, release_mapping
from heddle.dataplane.gateway.memory.state import EXPECTED, FLOATING, REPLY, TRANSLATED, State
from heddle.dataplane.jit import Row, element, inline
from heddle.dataplane.tables.lookup import row1
from heddle.dataplane.tables.schema import EMPTY, OUTSIDE, OWN_PER_ENDPOINT, OWN_VPC_PERCENT, Tables

AWAITS = -2
"""The generation of a connection that awaits its far end; a copy of the partner's has none (-1)."""
OPENS = -5
"""A verdict besides those of `decide`, `admit`, `adopt` and the reasons of `Drop`: open the connection now."""


@inline
def is_hairpin(state: State) -> bool:
    """Whether the draft, accepted or denied by inward rules, leads from a VPC into one by public addresses."""
    forward = state.draft[0]
    return forward.key & VNI != OUTSIDE and forward.out_vni != OUTSIDE and forward.flags & TRANSLATED != 0


@inline
def is_awaiting(connection: Row) -> bool:
    """Whether an opener's row may be of a connection that awaits its far end; then the draft is a hairpin."""
    return connection.generation < 0 and connection.out_vni == OUTSIDE


@inline
def _is_expected(state: State, ports: int) -> bool:
    """Whether the far end of the draft has sent to its public source; `ports` are those of the public addresses."""
    forward = state.draft[0]
    hi, lo, key = forward.new_source_hi, forward.new_source_lo, key_of(ports, forward.key >> 24 & 0xFF, OUTSIDE)
    return find_connection(state, hi, lo, forward.target_hi, forward.target_lo, key) != NO_ROW


@element
def knock(tables: Tables, state: State, now_ns: int) -> int:
    """Decide about a hairpin draft that inward rules deny.

    Return ACCEPTED, as `decide` does, if the far end expects it. Otherwise create the connection that awaits the far
    end, if there is room, and return the drop reason.
    """
    forward, back = state.draft[0], state.draft[1]
    inside_port, public_port = forward.new_ports & 0xFFFF, forward.key >> 32 & 0xFFFF
    is_same_port = forward.key >> 48 & 0xFFFF == inside_port and forward.out_vni == forward.key & VNI
    if is_same_port and forward.new_target_lo == forward.source_lo:
        return Drop.DENIED_IN.value
    verdict = take_mappings(tables, state, forward, back)
    if verdict != ACCEPTED:
        return verdict
    ports = forward.new_ports & ~0xFFFF | public_port
    if _is_expected(state, ports):
        forward.flags |= EXPECTED
        return ACCEPTED
    if back.mapping != NO_MAPPING:
        release_mapping(state, back.mapping)
        back.mapping = NO_MAPPING
    forward.new_target_hi = forward.target_hi
    forward.new_target_lo = forward.target_lo
    forward.new_ports = ports
    forward.out_vni = OUTSIDE
    forward.next_hop = EMPTY
    forward.generation = AWAITS
    forward.flags = TRANSLATED | (FLOATING if forward.mapping == NO_MAPPING else 0)
    if connect(state, tables.own[OWN_PER_ENDPOINT], tables.own[OWN_VPC_PERCENT], now_ns) < 0:
        release_mappings(state)
    return Drop.DENIED_IN.value


@element
def expect_again(tables: Tables, state: State, flags: int) -> int:
    """Decide again about a hairpin connection with `flags`, whose draft inward rules deny; return a verdict."""
    forward, back = state.draft[0], state.draft[1]
    vpc = tables.vpcs[row1(tables.vnis, forward.out_vni)]
    hi, lo, protocol = forward.new_source_hi, forward.new_source_lo, forward.key >> 24 & 0xFF
    verdict = take_mappings(tables, state, forward, back) if flags & EXPECTED else Drop.DENIED_IN.value
    port = forward.new_ports >> 16 & 0xFFFF
    if verdict == ACCEPTED and not allowed(tables, vpc.rules_out, vpc.rules_out_count, True, 4, protocol, hi, lo, port):
        release_mappings(state)
        return Drop.DENIED_IN.value
    return verdict


@element
def await_on(state: State, row: int, verdict: int) -> int:
    """Decide again about an awaiting connection, whose draft is `verdict`; return DENIED_IN, or OPENS for its end."""
    connection = state.connections[row]
    if verdict == ACCEPTED:
        release_mappings(state)
    if connection.flags & REPLY:
        return Drop.DENIED_IN.value
    is_same_source = connection.new_source_lo == state.draft[0].new_source_lo
    if verdict != ACCEPTED and is_same_source and not _is_expected(state, connection.new_ports):
        return Drop.DENIED_IN.value
    return OPENS
