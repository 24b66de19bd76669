"""The data process's state between packets: what every program has, and the balancer's connections.

All zeros is the initial state.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.dataplane.cache_lines import zeros_at_a_line
from heddle.dataplane.config.limit import MAX_BACK_ENDS
from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory import state as shared
from heddle.dataplane.elements.memory import tcp_flags
from heddle.dataplane.jit import Ints, Rows, row_type

SLOTS_PER_CONNECTION = 2
"""A direct connection has one row, a translated one two."""
FLOW = row_type(
    "source_hi",  # the packet as it arrives in this direction
    "source_lo",
    "target_hi",
    "target_lo",
    "key",  # ports << 32 | protocol << 24 | VNI
    "back_end",  # its number; of a reply row: the VTEP of the client's gateway, 0 for a client of the VPC
    "pair",  # row of the other direction + 1, 0 for none
    "flags",
)
"""One direction of a connection: one cache line."""
REPLY, SEEN_ANSWER, SEEN_REPLY = tcp_flags.REPLY, 1 << 1, tcp_flags.SEEN_REPLY
"""Flags: the direction of the replies; the back end has sent data or its end, of TCP; it has replied."""
SIDE = row_type(
    "expected",  # next sequence number << 32 | last acknowledgement of this side (`elements.segments`)
    "beyond",  # start << 32 | end of what came behind a gap
    "flags",  # `tcp_flags`
    "spare",  # half a cache line
)
"""One direction of a TCP connection of full NAT, by its row of `flows`; untouched with direct return."""


class Count(IntEnum):
    """Indices into `counters`: counters, and the positions and times of the sweep and of renewal."""

    NEW = 0
    REFUSED = 1
    """Connections refused by a reset or an ICMP error: no back end is up, or no such port."""
    UNTRACKED = 2
    """Packets forwarded by their hash alone: all slots for them hold established connections."""
    DISPLACED = 3
    """Half-open or closing connections that gave way to newer ones."""
    MOVED = 4
    """Connections given another back end, because theirs is gone or, of datagrams, down."""
    EXPIRED = 5
    ECHOED = 6
    SWEPT = 7
    """The row at which the next sweep begins."""
    SWEPT_NS = 8
    RENEWED_NS = 9
    RENEWING = 10
    """When connections were last sent to the partner again; 1 while those with packets are."""
    STATES = 16
    """From here on: connection rows by state."""
    OPENED = 32
    """From here on, by row of a back end: connections of TCP by full NAT that were opened."""
    ANSWERED = OPENED + MAX_BACK_ENDS
    """The same: those that got data or a FIN of the back end."""


COUNTERS = Count.ANSWERED + MAX_BACK_ENDS


class State(NamedTuple):
    """All state arrays; the first ones are those of every program (`elements.memory.state`)."""

    fragments: Rows
    journal: Rows
    counts: Ints
    punt_dues: Ints
    accounts: Rows
    account_index: Ints
    freed_accounts: Ints
    words: Ints
    """By row, `tag << 32 | state << 29 | tick`, 0 for a free row; eight make a bucket."""
    flows: Rows
    """FLOW rows."""
    sides: Rows
    """SIDE rows."""
    counters: Ints
    """By `Count`."""


def layout(limits: Limits) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each array, by name."""
    rows, word = max(limits.connections * SLOTS_PER_CONNECTION, 16), np.dtype(np.int64)
    return {
        **shared.layout(limits.fragments, 0),
        "words": ((rows,), word),
        "flows": ((rows,), FLOW),
        "sides": ((rows,), SIDE),
        "counters": ((COUNTERS,), word),
    }


def state_of(arrays: Mapping[str, NDArray[Any]]) -> State:
    """Return the state in given arrays, for example in shared memory."""
    return State(**arrays)


def empty_state(limits: Limits) -> State:
    """Return the initial state in the process's own memory; rows and buckets are aligned to cache lines."""
    return state_of({name: zeros_at_a_line(shape, dtype) for name, (shape, dtype) in layout(limits).items()})
