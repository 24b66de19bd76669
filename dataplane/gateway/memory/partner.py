"""Connection replication between the two gateways of a pair, so that either can continue the connections of both.

`collect` returns records of what changed since the last call: new connections, TCP states, packets seen (once per
round of `ageing`), ends. `apply_records` creates the partner's connections here: FROM_PARTNER, with their NAT mappings
and without a generation, so that the first packet that arrives here is admitted again and finds its mapping.

A connection that had packets here is not ended by the partner, unless it gave way there and may do so here (`queues`):
its public port has another user then. A record whose key or public port belongs to a different connection here is
refused and counted, unless that one may give way; so is a record without room. The partner enforces the VPCs'
shares (`shares`): its connections count here, but are not refused for the share.

A connection of what is gone here is refused as well, and one of what now has the same numbers is a different one, of
which the later decision counts (`incarnations`): either gateway may be the one that knows of the change.
"""

from heddle.dataplane.elements.memory.exchange import belong, describe
from heddle.dataplane.elements.memory.shares import WHOLE_PERCENT as UNLIMITED
from heddle.dataplane.elements.memory.state import (
    ENDED,
    GAVE_WAY,
    JOURNAL_HEAD,
    JOURNAL_ON,
    JOURNAL_TAIL,
    PARTNER_REFUSED,
    RESEND_LEFT,
    UPDATED,
)
from heddle.dataplane.elements.memory.tcp_flags import KNOWN_OPENER, KNOWN_REPLIER
from heddle.dataplane.engine.flow_key import VNI
from heddle.dataplane.gateway.memory.connections import NO_ROW, connect, end_connection, find_connection
from heddle.dataplane.gateway.memory.incarnations import is_gone, is_record_of, write_draft
from heddle.dataplane.gateway.memory.journal import describe_numbers
from heddle.dataplane.gateway.memory.mappings import NO_MAPPING, mapping_for, mapping_from, release_mapping
from heddle.dataplane.gateway.memory.queues import enqueue
from heddle.dataplane.gateway.memory.state import (
    DECIDED,
    DECIDED_AT,
    FROM_PARTNER,
    PAIRS_USED,
    RECORD_FLAGS,
    REPLY,
    RESEND_ALL,
    SOURCE,
    TARGET,
    State,
)
from heddle.dataplane.jit import Row, Rows, element, inline, kernel
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.tables.schema import OWN_PER_ENDPOINT, Tables

NO_GENERATION = -1


@kernel
def start_journal(state: State) -> None:
    """Start the journal for a partner, beginning with all current connections.

    This includes the connections received from the partner: it may have restarted since, and would lose them if this
    gateway failed as well.
    """
    state.counts[JOURNAL_ON] = 1
    state.counts[RESEND_ALL] = 1
    state.counts[JOURNAL_TAIL] = state.counts[JOURNAL_HEAD]
    state.counts[RESEND_LEFT] = state.counts[PAIRS_USED]


@kernel
def stop_journal(state: State) -> None:
    """Stop the journal."""
    state.counts[JOURNAL_ON] = 0
    state.counts[RESEND_LEFT] = 0


@kernel
def collect(state: State, records: Rows, now_ns: int) -> int:
    """Write the next records for the partner into RECORD rows, between two bursts; return how many.

    Fewer records than rows: there are no more for now.
    """
    counts, found = state.counts, 0
    while found < records.shape[0] and counts[JOURNAL_TAIL] < counts[JOURNAL_HEAD]:
        record = state.journal[counts[JOURNAL_TAIL] & (state.journal.shape[0] - 1)]
        describe(records[found], record.what, record, record.mapped, record.idle_ns)
        records[found].expected_opener = record.expected_opener
        records[found].expected_replier = record.expected_replier
        belong(records[found], record.source_incarnation, record.target_incarnation, record.decided_at)
        counts[JOURNAL_TAIL] += 1
        found += 1
    while found < records.shape[0] and counts[RESEND_LEFT] > 0:
        counts[RESEND_LEFT] -= 1
        forward = state.connections[2 * counts[RESEND_LEFT]]
        if forward.key == 0 or (forward.flags & FROM_PARTNER and not counts[RESEND_ALL]):
            continue
        back = state.connections[forward.pair]
        idle_ns = now_ns - max(forward.last_seen_ns, back.last_seen_ns)
        mapped = (1 if forward.mapping >= 0 else 0) | (2 if back.mapping >= 0 else 0)
        describe(records[found], UPDATED, forward, mapped, idle_ns)
        describe_numbers(records[found], forward, back)
        records[found].flags &= ~FROM_PARTNER
        to = state.incarnations[counts[RESEND_LEFT]]
        belong(records[found], to[SOURCE], to[TARGET], to[DECIDED_AT])
        found += 1
    if counts[RESEND_LEFT] == 0:
        counts[RESEND_ALL] = 0
    return found


@kernel
def apply_records(tables: Tables, state: State, records: Rows, count: int, now_ns: int) -> int:
    """Apply `count` of the partner's records, between two bursts; return how many were refused."""
    refused = 0
    for number in range(count):
        record = records[number]
        row = find_connection(state, record.source_hi, record.source_lo, record.target_hi, record.target_lo, record.key)
        is_same = row == NO_ROW or is_record_of(state, row >> 1, record)
        if record.what == ENDED or record.what == GAVE_WAY:
            if (
                row != NO_ROW
                and is_same
                and (
                    state.connections[row].flags & FROM_PARTNER
                    or (record.what == GAVE_WAY and _may_give_way(state, row))
                )
            ):
                end_connection(state, row)
            continue
        is_sound = record.what == UPDATED and _is_sound(record)
        if not is_sound or _is_outdated(tables, state, record, row if not is_same else NO_ROW):
            refused += 1
            continue
        if not is_same:
            end_connection(state, row)
            row = NO_ROW
        if row == NO_ROW:
            refused += 0 if _make(tables, state, record, now_ns) else 1
        elif not _refresh(state, record, row, now_ns):
            if _may_give_way(state, row):
                end_connection(state, row)
                refused += 0 if _make(tables, state, record, now_ns) else 1
            else:
                refused += 1
    state.counts[PARTNER_REFUSED] += refused
    return refused


@inline
def _is_outdated(tables: Tables, state: State, record: Row, other: int) -> bool:
    """Whether what a record belongs to is gone; `other` is the row of another's connection with its key, or NO_ROW."""
    if is_gone(tables, record.source_incarnation, record.target_incarnation, record.decided_at):
        return True
    return other != NO_ROW and record.decided_at <= state.incarnations[other >> 1, DECIDED_AT]


@inline
def _may_give_way(state: State, row: int) -> bool:
    """Whether a connection is closed or half open."""
    return state.connections[row & ~1].queued != 0


@inline
def _is_sound(record: Row) -> bool:
    """Whether the fields of a record are in range, so that no row made of them looks free."""
    return (
        record.key >> 24 & 0xFF != 0
        and 0 <= record.new_ports <= WORD
        and 0 <= record.out_vni <= VNI
        and 0 <= record.mapped <= 3
        and record.flags & ~RECORD_FLAGS == 0
    )


@inline
def _refresh(state: State, record: Row, row: int, now_ns: int) -> bool:
    """Merge a record into a connection that both gateways have; return False if they are different connections."""
    connection = state.connections[row]
    if connection.flags & REPLY or connection.new_ports != record.new_ports or connection.out_vni != record.out_vni:
        return False
    if connection.new_source_lo != record.new_source_lo or connection.new_target_lo != record.new_target_lo:
        return False
    back, before = state.connections[connection.pair], connection.flags
    news = record.flags & ~(REPLY | FROM_PARTNER)
    if connection.flags & FROM_PARTNER:
        # Only the partner has seen packets: its flags replace ours, even if a closing connection was opened again.
        news |= before & ~RECORD_FLAGS | FROM_PARTNER
        connection.flags = news
        back.flags = news | REPLY
    else:
        connection.flags |= news & ~DECIDED
        back.flags |= news & ~DECIDED
    _merge_numbers(state, record, row)
    connection.last_seen_ns = max(connection.last_seen_ns, now_ns - max(record.idle_ns, 0))
    if (connection.flags ^ before) & RECORD_FLAGS:
        enqueue(state, row, now_ns)
    return True


@inline
def _merge_numbers(state: State, record: Row, row: int) -> None:
    """Take the TCP numbers of a record that are newer than ours, for each side of a connection."""
    forward, back = state.connections[row], state.connections[row + 1]
    known = 0
    if _is_news(record.expected_opener, forward, KNOWN_OPENER):
        forward.expected = record.expected_opener
        known |= KNOWN_OPENER
    if _is_news(record.expected_replier, back, KNOWN_REPLIER):
        back.expected = record.expected_replier
        known |= KNOWN_REPLIER
    forward.flags |= known
    back.flags |= known


@inline
def _is_news(expected: int, connection: Row, known: int) -> bool:
    """Whether the partner knows more of a side: its packets do not pass here, or have got on there."""
    if expected == 0:
        return False
    if connection.flags & known == 0 or connection.packets == 0:
        return True
    following = (expected >> 32) - (connection.expected >> 32) & WORD
    acknowledged = (expected & WORD) - (connection.expected & WORD) & WORD
    return 0 < (following if following else acknowledged) < 1 << 31


@inline
def _make(tables: Tables, state: State, record: Row, now_ns: int) -> bool:
    """Create a partner's connection; return False without room for it or for one of its mappings."""
    forward, back = state.draft[0], state.draft[1]
    forward.source_hi = record.source_hi
    forward.source_lo = record.source_lo
    forward.target_hi = record.target_hi
    forward.target_lo = record.target_lo
    forward.key = record.key
    forward.new_source_hi = record.new_source_hi
    forward.new_source_lo = record.new_source_lo
    forward.new_target_hi = record.new_target_hi
    forward.new_target_lo = record.new_target_lo
    forward.new_ports = record.new_ports
    forward.flags = record.flags & ~REPLY | FROM_PARTNER
    forward.out_vni = record.out_vni
    forward.generation = NO_GENERATION
    forward.next_hop = NO_ROW
    back.next_hop = NO_ROW
    write_draft(state, record.source_incarnation, record.target_incarnation, record.decided_at)
    if not _restore_mappings(state, record, forward, back):
        return False
    row = connect(state, tables.own[OWN_PER_ENDPOINT], UNLIMITED, now_ns - max(record.idle_ns, 0))
    if row < 0:
        if forward.mapping != NO_MAPPING:
            release_mapping(state, forward.mapping)
        if back.mapping != NO_MAPPING:
            release_mapping(state, back.mapping)
        return False
    _merge_numbers(state, record, row)
    return True


@element
def _mapping(state: State, inside: int, key: int, public: int, port: int, incarnation: int) -> int:
    """Return the mapping with a required port, or a negative number; its only user here may give way to it."""
    other = mapping_from(state, public, port, key >> 24 & 0xFF)
    if other != NO_MAPPING:
        found = state.mappings[other]
        is_another = found.inside != inside or found.key != key or found.incarnation != incarnation
        is_held_once = found.references == 1 and found.holders != 0  # not by the connection that is being made
        if is_another and is_held_once and _may_give_way(state, found.holders - 1):
            end_connection(state, found.holders - 1)
    return mapping_for(state, inside, key, public, 0, 0, port, UNLIMITED, UNLIMITED, UNLIMITED, incarnation)


@inline
def _restore_mappings(state: State, record: Row, forward: Row, back: Row) -> bool:
    """Allocate the public ports of a partner's connection; return False if one is in use here."""
    forward.mapping = NO_MAPPING
    back.mapping = NO_MAPPING
    low = record.key & WORD
    if record.mapped & 1:
        key = (record.key >> 48 & 0xFFFF) << 32 | low
        public, port = record.new_source_lo & WORD, record.new_ports >> 16 & 0xFFFF
        incarnation = record.source_incarnation
        forward.mapping = _mapping(state, record.source_lo & WORD, key, public, port, incarnation)
        if forward.mapping < 0:
            return False
    if record.mapped & 2:
        key = (record.new_ports & 0xFFFF) << 32 | low & ~VNI | record.out_vni
        public, port = record.target_lo & WORD, record.key >> 32 & 0xFFFF
        incarnation = record.target_incarnation
        back.mapping = _mapping(state, record.new_target_lo & WORD, key, public, port, incarnation)
        if back.mapping < 0:
            if forward.mapping != NO_MAPPING:
                release_mapping(state, forward.mapping)
            return False
    return True
