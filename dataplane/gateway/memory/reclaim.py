"""Make room for a new connection: the oldest closed connection gives way, without one the oldest half-open one.

First those of the endpoint itself, so that its flood ends its own connections; if a share of the VPC or a whole table
is full and the endpoint has none, those of its VPC. A connection with packets since it was queued goes to the end of
its queue instead: it may be a stream in one direction. MAX_TRIES bounds the work.

`report_full` records which endpoint met a full share, for the operator.
"""

from heddle.dataplane.elements.memory.shares import CONNECTIONS, account_of
from heddle.dataplane.elements.memory.state import GAVE_WAY
from heddle.dataplane.engine.hashing import mixed3
from heddle.dataplane.gateway.memory.connections import end_as, owner_of
from heddle.dataplane.gateway.memory.queues import FAMILIES, enqueue
from heddle.dataplane.gateway.memory.state import FULL_ROWS, RECLAIMED, State
from heddle.dataplane.jit import Grid, element, inline

ANY_FAMILY = (1 << FAMILIES) - 1
"""Bit mask of families (`queues`): of all connections."""
MAX_TRIES = 4
ACTIVE_NS = 1_000_000_000
"""A connection with a packet this long after it was queued is in use: later than a last ACK, and than most round trips.
"""
QUIET_NS = 1_000_000_000
"""A FULL row that was not used for this long may be given to another endpoint."""
NONE = -1


@inline
def _oldest(state: State, queues: Grid, anchor: int, families: int) -> int:
    """Return the opener's row of the oldest closed connection of some families, else of the oldest half-open one."""
    for first in range(0, 2 * FAMILIES, FAMILIES):
        found, since_ns = NONE, 0
        for family in range(FAMILIES):
            name = queues[anchor, 2 * (first + family)]
            if name and families >> family & 1:
                row = 2 * (name - 1)
                if found == NONE or state.connections[row + 1].queued < since_ns:
                    found, since_ns = row, state.connections[row + 1].queued
        if found != NONE:
            return found
    return NONE


@element
def _reclaim(state: State, queues: Grid, anchor: int, families: int, new: int) -> bool:
    """End one connection of an endpoint or VPC; return False if none older than the `new` one may give way."""
    for _ in range(MAX_TRIES):
        row = _oldest(state, queues, anchor, families)
        if row in (NONE, new):
            return False
        forward, back = state.connections[row], state.connections[row + 1]
        seen_ns = max(forward.last_seen_ns, back.last_seen_ns)
        if seen_ns - back.queued <= ACTIVE_NS:
            end_as(state, row, GAVE_WAY)
            state.counts[RECLAIMED] += 1
            return True
        enqueue(state, row, seen_ns)
    return False


@element
def make_room(state: State, vni: int, hi: int, lo: int, families: int, may_be_anothers: bool, new: int) -> bool:
    """End one connection for a new one that counts against an endpoint; return False if none may give way.

    Args:
        state: the connections.
        vni: of the endpoint.
        hi: its address, as two words.
        lo: the second word.
        families: bit mask of the connections that free what is needed (`queues`).
        may_be_anothers: whether connections of other endpoints of the VPC free it as well.
        new: the row of the new connection if it exists already; it does not give way itself.
    """
    owner = owner_of(state, vni, hi, lo)
    if owner >= 0 and _reclaim(state, state.endpoint_queues, owner, families, new):
        return True
    if not may_be_anothers:
        return False
    account = account_of(state, CONNECTIONS, vni)
    return account >= 0 and _reclaim(state, state.vpc_queues, account, families, new)


@element
def report_full(
    state: State, reason: int, vni: int, hi: int, lo: int, gave_way: int, refused: int, now_ns: int
) -> None:
    """Count connections that gave way or were refused because a share was full; many endpoints at once: not all."""
    row = state.full[(mixed3(vni, hi, lo) + reason) & (FULL_ROWS - 1)]
    if row.reason != reason + 1 or row.vni != vni or row.hi != hi or row.lo != lo:
        if row.reason != 0 and now_ns - row.seen_ns < QUIET_NS:
            return
        row.reason = 0  # a reader ignores the row until it is complete
        row.vni = vni
        row.hi = hi
        row.lo = lo
        row.gave_way = 0
        row.refused = 0
        row.reason = reason + 1
    row.gave_way += gave_way
    row.refused += refused
    row.seen_ns = now_ns
