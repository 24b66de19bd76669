"""The data process's end of the exchange of records with the partner."""

from heddle.dataplane.elements.memory.exchange import (
    BEGUN,
    WANTED,
    Exchange,
    free_rows,
    mark_read,
    publish,
    unread_rows,
)
from heddle.dataplane.elements.memory.state import JOURNAL_ON
from heddle.dataplane.gateway.memory.partner import apply_records, collect, start_journal, stop_journal
from heddle.dataplane.gateway.memory.state import State
from heddle.dataplane.jit import kernel
from heddle.dataplane.packet.memory import acquire64, native64, release64
from heddle.dataplane.tables.schema import Tables


@kernel
def exchange(tables: Tables, state: State, between: Exchange, now_ns: int) -> None:
    """Write new records for the partner, and apply the partner's records."""
    wanted = acquire64(between.words, WANTED)
    if wanted != native64(between.words, BEGUN):
        if wanted > 0:
            start_journal(state)
        else:
            stop_journal(state)
        release64(between.words, BEGUN, wanted)
    if state.counts[JOURNAL_ON] != 0:
        first, end = free_rows(between)
        publish(between, collect(state, between.out[first:end], now_ns) if end > first else 0, state.counts)
    first, end = unread_rows(between)
    if end > first:
        count = end - first
        mark_read(between, count, apply_records(tables, state, between.into[first:end], count, now_ns))
