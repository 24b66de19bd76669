"""The journal for the partner: a ring with a record for each connection that was created, changed or ended.

Changes write to the ring and `partner.collect` reads it. If it is full, the record is lost and counted, and all
connections are sent again in small steps; the partner detects a lost end by its own timeouts.
"""

import numpy as np

from heddle.dataplane.elements.memory.exchange import belong, describe
from heddle.dataplane.elements.memory.state import JOURNAL_HEAD, JOURNAL_LOST, JOURNAL_ON, JOURNAL_TAIL, RESEND_LEFT
from heddle.dataplane.elements.memory.tcp_flags import KNOWN_OPENER, KNOWN_REPLIER
from heddle.dataplane.gateway.memory.state import (
    DECIDED_AT,
    PAIRS_USED,
    RECORD_FLAGS,
    REPLY,
    SOURCE,
    TARGET,
    State,
)
from heddle.dataplane.jit import Row, element, inline


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
    describe_numbers(state.journal[place], forward, back)
    to = state.incarnations[row >> 1]
    belong(state.journal[place], to[SOURCE], to[TARGET], to[DECIDED_AT])
    state.counts[JOURNAL_HEAD] += 1


@inline
def describe_numbers(record: Row, forward: Row, back: Row) -> None:
    """Write the flags of a connection that records have, and its TCP numbers, into a record."""
    record.flags = forward.flags & RECORD_FLAGS
    record.expected_opener = forward.expected if forward.flags & KNOWN_OPENER else 0
    record.expected_replier = back.expected if forward.flags & KNOWN_REPLIER else 0
