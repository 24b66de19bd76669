"""Copies of connections between two balancers, by the records, rings and journal that gateways use as well.

A record (`elements.memory.state.RECORD`) has the key of the client's row, the back end as new target, for full NAT the
pool address as new source, and the state in `flags`. Numbers of back ends are each balancer's own: the receiver looks
its own up by the address.

Only connections that are proven are copied, so a flood costs the partner nothing: when they become established, when
they close, and every RENEW_NS while they have packets, so that copies do not expire before them. A record of a
connection that both have changes nothing but its state and time.
"""

from typing import Any

from heddle.dataplane.balancer.memory import connections as table
from heddle.dataplane.balancer.memory.connections import NO_ROW
from heddle.dataplane.balancer.memory.sides import set_sides, take_over
from heddle.dataplane.balancer.memory.state import REPLY, SEEN_REPLY, Count, State
from heddle.dataplane.balancer.tables.schema import FULL_NAT, service_key
from heddle.dataplane.elements.memory.exchange import describe
from heddle.dataplane.elements.memory.state import (
    JOURNAL_HEAD,
    JOURNAL_LOST,
    JOURNAL_ON,
    JOURNAL_TAIL,
    PARTNER_REFUSED,
    RESEND_LEFT,
    SEED,
    UPDATED,
)
from heddle.dataplane.engine.flow_key import VNI, key_of
from heddle.dataplane.engine.hashing import mixed5
from heddle.dataplane.jit import Row, Rows, element, inline, kernel
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.packet.transport import TCP
from heddle.dataplane.tables.lookup import row3
from heddle.dataplane.tables.schema import EMPTY

RENEW_NS = 60_000_000_000
"""Interval at which connections that had packets are sent again."""
RENEWED_NS, RENEWING = int(Count.RENEWED_NS), int(Count.RENEWING)
MAX_SCANNED = 4096
"""Rows that one call of `collect` reads of the table."""
find_key: Any = service_key
key_of_service = inline(find_key)


@kernel
def start_journal(state: State) -> None:
    """Start the journal for a partner, beginning with all connections."""
    state.counts[JOURNAL_ON] = 1
    state.counts[JOURNAL_TAIL] = state.counts[JOURNAL_HEAD]
    state.counts[RESEND_LEFT] = state.words.shape[0]
    state.counters[RENEWING] = 0


@kernel
def stop_journal(state: State) -> None:
    """Stop the journal."""
    state.counts[JOURNAL_ON] = 0
    state.counts[RESEND_LEFT] = 0


@element
def note(tables: Any, state: State, row: int, tick: int) -> None:
    """Append a record of a connection, given by the client's row, if a partner is attached."""
    counts = state.counts
    if counts[JOURNAL_ON] == 0:
        return
    if counts[JOURNAL_HEAD] - counts[JOURNAL_TAIL] >= state.journal.shape[0]:
        counts[JOURNAL_LOST] += 1
        counts[RESEND_LEFT] = state.words.shape[0]
        state.counters[RENEWING] = 0
        return
    if _describe(tables, state, state.journal[counts[JOURNAL_HEAD] & (state.journal.shape[0] - 1)], row, tick):
        counts[JOURNAL_HEAD] += 1


@inline
def _describe(tables: Any, state: State, record: Row, row: int, tick: int) -> bool:
    """Write the state of a connection into a record; return False if its back end is gone."""
    flow, word = state.flows[row], state.words[row]
    back_end = tables.back_ends[flow.back_end & (tables.back_ends.shape[0] - 1)]
    if back_end.number != flow.back_end:
        return False
    record.what = UPDATED
    record.source_hi = flow.source_hi
    record.source_lo = flow.source_lo
    record.target_hi = flow.target_hi
    record.target_lo = flow.target_lo
    record.key = flow.key
    record.new_source_hi = 0
    record.new_source_lo = 0
    record.new_target_hi = back_end.hi
    record.new_target_lo = back_end.lo
    record.new_ports = back_end.port
    record.out_vni = 0
    record.flags = table.state_of_word(word) | (8 if flow.flags & SEEN_REPLY else 0)
    record.mapped = 0
    if flow.pair > 0:
        back = state.flows[flow.pair - 1]
        record.new_source_hi = back.target_hi
        record.new_source_lo = back.target_lo
        record.new_ports = (back.key >> 32 & 0xFFFF) << 16 | back_end.port
        record.mapped = 1
        record.out_vni = 0
    record.idle_ns = (tick - word & table.TICKS) << table.TICK_SHIFT
    return True


@kernel
def collect(tables: Any, state: State, records: Rows, now_ns: int) -> int:
    """Write the next records for the partner into RECORD rows, between two bursts; return how many."""
    counts, found, tick = state.counts, 0, table.tick_of(now_ns)
    if state.counters[RENEWED_NS] == 0:
        state.counters[RENEWED_NS] = now_ns
    elif counts[RESEND_LEFT] <= 0 and now_ns - state.counters[RENEWED_NS] > RENEW_NS:
        counts[RESEND_LEFT] = state.words.shape[0]
        state.counters[RENEWING] = 1
        state.counters[RENEWED_NS] = now_ns
    while found < records.shape[0] and counts[JOURNAL_TAIL] < counts[JOURNAL_HEAD]:
        record = state.journal[counts[JOURNAL_TAIL] & (state.journal.shape[0] - 1)]
        describe(records[found], record.what, record, record.mapped, record.idle_ns)
        counts[JOURNAL_TAIL] += 1
        found += 1
    for _ in range(MAX_SCANNED):
        if found == records.shape[0] or counts[RESEND_LEFT] <= 0:
            break
        counts[RESEND_LEFT] -= 1
        row = counts[RESEND_LEFT]
        word = state.words[row]
        if word == 0 or table.is_unproven(word) or state.flows[row].flags & REPLY:
            continue
        if state.counters[RENEWING] and (tick - word & table.TICKS) << table.TICK_SHIFT > 2 * RENEW_NS:
            continue
        if _describe(tables, state, records[found], row, tick):
            found += 1
    return found


@kernel
def apply_records(tables: Any, state: State, records: Rows, count: int, now_ns: int) -> int:
    """Apply `count` of the partner's records, between two bursts; return how many were refused."""
    refused = 0
    for number in range(count):
        record = records[number]
        if not _is_sound(record) or not _apply(tables, state, record, now_ns):
            refused += 1
    state.counts[PARTNER_REFUSED] += refused
    return refused


@inline
def _is_sound(record: Row) -> bool:
    state = record.flags & 7
    return (
        record.what == UPDATED
        and 0 < state < table.STATES
        and record.flags & ~15 == 0
        and 0 <= record.new_ports <= WORD
        and record.key & VNI != 0
        and record.idle_ns >= 0
    )


@element
def _apply(tables: Any, state: State, record: Row, now_ns: int) -> bool:
    """Make or refresh the connection of a record; return False without its back end, or room, or on a conflict."""
    key, tick = record.key, table.tick_of(max(now_ns - record.idle_ns, 0))
    now_tick, seed, wanted = table.tick_of(now_ns), state.counts[SEED], record.flags & 7
    protocol = key >> 24 & 0xFF
    first = key_of_service(key & VNI, key >> 32 & 0xFFFF, protocol)
    service = row3(tables.services, first, record.target_hi, record.target_lo)
    if service == EMPTY:
        return False
    named = service << 16 | record.new_ports & 0xFFFF
    at = row3(tables.back_end_rows, named, record.new_target_hi, record.new_target_lo)
    if at == EMPTY or (tables.back_ends[at].mode == FULL_NAT) != (record.mapped == 1):
        return False
    hashed = mixed5(record.source_hi, record.source_lo, record.target_hi, record.target_lo, key, seed)
    row = table.find(
        state, hashed, record.source_hi, record.source_lo, record.target_hi, record.target_lo, key, tables.timeouts,
        now_tick,
    )  # fmt: skip
    if row != NO_ROW:
        return _refresh(tables, state, record, row, at, tick, wanted)
    row = table.create(
        state, hashed, record.source_hi, record.source_lo, record.target_hi, record.target_lo, key, tables.timeouts,
        now_tick, wanted, NO_ROW,
    )  # fmt: skip
    if row == NO_ROW:
        return False
    state.flows[row].back_end = tables.back_ends[at].number
    table.touch(state, row, wanted, tick)
    return record.mapped == 0 or _pair(tables, state, record, row, at, tick, wanted)


@inline
def _refresh(tables: Any, state: State, record: Row, row: int, at: int, tick: int, wanted: int) -> bool:
    """Take over state and time of a connection that both have; return False if it has another back end here."""
    flow, word = state.flows[row], state.words[row]
    if flow.flags & REPLY or flow.back_end != tables.back_ends[at].number or (flow.pair > 0) != (record.mapped == 1):
        return False
    if (tick - word & table.TICKS) > table.TICKS >> 1:
        return True  # packets came here later
    table.touch(state, row, wanted, tick)
    if flow.pair > 0:
        table.touch(state, flow.pair - 1, wanted, tick)
        if record.key >> 24 & 0xFF == TCP:
            take_over(state, row, wanted, tick)
    return True


@inline
def _pair(tables: Any, state: State, record: Row, row: int, at: int, tick: int, wanted: int) -> bool:
    """Make the row of the replies of full NAT; without room the connection ends."""
    back_end, protocol = tables.back_ends[at], record.key >> 24 & 0xFF
    key = key_of(back_end.port << 16 | record.new_ports >> 16, protocol, record.key & VNI)
    hi, lo = record.new_source_hi, record.new_source_lo
    hashed = mixed5(back_end.hi, back_end.lo, hi, lo, key, state.counts[SEED])
    there = table.find(state, hashed, back_end.hi, back_end.lo, hi, lo, key, tables.timeouts, tick)
    made = NO_ROW
    if there == NO_ROW:
        made = table.create(state, hashed, back_end.hi, back_end.lo, hi, lo, key, tables.timeouts, tick, wanted, row)
    if made == NO_ROW:
        table.free(state, row)
        return False
    state.flows[row].pair = made + 1
    state.flows[row].flags = SEEN_REPLY if record.flags & 8 else 0
    state.flows[made].pair = row + 1
    state.flows[made].flags = REPLY
    if protocol == TCP:
        set_sides(state, row, wanted, tick)
    return True
