"""Queues of the connections that may give way to others, oldest first, by endpoint and by VPC.

    closed      TCP after a RST or both FINs; other protocols after requests with one reply each, as of DNS
    half open   TCP before its handshake is complete; other protocols without a reply so far

A connection enters the end of a queue when it reaches the state, and leaves it with the state, so the oldest one has
been closed or half open the longest: its port has rested longest when it is used again (RFC 6191: the peer may be in
TIME-WAIT). Connections with NAT mappings have queues by protocol, because only those of its own protocol free a port.

The queues are lists through the rows of connections: the opener's row is linked in the queues of the endpoint that the
connection counts against, the row of the replies in those of the endpoint's VPC.
"""

from heddle.dataplane.gateway.memory.state import CLOSED, ESTABLISHED, SEEN_REPLY, State
from heddle.dataplane.jit import Grid, Row, element, inline
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.packet.transport import TCP, UDP

UNMAPPED, MAPPED_TCP, MAPPED_UDP, MAPPED_OTHER = range(4)
FAMILIES = 4
"""Numbers of a queue: 0 to 3 for closed connections by family, 4 to 7 for half-open ones."""
NO_QUEUE = -1
OPENER, REPLIER = 0, 1


@inline
def family_of_mapping(protocol: int) -> int:
    """Return the family of connections with a NAT mapping."""
    if protocol == TCP:
        return MAPPED_TCP
    return MAPPED_UDP if protocol == UDP else MAPPED_OTHER


@inline
def _queue_of(forward: Row, back: Row) -> int:
    """Return the queue for a connection's state, NO_QUEUE if it is live."""
    flags, protocol = forward.flags, forward.key >> 24 & 0xFF
    if protocol == TCP:
        is_closed = flags & CLOSED != 0
        is_live = flags & ESTABLISHED != 0 and not is_closed
    else:
        is_closed = flags & SEEN_REPLY != 0
        is_live = flags & ESTABLISHED != 0
    if is_live:
        return NO_QUEUE
    family = UNMAPPED
    if forward.mapping >= 0 or back.mapping >= 0:
        family = family_of_mapping(protocol)
    return family if is_closed else FAMILIES + family


@element
def enqueue(state: State, row: int, now_ns: int) -> None:
    """Move a connection, given by its opener's row, to the end of the queue of its state; a live one to none."""
    leave_queue(state, row)
    forward, back = state.connections[row], state.connections[row + 1]
    queue = _queue_of(forward, back)
    if queue == NO_QUEUE:
        return
    forward.queued = queue + 1
    back.queued = now_ns
    owner = state.owners[forward.owner]
    _append(state, state.endpoint_queues, forward.owner, queue, row, OPENER)
    _append(state, state.vpc_queues, owner.account, queue, row, REPLIER)


@element
def leave_queue(state: State, row: int) -> None:
    """Take a connection, given by its opener's row, out of its queue, if it is in one."""
    forward = state.connections[row]
    if forward.queued == 0:
        return
    queue, owner = forward.queued - 1, state.owners[forward.owner]
    forward.queued = 0
    _unlink(state, state.endpoint_queues, forward.owner, queue, row, OPENER)
    _unlink(state, state.vpc_queues, owner.account, queue, row, REPLIER)


@inline
def _append(state: State, queues: Grid, anchor: int, queue: int, row: int, side: int) -> None:
    name, last = (row >> 1) + 1, queues[anchor, 2 * queue + 1]
    state.connections[row + side].neighbours = last << 32
    if last == 0:
        queues[anchor, 2 * queue] = name
    else:
        _set_newer(state.connections[2 * (last - 1) + side], name)
    queues[anchor, 2 * queue + 1] = name


@inline
def _unlink(state: State, queues: Grid, anchor: int, queue: int, row: int, side: int) -> None:
    older, newer = state.connections[row + side].neighbours >> 32, state.connections[row + side].neighbours & WORD
    if older == 0:
        queues[anchor, 2 * queue] = newer
    else:
        _set_newer(state.connections[2 * (older - 1) + side], newer)
    if newer == 0:
        queues[anchor, 2 * queue + 1] = older
    else:
        after = state.connections[2 * (newer - 1) + side]
        after.neighbours = older << 32 | after.neighbours & WORD


@inline
def _set_newer(row: Row, newer: int) -> None:
    row.neighbours = row.neighbours >> 32 << 32 | newer
