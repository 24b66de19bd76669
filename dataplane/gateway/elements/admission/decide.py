"""Decide about a packet that opens a connection: its next hop, the rules of both sides, its translation.

The caller writes the packet's key into the first row of the draft. `decide` writes the rest of that row, and the
fields of the second row that do not follow from the first.
"""

from heddle.dataplane.engine.flow_key import VNI, swapped
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.admission.filter import allowed
from heddle.dataplane.gateway.elements.admission.translate import (
    is_ours,
    is_roce,
    take_mappings,
    translate_source,
    translate_target,
)
from heddle.dataplane.gateway.elements.routing import longest
from heddle.dataplane.gateway.memory.incarnations import draft_of, write_draft
from heddle.dataplane.gateway.memory.mappings import NO_MAPPING, release_mapping
from heddle.dataplane.gateway.memory.state import BORDER, SOURCE, TARGET, State
from heddle.dataplane.jit import Row, element, inline, kernel
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.tables.lookup import row1, row3
from heddle.dataplane.tables.schema import (
    CUSTOMER,
    DISCARD,
    EMPTY,
    EXTERNAL,
    LOCAL,
    OUTSIDE,
    OWN_NETWORK_GENERATION,
    PEER,
    PROVIDER,
    TUNNEL,
    Tables,
)

ACCEPTED, NO_CONNECTION = -1, -2
"""Verdicts besides the reasons of `Drop`: create the connection; forward the packet without a connection."""


@inline
def family_of(hi: int, lo: int) -> int:
    """Return 4 for an address within ::ffff:0:0/96, which no IPv6 packet has, otherwise 6."""
    return 4 if hi == 0 and lo >> 32 == 0xFFFF else 6


@kernel
def decide(tables: Tables, state: State, by_mapping: bool) -> int:
    """Complete the draft.

    Return ACCEPTED, with the references to its mappings counted; or NO_CONNECTION; or the drop reason. `by_mapping`:
    the connection exists and has a mapping of its source, which a floating IP of the endpoint does not replace.
    """
    forward, back = state.draft[0], state.draft[1]
    forward.new_source_hi = forward.source_hi
    forward.new_source_lo = forward.source_lo
    forward.new_target_hi = forward.target_hi
    forward.new_target_lo = forward.target_lo
    forward.new_ports = forward.key >> 32 & WORD
    forward.flags = 0
    forward.mapping = NO_MAPPING
    back.mapping = NO_MAPPING
    forward.next_hop = EMPTY
    back.next_hop = EMPTY
    forward.generation = tables.generation[0]
    write_draft(state, OUTSIDE, OUTSIDE, tables.own[OWN_NETWORK_GENERATION])
    if forward.key & VNI == OUTSIDE:
        verdict = _arriving(tables, state, forward, back)
    else:
        verdict = _leaving(tables, state, forward, back, by_mapping)
    if verdict == ACCEPTED:
        verdict = take_mappings(tables, state, forward, back)
    if verdict == ACCEPTED and _has_equal_reply_key(forward):
        release_mappings(state)
        return Drop.MARTIAN.value
    return verdict


@element
def release_mappings(state: State) -> None:
    """Release the references to mappings that an accepted draft holds."""
    for side in range(2):
        if state.draft[side].mapping != NO_MAPPING:
            release_mapping(state, state.draft[side].mapping)
            state.draft[side].mapping = NO_MAPPING


@inline
def _has_equal_reply_key(forward: Row) -> bool:
    """Whether replies would have the packet's own key: an endpoint sends to its own public address, say."""
    return (
        forward.new_target_lo == forward.source_lo
        and forward.new_target_hi == forward.source_hi
        and forward.new_source_lo == forward.target_lo
        and forward.new_source_hi == forward.target_hi
        and forward.out_vni == forward.key & VNI
        and swapped(forward.new_ports) == forward.key >> 32 & WORD
    )


@inline
def _arriving(tables: Tables, state: State, forward: Row, back: Row) -> int:
    """Decide about a packet from outside: translate its target, and apply the rules of that VPC."""
    if family_of(forward.source_hi, forward.source_lo) != 4:
        return Drop.NO_MAPPING.value
    if is_ours(tables, forward.source_lo):
        return Drop.MARTIAN.value
    verdict = translate_target(tables, state, forward, back)
    if verdict != ACCEPTED:
        return verdict
    vpc = row1(tables.vnis, forward.out_vni)
    back.next_hop = longest(tables, vpc, forward.source_hi, forward.source_lo, 4)
    if back.next_hop == EMPTY or tables.next_hops[back.next_hop].kind != EXTERNAL:
        return Drop.MARTIAN.value
    return _entering(tables, forward, vpc, False)


@inline
def _entering(tables: Tables, forward: Row, vpc: int, default: bool) -> int:
    """Apply the inbound rules of the VPC that a packet is routed to."""
    row = tables.vpcs[vpc]
    hi, lo = forward.new_source_hi, forward.new_source_lo
    family, protocol, port = family_of(hi, lo), forward.key >> 24 & 0xFF, forward.new_ports & 0xFFFF
    if allowed(tables, row.rules_in, row.rules_in_count, default, family, protocol, hi, lo, port):
        return ACCEPTED
    return Drop.DENIED_IN.value


@element
def _leaving(tables: Tables, state: State, forward: Row, back: Row, by_mapping: bool) -> int:
    """Decide about a packet from a VPC's endpoint or from its customer."""
    vni = forward.key & VNI
    vpc = row1(tables.vnis, vni)
    if vpc == EMPTY:
        return Drop.UNKNOWN_VNI.value
    family = family_of(forward.target_hi, forward.target_lo)
    inside, belongs = True, state.incarnations[draft_of(state)]
    belongs[SOURCE] = tables.vpc_incarnations[vpc]
    back.next_hop = row3(tables.endpoints, vni, forward.source_hi, forward.source_lo)
    if back.next_hop == EMPTY:
        inside = False
        back.next_hop = longest(tables, vpc, forward.source_hi, forward.source_lo, family)
        if back.next_hop == EMPTY or tables.next_hops[back.next_hop].kind != CUSTOMER:
            return Drop.SPOOFED_SOURCE.value
        belongs[SOURCE] = tables.next_hops[back.next_hop].incarnation
    kind = _resolve_target(tables, state, forward, vpc, vni, family)
    if kind < 0:
        return Drop.NO_ROUTE.value
    if kind == LOCAL:
        return NO_CONNECTION
    if kind == DISCARD:
        return Drop.DISCARD_ROUTE.value
    if not inside and (kind != TUNNEL or forward.out_vni != vni):
        return Drop.NO_ROUTE.value
    outside = kind in (EXTERNAL, PROVIDER)
    if outside and is_roce(forward):
        return Drop.ROCE_NOT_TRANSLATED.value
    if inside and not _may_leave(tables, forward, vpc, family):
        return Drop.DENIED_OUT.value
    if kind == TUNNEL:
        return _entering(tables, forward, row1(tables.vnis, forward.out_vni), inside and forward.out_vni == vni)
    if kind == PROVIDER and not _may_pass_border(tables, forward, vpc, family):
        return Drop.DENIED_BORDER.value
    if not outside:
        return ACCEPTED
    verdict = translate_source(tables, state, forward, vpc, kind, by_mapping)
    if verdict != ACCEPTED or kind == PROVIDER or not is_ours(tables, forward.target_lo):
        return verdict
    verdict = translate_target(tables, state, forward, back)
    if verdict != ACCEPTED:
        return verdict
    return _entering(tables, forward, row1(tables.vnis, forward.out_vni), False)


@inline
def _resolve_target(tables: Tables, state: State, forward: Row, vpc: int, vni: int, family: int) -> int:
    """Write the next hop and the VPC of the target; return the kind of the hop, or -1 without a route."""
    belongs = state.incarnations[draft_of(state)]
    belongs[TARGET] = tables.vpc_incarnations[vpc]
    forward.out_vni = vni
    hop = row3(tables.endpoints, vni, forward.target_hi, forward.target_lo)
    if hop == EMPTY:
        hop = longest(tables, vpc, forward.target_hi, forward.target_lo, family)
    if hop != EMPTY and tables.next_hops[hop].kind == PEER:
        forward.out_vni = tables.next_hops[hop].vni
        belongs[SOURCE] = tables.next_hops[hop].incarnation
        belongs[TARGET] = tables.next_hops[hop].incarnation
        hop = row3(tables.endpoints, forward.out_vni, forward.target_hi, forward.target_lo)
    if hop == EMPTY:
        return -1
    forward.next_hop = hop
    kind = tables.next_hops[hop].kind
    if kind in (EXTERNAL, PROVIDER):
        forward.out_vni = OUTSIDE
        belongs[TARGET] = OUTSIDE
    if kind == CUSTOMER:
        belongs[TARGET] = tables.next_hops[hop].incarnation
    if kind == PROVIDER:
        forward.flags |= BORDER
    return kind


@inline
def _may_leave(tables: Tables, forward: Row, vpc: int, family: int) -> bool:
    row, key = tables.vpcs[vpc], forward.key
    hi, lo = forward.target_hi, forward.target_lo
    return allowed(
        tables, row.rules_out, row.rules_out_count, True, family, key >> 24 & 0xFF, hi, lo, key >> 32 & 0xFFFF
    )


@inline
def _may_pass_border(tables: Tables, forward: Row, vpc: int, family: int) -> bool:
    row, key = tables.vpcs[vpc], forward.key
    hi, lo = forward.target_hi, forward.target_lo
    return allowed(tables, row.border, row.border_count, False, family, key >> 24 & 0xFF, hi, lo, key >> 32 & 0xFFFF)
