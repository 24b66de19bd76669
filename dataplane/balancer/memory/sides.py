"""TCP states and sequence numbers of connections of full NAT, a row for each direction: what `elements.segments` keeps.

The state in a connection's word follows from the flags. A partner's record has no more than that state, so of a
connection that was copied the numbers are secret until they are known.
"""

from heddle.dataplane.balancer.memory import connections as table
from heddle.dataplane.balancer.memory.state import State
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.elements.memory.tcp_flags import CLOSED, CLOSING, ESTABLISHED, REPLY, SEEN_REPLY
from heddle.dataplane.engine.hashing import mixed3
from heddle.dataplane.jit import element, inline
from heddle.dataplane.tables.lookup import place


@inline
def state_of(flags: int) -> int:
    """Return the state of a connection with these flags."""
    if flags & CLOSING:
        return table.CLOSING
    return table.ESTABLISHED if flags & ESTABLISHED else table.HALF_OPEN


@element
def set_sides(state: State, row: int, wanted: int, tick: int) -> None:
    """Begin a connection in a state, given by the client's row: nothing is known of its numbers."""
    flags, pair, seed = 0, state.flows[row].pair - 1, state.counts[SEED]
    if wanted != table.HALF_OPEN:
        flags = SEEN_REPLY | ESTABLISHED | (CLOSING if wanted == table.CLOSING else 0)
    for at in (row, pair):
        side = state.sides[at]
        side.expected = mixed3(seed, at, tick)
        side.beyond = side.expected
        side.flags = flags if at == row else flags | REPLY


@element
def take_over(state: State, row: int, wanted: int, tick: int) -> None:
    """Take over the state in a partner's record of a connection that both have."""
    if wanted == table.CLOSING:
        state.sides[row].flags |= CLOSING
        state.sides[state.flows[row].pair - 1].flags |= CLOSING
    elif state_of(state.sides[row].flags) != wanted:
        set_sides(state, row, wanted, tick)


@inline
def is_closed(state: State, row: int) -> bool:
    """Whether a SYN opens a new connection: with direct return after any FIN or RST, which have no numbers there."""
    if table.state_of_word(state.words[place(row)]) != table.CLOSING:
        return False
    return state.flows[place(row)].pair == 0 or state.sides[place(row)].flags & CLOSED != 0
