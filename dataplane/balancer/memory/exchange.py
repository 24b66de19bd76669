"""The data process's end of the exchange of records with the partner; words and rings are the gateways'."""

from typing import Any

from heddle.dataplane.balancer.memory.partner import apply_records, collect, start_journal, stop_journal
from heddle.dataplane.gateway.memory.exchange import (
    BEGUN,
    IN_READ,
    IN_WRITTEN,
    LEFT,
    LOST,
    MAX_PER_CALL,
    OUT_READ,
    OUT_WRITTEN,
    REFUSED,
    WANTED,
    Exchange,
)
from heddle.dataplane.gateway.memory.state import JOURNAL_HEAD, JOURNAL_LOST, JOURNAL_ON, JOURNAL_TAIL, RESEND_LEFT
from heddle.dataplane.jit import kernel
from heddle.dataplane.packet.memory import acquire64, native64, release64


@kernel
def exchange(tables: Any, state: Any, between: Exchange, now_ns: int) -> None:
    """Write new records for the partner, and apply the partner's records."""
    words, counts = between.words, state.counts
    wanted = acquire64(words, WANTED)
    if wanted != native64(words, BEGUN):
        if wanted > 0:
            start_journal(state)
        else:
            stop_journal(state)
        release64(words, BEGUN, wanted)
    if counts[JOURNAL_ON] != 0:
        written, size = native64(words, OUT_WRITTEN), between.out.shape[0]
        at = written & (size - 1)
        room = min(size - (written - acquire64(words, OUT_READ)), size - at, MAX_PER_CALL)
        if room > 0:
            written += collect(tables, state, between.out[at : at + room], now_ns)
            release64(words, OUT_WRITTEN, written)
        release64(words, LOST, counts[JOURNAL_LOST])
        # Last, so that a reader that finds 0 here also finds all records before OUT_WRITTEN.
        release64(words, LEFT, counts[RESEND_LEFT] + counts[JOURNAL_HEAD] - counts[JOURNAL_TAIL])
    written, read = acquire64(words, IN_WRITTEN), native64(words, IN_READ)
    if written != read:
        size = between.into.shape[0]
        at = read & (size - 1)
        count = min(written - read, size - at, MAX_PER_CALL)
        refused = apply_records(tables, state, between.into[at : at + count], count, now_ns)
        release64(words, REFUSED, native64(words, REFUSED) + refused)
        release64(words, IN_READ, read + count)
