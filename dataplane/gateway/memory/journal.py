"""The journal for the partner: a ring with a record for each connection that was created, changed or ended.

Changes write to the ring and `partner.collect` reads it. If it is full, the record is lost and counted, and all
connections are sent again in small steps; the partner detects a lost end by its own timeouts.
"""

from typing import Any

import numpy as np

from heddle.dataplane.gateway.memory.state import (
    JOURNAL_HEAD,
    JOURNAL_LOST,
    JOURNAL_ON,
    JOURNAL_TAIL,
    PAIRS_USED,
    RESEND_LEFT,
    State,
)
from heddle.dataplane.jit import Row, element, inline
from heddle.dataplane.tables.schema import REPLY

__all__ = ["describe", "note"]


@inline
def describe(record: Row, what: int, forward: Row, mapped: Any, idle_ns: int) -> None:
    """Write the state of a connection into a record."""
    record.what = what
    record.source_hi = forward.source_hi
    record.source_lo = forward.source_lo
    record.target_hi = forward.target_hi
    record.target_lo = forward.target_lo
    record.key = forward.key
    record.new_source_hi = forward.new_source_hi
    record.new_source_lo = forward.new_source_lo
    record.new_target_hi = forward.new_target_hi
    record.new_target_lo = forward.new_target_lo
    record.new_ports = forward.new_ports
    record.out_vni = forward.out_vni
    record.flags = forward.flags
    record.mapped = mapped
    record.idle_ns = idle_ns


@element
def note(state: State, what: int, row: int, idle_ns: int) -> None:
    """Append a record about the connection of a row."""
    if state.counts[JOURNAL_ON] == 0:
        return
    if state.counts[JOURNAL_HEAD] - state.counts[JOURNAL_TAIL] >= state.journal.shape[0]:
        state.counts[JOURNAL_LOST] += 1
        state.counts[RESEND_LEFT] = state.counts[PAIRS_USED]
        return
    forward = state.connections[row]
    if forward.flags & REPLY:
        forward = state.connections[forward.pair]
    back = state.connections[forward.pair]
    mapped = np.int64(forward.mapping >= 0) | np.int64(back.mapping >= 0) << 1
    place = state.counts[JOURNAL_HEAD] & (state.journal.shape[0] - 1)
    describe(state.journal[place], what, forward, mapped, idle_ns)
    state.counts[JOURNAL_HEAD] += 1
