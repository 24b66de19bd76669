"""The connection table: find, create and end connections.

A connection is a pair of rows (`state.CONNECTION`), 2 n and 2 n + 1, that never move: the direction of the opener and
the direction of the replies. The key of each row is a packet as it arrives, so one search finds a translated
connection from either side. Keys contain the VNI (OUTSIDE for packets that do not come from a VPC): two tenants with
equal addresses have different keys. The only reference to a generation's tables is `next_hop`, valid for `generation`
alone.

A connection is refused if no pair of rows is free; if the endpoint that it counts against has reached its limit (the
opener; the target if the connection is opened from outside); if that endpoint's VPC has reached its share (`shares`);
or if both buckets of a key are full (`buckets`). A live connection never gives way to another; one that is closed or
not established may (`queues`, `reclaim`).

Packets of a burst refer to rows until they are rewritten. The rows of a connection that ends therefore stay unchanged,
and are not allocated again, until the next burst.
"""

from heddle.dataplane.elements.memory.buckets import (
    ROW,
    SLOTS,
    first_slot,
    free_row,
    likely_slot,
    put,
    take_out,
    take_row,
)
from heddle.dataplane.elements.memory.shares import CONNECTIONS, LIMITED, charge, discharge
from heddle.dataplane.elements.memory.state import ENDED, SEED, UPDATED
from heddle.dataplane.engine.flow_key import VNI, key_of, swapped
from heddle.dataplane.engine.hashing import mixed3, mixed5
from heddle.dataplane.gateway.memory.incarnations import clear, copy_draft
from heddle.dataplane.gateway.memory.journal import note
from heddle.dataplane.gateway.memory.mappings import release_mapping
from heddle.dataplane.gateway.memory.queues import enqueue, leave_queue
from heddle.dataplane.gateway.memory.state import (
    FROM_PARTNER,
    OWNERS_FREED,
    PAIRS_ENDED,
    PAIRS_FREED,
    PAIRS_USED,
    REPLY,
    State,
    empty_state,
)
from heddle.dataplane.jit import Row, element, inline, kernel
from heddle.dataplane.packet.intrinsics import prefetch, prefetch_to_write
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.tables.lookup import place
from heddle.dataplane.tables.schema import OUTSIDE

__all__ = ["LIMITED", "State", "connect", "empty_state", "end_connection", "find_connection", "free_ended_pairs"]

SECOND_LINE = 64
"""Offset of the second cache line of a row: the translation and the counters."""
NO_ROW, ENDPOINT_FULL, CONFLICT = -1, -4, -5
"""In place of a row: there is none; the endpoint has reached its limit; the replies belong to another connection."""


@inline
def hash_of(row: Row, seed: int) -> int:
    """Return the hash of a connection row's key."""
    return mixed5(row.source_hi, row.source_lo, row.target_hi, row.target_lo, row.key, seed)


@inline
def find_connection(state: State, source_hi: int, source_lo: int, target_hi: int, target_lo: int, key: int) -> int:
    """Return the row whose key is a packet as it arrives, or NO_ROW."""
    hashed = mixed5(source_hi, source_lo, target_hi, target_lo, key, state.counts[SEED])
    for bucket in range(2):
        at = first_slot(state.slots, hashed, bucket)
        for slot in range(at, at + SLOTS):
            entry = state.slots[slot]
            if entry == 0:
                break
            if entry >> 32 == hashed >> 32:
                row = state.connections[(entry & ROW) - 1]
                if (
                    row.key == key
                    and row.source_lo == source_lo
                    and row.target_lo == target_lo
                    and row.source_hi == source_hi
                    and row.target_hi == target_hi
                ):
                    return (entry & ROW) - 1
    return NO_ROW


@inline
def prefetch_slots(state: State, hashed: int) -> None:
    """Prefetch the first bucket of a hash."""
    prefetch(state.slots, first_slot(state.slots, hashed, 0), 0)


@inline
def prefetch_row(state: State, hashed: int) -> int:
    """Prefetch the row that a search for a hash most likely finds; return it, or NO_ROW.

    The caller must compare the key: two slots may have the same part of the hash.
    """
    slot = likely_slot(state.slots, hashed)
    entry = state.slots[place(slot)] if slot >= 0 else 0
    if entry == 0:
        return NO_ROW
    row = (entry & ROW) - 1
    prefetch_to_write(state.connections, row, 0)
    prefetch_to_write(state.connections, row, SECOND_LINE)
    return row


@inline
def is_of(row: Row, packet: Row, key: int) -> bool:
    """Whether a row's key is a packet as it arrived; `key` is that packet's ports, protocol and VNI."""
    return (
        row.key == key
        and row.source_lo == packet.source_lo
        and row.target_lo == packet.target_lo
        and row.source_hi == packet.source_hi
        and row.target_hi == packet.target_hi
    )


@inline
def _find_owner(state: State, hashed: int, vni: int, hi: int, lo: int) -> int:
    for bucket in range(2):
        at = first_slot(state.owner_index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            entry = state.owner_index[slot]
            if entry == 0:
                break
            row = (entry & ROW) - 1
            if state.owners[row].vni == vni and state.owners[row].hi == hi and state.owners[row].lo == lo:
                return row
    return NO_ROW


@element
def _charge(state: State, limit: int, percent: int, vni: int, hi: int, lo: int) -> int:
    """Count a connection against an endpoint and its VPC; return the endpoint's row.

    Return ENDPOINT_FULL if the endpoint has reached its limit, LIMITED if its VPC has reached its share, and NO_ROW
    without room for their accounts.
    """
    account = charge(state, CONNECTIONS, vni, free_pairs(state), percent)
    if account < 0:
        return account
    owner = _charge_endpoint(state, limit, vni, hi, lo)
    if owner < 0:
        discharge(state, account)
    else:
        state.owners[owner].account = account
    return owner


@inline
def _charge_endpoint(state: State, limit: int, vni: int, hi: int, lo: int) -> int:
    hashed = mixed3(vni ^ state.counts[SEED], hi, lo)
    owner = _find_owner(state, hashed, vni, hi, lo)
    if owner == NO_ROW:
        owner = take_row(state.freed_owners, state.counts, OWNERS_FREED)
        if owner == NO_ROW:
            return NO_ROW
        if not put(state.owner_index, hashed, owner):
            free_row(state.freed_owners, state.counts, OWNERS_FREED, owner)
            return NO_ROW
        state.owners[owner].vni = vni
        state.owners[owner].hi = hi
        state.owners[owner].lo = lo
        state.owners[owner].connections = 0
    if state.owners[owner].connections >= max(limit, 1):
        return ENDPOINT_FULL
    state.owners[owner].connections += 1
    return owner


@element
def _discharge(state: State, owner: int) -> None:
    """Remove a connection from the accounts of an endpoint and its VPC."""
    discharge(state, state.owners[owner].account)
    state.owners[owner].connections -= 1
    if state.owners[owner].connections == 0:
        vni = state.owners[owner].vni ^ state.counts[SEED]
        hashed = mixed3(vni, state.owners[owner].hi, state.owners[owner].lo)
        take_out(state.owner_index, hashed, owner)
        free_row(state.freed_owners, state.counts, OWNERS_FREED, owner)


@inline
def complete_draft(state: State) -> None:
    """Derive the second row of the draft, the replies, from the first."""
    forward, back = state.draft[0], state.draft[1]
    key = forward.key
    back.source_hi = forward.new_target_hi
    back.source_lo = forward.new_target_lo
    back.target_hi = forward.new_source_hi
    back.target_lo = forward.new_source_lo
    back.key = key_of(swapped(forward.new_ports), key >> 24 & 0xFF, forward.out_vni)
    back.new_source_hi = forward.target_hi
    back.new_source_lo = forward.target_lo
    back.new_target_hi = forward.source_hi
    back.new_target_lo = forward.source_lo
    back.new_ports = swapped(key >> 32 & WORD)
    back.out_vni = key & VNI
    back.flags = forward.flags | REPLY
    back.generation = forward.generation


@inline
def _copy(to: Row, draft: Row, pair: int, owner: int, now_ns: int, secret: int) -> None:
    to.source_hi = draft.source_hi
    to.source_lo = draft.source_lo
    to.target_hi = draft.target_hi
    to.target_lo = draft.target_lo
    to.key = draft.key
    to.new_source_hi = draft.new_source_hi
    to.new_source_lo = draft.new_source_lo
    to.new_target_hi = draft.new_target_hi
    to.new_target_lo = draft.new_target_lo
    to.new_ports = draft.new_ports
    to.flags = draft.flags
    to.pair = pair
    to.mapping = draft.mapping
    to.next_hop = draft.next_hop
    to.generation = draft.generation
    to.out_vni = draft.out_vni
    to.last_seen_ns = now_ns
    to.packets = 0
    to.expected = secret
    to.beyond = secret
    to.seen_packets = 0
    to.owner = owner
    to.queued = 0


@kernel
def connect(state: State, limit: int, percent: int, now_ns: int) -> int:
    """Create the connection in the draft, whose first row is complete; return that row.

    Return NO_ROW without room; ENDPOINT_FULL if the endpoint has reached its `limit`; LIMITED if its VPC has reached
    its share; CONFLICT if another connection has these replies.

    The connection takes over the references to the mappings of the draft; if it is refused, the caller releases them.
    Its TCP numbers are secret until they are known, so that no sender can guess them.
    If the reply key belongs to a connection of an older generation, that connection ends.
    """
    complete_draft(state)
    forward, back = state.draft[0], state.draft[1]
    other = find_connection(state, back.source_hi, back.source_lo, back.target_hi, back.target_lo, back.key)
    if other != NO_ROW:
        if state.connections[other].generation == forward.generation:
            return CONFLICT
        end_connection(state, other)
    if forward.key & VNI == OUTSIDE:
        owner = _charge(state, limit, percent, forward.out_vni, forward.new_target_hi, forward.new_target_lo)
    else:
        owner = _charge(state, limit, percent, forward.key & VNI, forward.source_hi, forward.source_lo)
    if owner < 0:
        return owner
    pair = take_row(state.pairs, state.counts, PAIRS_FREED)
    if pair == NO_ROW:
        _discharge(state, owner)
        return NO_ROW
    row, seed = 2 * pair, state.counts[SEED]
    _copy(state.connections[row], forward, row + 1, owner, now_ns, mixed3(seed, row, now_ns))
    _copy(state.connections[row + 1], back, row, owner, now_ns, mixed3(seed, row + 1, now_ns))
    if not put(state.slots, hash_of(forward, seed), row):
        _undo(state, pair, owner)
        return NO_ROW
    if not put(state.slots, hash_of(back, seed), row + 1):
        take_out(state.slots, hash_of(forward, seed), row)
        _undo(state, pair, owner)
        return NO_ROW
    for side in range(row, row + 2):
        if state.connections[side].mapping >= 0:
            state.mappings[state.connections[side].mapping].holders ^= side + 1
    copy_draft(state, pair, now_ns)
    enqueue(state, row, now_ns)
    note(state, UPDATED, row, 0)
    return row


@inline
def _undo(state: State, pair: int, owner: int) -> None:
    state.connections[2 * pair].key = 0
    state.connections[2 * pair + 1].key = 0
    free_row(state.pairs, state.counts, PAIRS_FREED, pair)
    _discharge(state, owner)


@kernel
def end_connection(state: State, row: int) -> None:
    """End the connection of a row: its rows, its references to mappings, its endpoint's account."""
    end_as(state, row, ENDED)


@element
def end_as(state: State, row: int, what: int) -> None:
    """End the connection of a row; the partner's record says `what`, ENDED or GAVE_WAY."""
    if state.connections[row].flags & FROM_PARTNER == 0:
        note(state, what, row, 0)
    pair = row >> 1
    leave_queue(state, 2 * pair)
    for side in range(2 * pair, 2 * pair + 2):
        each = state.connections[side]
        take_out(state.slots, hash_of(each, state.counts[SEED]), side)
        if each.mapping >= 0:
            state.mappings[each.mapping].holders ^= side + 1
            release_mapping(state, each.mapping)
        each.mapping = NO_ROW
        each.key = 0
    _discharge(state, state.connections[row].owner)
    clear(state, pair)
    state.counts[PAIRS_ENDED] += 1
    state.pairs[state.pairs.shape[0] - state.counts[PAIRS_ENDED]] = pair


@element
def owner_of(state: State, vni: int, hi: int, lo: int) -> int:
    """Return the row of an endpoint that has connections, or NO_ROW."""
    return _find_owner(state, mixed3(vni ^ state.counts[SEED], hi, lo), vni, hi, lo)


@inline
def free_pairs(state: State) -> int:
    """Return how many pairs of rows are free."""
    return state.pairs.shape[0] - state.counts[PAIRS_USED] + state.counts[PAIRS_FREED]


@inline
def free_ended_pairs(state: State) -> None:
    """Free the pairs of ended connections, once no packet of a burst refers to their rows."""
    while state.counts[PAIRS_ENDED] > 0:
        pair = state.pairs[state.pairs.shape[0] - state.counts[PAIRS_ENDED]]
        state.counts[PAIRS_ENDED] -= 1
        free_row(state.pairs, state.counts, PAIRS_FREED, pair)
