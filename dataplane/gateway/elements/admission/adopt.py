"""TCP segments of connections that the gateway does not know, say after a restart of the data process.

For ADOPTION_NS after the start, a connection without a NAT mapping is adopted, in the direction in which the rules
allow it: replies are adopted as well, because their sender may be the only one with something to send. Not later, and
not of what was made since: the rules of a target would not keep segments without SYN away, and a connection of the
former owner of its addresses is none of its own. If a connection needs a mapping, which is lost, or is by a floating IP
and can not be adopted, the sender gets a RST from the slow path (RFC 9293, 3.10.7.1), at any time.
"""

from heddle.dataplane.engine.burst import LATER_FRAGMENT
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.admission.connecting import lacks_room, write_key
from heddle.dataplane.gateway.elements.admission.decide import ACCEPTED, decide, release_mappings
from heddle.dataplane.gateway.elements.tracking.track import PROVIDER_SIDE
from heddle.dataplane.gateway.memory.connections import NO_ROW, complete_draft, connect
from heddle.dataplane.gateway.memory.incarnations import is_as_old_as_start
from heddle.dataplane.gateway.memory.state import FLOATING, STARTED_NS, State
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.memory import WORD
from heddle.dataplane.packet.transport import ACK, FLAGS_AT, RST, SYN
from heddle.dataplane.tables.lookup import row1
from heddle.dataplane.tables.schema import OUTSIDE, OWN_PER_ENDPOINT, OWN_VPC_PERCENT, PORT_SIDE, Tables

RESET = -4
"""A verdict besides those of `decide` and the reasons of `Drop`: reply to the sender by a RST."""
ADOPTION_NS = 300_000_000_000
"""Two of Linux's longest retransmission intervals (TCP_RTO_MAX of 120 s), and some."""


@element
def adopt(packet: Row, memory: Bytes, tables: Tables, state: State, now_ns: int) -> int:
    """Continue the TCP connection of a packet that does not open one; return ACCEPTED, RESET or a drop reason."""
    flags = memory[packet.l4 + FLAGS_AT]
    is_providers = packet.vni == OUTSIDE and tables.ports[packet.in_port, PORT_SIDE] == PROVIDER_SIDE
    if packet.fragment == LATER_FRAGMENT or flags & (SYN | ACK | RST) != ACK or is_providers:
        return Drop.NO_STATE.value
    write_key(packet, state)
    verdict = decide(tables, state, False)
    if verdict == ACCEPTED and _takes_mapping(state):
        release_mappings(state)
        return RESET
    if lacks_room(verdict) or (verdict == Drop.NO_MAPPING.value and _is_to_nat_address(packet, tables)):
        return RESET
    if now_ns - state.counts[STARTED_NS] > ADOPTION_NS or not is_as_old_as_start(tables, state):
        return RESET if verdict == ACCEPTED and state.draft[0].flags & FLOATING else Drop.NO_STATE.value
    row = NO_ROW
    if verdict == ACCEPTED:
        row = connect(state, tables.own[OWN_PER_ENDPOINT], tables.own[OWN_VPC_PERCENT], now_ns)
    elif verdict == Drop.DENIED_IN.value or verdict == Drop.DENIED_OUT.value:
        row = _adopt_reply(packet, tables, state, now_ns)
    if row < 0:
        return Drop.NO_STATE.value
    packet.connection = row
    return ACCEPTED


@inline
def _adopt_reply(packet: Row, tables: Tables, state: State, now_ns: int) -> int:
    """Create the connection that a denied packet may be a reply of; return the row of the replies, or NO_ROW.

    The draft holds the denied decision. Its reply key is the packet that the opener would have sent.
    """
    forward, back = state.draft[0], state.draft[1]
    complete_draft(state)
    forward.source_hi = back.source_hi
    forward.source_lo = back.source_lo
    forward.target_hi = back.target_hi
    forward.target_lo = back.target_lo
    forward.key = back.key
    if decide(tables, state, False) != ACCEPTED:
        return NO_ROW
    if _takes_mapping(state):
        release_mappings(state)
        return NO_ROW
    complete_draft(state)
    if (
        not is_as_old_as_start(tables, state)
        or back.key != key_of(packet.ports, packet.protocol, packet.vni)
        or back.source_hi != packet.source_hi
        or back.source_lo != packet.source_lo
        or back.target_hi != packet.target_hi
        or back.target_lo != packet.target_lo
    ):
        return NO_ROW
    row = connect(state, tables.own[OWN_PER_ENDPOINT], tables.own[OWN_VPC_PERCENT], now_ns)
    return row + 1 if row >= 0 else NO_ROW


@inline
def _takes_mapping(state: State) -> bool:
    """Whether an accepted draft holds NAT mappings."""
    return state.draft[0].mapping >= 0 or state.draft[1].mapping >= 0


@inline
def _is_to_nat_address(packet: Row, tables: Tables) -> bool:
    return packet.vni == OUTSIDE and row1(tables.nat_in, packet.target_lo & WORD) >= 0
