"""TCP states of connections of full NAT: what a segment changes, by the rules of `dataplane.elements.segments`.

With direct return the balancer does not see the replies, so it keeps no sequence numbers.
"""

from typing import Any

from heddle.dataplane.balancer.memory import connections as table
from heddle.dataplane.balancer.memory.partner import note
from heddle.dataplane.balancer.memory.sides import set_sides, state_of
from heddle.dataplane.balancer.memory.state import REPLY, State
from heddle.dataplane.elements.segments import begin_side, is_without_effect, judged, take
from heddle.dataplane.engine.burst import LATER_FRAGMENT
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.tables.lookup import place


@element
def begin(memory: Bytes, packet: Row, state: State, row: int, tick: int) -> None:
    """Record the number of the SYN that opens a connection, given by the client's row."""
    set_sides(state, row, table.HALF_OPEN, tick)
    begin_side(memory, packet, state.sides[row], state.sides[state.flows[row].pair - 1])


@inline
def follow_segment(memory: Bytes, packet: Row, tables: Any, state: State, row: int, tick: int) -> None:
    """Follow the state of a connection by a segment of either side."""
    side = state.sides[place(row)]
    if packet.fragment == LATER_FRAGMENT or take(memory, packet, side, side.flags):
        touch_both(state, row, table.state_of_word(state.words[place(row)]), tick)
    else:
        _judge(memory, packet, tables, state, row, tick)


@inline
def touch_both(state: State, row: int, after: int, tick: int) -> None:
    """Record a packet of a connection of full NAT, given by either row."""
    table.touch(state, row, after, tick)
    table.touch(state, state.flows[place(row)].pair - 1, after, tick)


@element
def _judge(memory: Bytes, packet: Row, tables: Any, state: State, row: int, tick: int) -> None:
    """Follow the state by a segment that `take` does not take. One that changes nothing does not keep it either."""
    pair = state.flows[row].pair - 1
    side, other = state.sides[row], state.sides[pair]
    flags, before = side.flags, table.state_of_word(state.words[row])
    found = judged(memory, packet, side, other)
    side.flags = found
    other.flags = found ^ REPLY
    if is_without_effect(memory, packet, flags, found):
        return
    after = state_of(found)
    touch_both(state, row, after, tick)
    if after not in (before, table.HALF_OPEN):
        note(tables, state, pair if found & REPLY else row, tick)
