"""Create the connection of a draft, if need be in place of older ones.

Without room (a full share, or a full table) older connections give way (`memory.reclaim`), MAX_ATTEMPTS - 1 of them at
most; only then the connection is refused.
"""

from heddle.dataplane.engine.burst import BURST
from heddle.dataplane.engine.flow_key import VNI, key_of
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.elements.admission.decide import ACCEPTED, decide, release_mappings
from heddle.dataplane.gateway.elements.admission.hairpin import is_hairpin, knock
from heddle.dataplane.gateway.memory.connections import (
    CONFLICT,
    ENDPOINT_FULL,
    LIMITED,
    NO_ROW,
    connect,
    end_connection,
    free_pairs,
)
from heddle.dataplane.gateway.memory.mappings import release_mapping
from heddle.dataplane.gateway.memory.queues import family_of_mapping
from heddle.dataplane.gateway.memory.reclaim import ANY_FAMILY, make_room, report_full
from heddle.dataplane.gateway.memory.state import State
from heddle.dataplane.jit import Row, element, inline
from heddle.dataplane.tables.schema import OUTSIDE, OWN_PER_ENDPOINT, OWN_VPC_PERCENT, Tables

MAX_ATTEMPTS = 3


@inline
def write_key(packet: Row, state: State) -> None:
    """Write the key of a packet into the draft."""
    forward = state.draft[0]
    forward.source_hi = packet.source_hi
    forward.source_lo = packet.source_lo
    forward.target_hi = packet.target_hi
    forward.target_lo = packet.target_lo
    forward.key = key_of(packet.ports, packet.protocol, packet.vni)


@inline
def _reason_of(row: int) -> int:
    """Return the drop reason in place of a connection."""
    return Drop.CONNECTIONS_LIMITED.value if row == LIMITED else Drop.CONNECTIONS_FULL.value


@element
def _decide_and_connect(tables: Tables, state: State) -> int:
    """Return ACCEPTED with the row of the connection in `pair` of the draft's second row, or a verdict."""
    verdict, now_ns = decide(tables, state, False), state.draft[0].last_seen_ns
    if verdict == Drop.DENIED_IN.value and is_hairpin(state):
        verdict = knock(tables, state, now_ns)
    if verdict != ACCEPTED:
        return verdict
    row = connect(state, tables.own[OWN_PER_ENDPOINT], tables.own[OWN_VPC_PERCENT], now_ns)
    state.draft[1].pair = row
    if row >= 0:
        return ACCEPTED
    release_mappings(state)
    return _reason_of(row)


@element
def _make_room(state: State, verdict: int, row: int, now_ns: int) -> bool:
    """End an older connection for the draft, which got `row` or has no room; return False if none may give way."""
    forward, families, may_be_anothers = state.draft[0], ANY_FAMILY, True
    if verdict == Drop.CONNECTIONS_FULL.value:
        if row == CONFLICT:
            return False
        may_be_anothers = row != ENDPOINT_FULL
    elif verdict != Drop.CONNECTIONS_LIMITED.value:
        families = 1 << family_of_mapping(forward.key >> 24 & 0xFF)
        may_be_anothers = verdict != Drop.ENDPOINT_PORTS_LIMITED.value
    vni, hi, lo = forward.key & VNI, forward.source_hi, forward.source_lo
    if vni == OUTSIDE:
        vni, hi, lo = forward.out_vni, forward.new_target_hi, forward.new_target_lo
    made = make_room(state, vni, hi, lo, families, may_be_anothers, row)
    report_full(state, verdict, vni, hi, lo, 1 if made else 0, 0 if made else 1, now_ns)
    return made


@inline
def lacks_room(verdict: int) -> bool:
    """Whether a verdict is one that an older connection in place of the new one may change."""
    return (
        verdict == Drop.CONNECTIONS_FULL.value
        or verdict == Drop.CONNECTIONS_LIMITED.value
        or verdict == Drop.PORTS_EXHAUSTED.value
        or verdict == Drop.PORTS_LIMITED.value
        or verdict == Drop.ENDPOINT_PORTS_LIMITED.value
    )


@element
def connect_draft(tables: Tables, state: State, now_ns: int) -> int:
    """Create the connection of the draft's key, if need be in place of older ones; return ACCEPTED or a verdict.

    The rows of connections that end are free from the next burst on: some are freed in advance of a full table.
    """
    state.draft[0].last_seen_ns = now_ns
    state.draft[1].pair = NO_ROW
    verdict = _decide_and_connect(tables, state)
    for _ in range(MAX_ATTEMPTS - 1):
        if not lacks_room(verdict) or not _make_room(state, verdict, state.draft[1].pair, now_ns):
            break
        verdict = _decide_and_connect(tables, state)
    if verdict == ACCEPTED and free_pairs(state) < min(BURST, state.pairs.shape[0] >> 4):
        _make_room(state, Drop.CONNECTIONS_FULL.value, state.draft[1].pair, now_ns)
    return verdict


@element
def reconnect_draft(tables: Tables, state: State, row: int, now_ns: int) -> int:
    """End a connection, and create the one of the draft's key with the same mapping; return ACCEPTED or a verdict."""
    mapping = state.connections[row].mapping
    if mapping >= 0:
        state.mappings[mapping].references += 1
    end_connection(state, row)
    verdict = connect_draft(tables, state, now_ns)
    if mapping >= 0:
        release_mapping(state, mapping)
    return verdict
