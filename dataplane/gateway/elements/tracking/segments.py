"""TCP states of the gateway's connections: what a segment changes, by the rules of `dataplane.elements.segments`."""

from heddle.dataplane.elements.memory.state import UPDATED
from heddle.dataplane.elements.segments import begin_side, is_without_effect, judged
from heddle.dataplane.gateway.memory.journal import note
from heddle.dataplane.gateway.memory.queues import enqueue
from heddle.dataplane.gateway.memory.state import CLOSED, ESTABLISHED, RECORD_FLAGS, REPLY, SEEN_REPLY, State
from heddle.dataplane.jit import Bytes, Row, element


@element
def begin(memory: Bytes, packet: Row, state: State, row: int) -> None:
    """Record the number of the SYN that opens a connection, given by its opener's row."""
    begin_side(memory, packet, state.connections[row], state.connections[row + 1])


@element
def follow(memory: Bytes, packet: Row, state: State, row: int, now_ns: int) -> None:
    """Update the state of a connection by a segment that `take` does not take.

    It keeps the connection, unless it is a SYN, FIN or RST that changes nothing.
    """
    connection = state.connections[row]
    flags, seen_ns = connection.flags, connection.last_seen_ns
    connection.last_seen_ns = now_ns
    found = judged(memory, packet, connection, state.connections[row ^ 1])
    if found != flags:
        change(state, row, found)
    if is_without_effect(memory, packet, flags, found):
        connection.last_seen_ns = seen_ns


@element
def change(state: State, row: int, found: int) -> None:
    """Set the flags of both directions to those found, in which REPLY is that of the given row."""
    connection, other = state.connections[row], state.connections[row ^ 1]
    added = found & ~connection.flags
    is_recorded = (found ^ connection.flags) & RECORD_FLAGS != 0
    connection.flags = found
    other.flags = found ^ REPLY
    if added & (SEEN_REPLY | ESTABLISHED | CLOSED):
        enqueue(state, row & ~1, connection.last_seen_ns)
    if is_recorded:
        note(state, UPDATED, row, 0)
