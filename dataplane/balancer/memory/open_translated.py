"""Open a connection of full NAT: choose an address and a port of the pool, and make its two rows.

The port is a pseudo-random one that no other connection to the same back end uses, found in at most TRIES searches
(RFC 6056, 3.3.1). A pool address thus serves 64,512 connections to each back end.
"""

from typing import Any

from heddle.dataplane.balancer.memory.connections import NO_ROW, create, find, free
from heddle.dataplane.balancer.memory.state import REPLY, State
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.flow_key import key_of
from heddle.dataplane.engine.hashing import mixed2, mixed5
from heddle.dataplane.jit import Row, element

TRIES = 32
FIRST_PORT, PORTS = 1024, 64_512


@element
def open_translated(
    packet: Row, tables: Any, state: State, service: Row, back_end: Row, key: int, tick: int, first_state: int
) -> int:
    """Make both rows of a connection; return the client's, or NO_ROW without a free port or room for a row."""
    seed = state.counts[SEED]
    for attempt in range(TRIES if service.pool_count > 0 else 0):
        chance = mixed2(packet.hash ^ seed, attempt)
        pool = service.pool + (chance & 0xFFFF) % service.pool_count
        hi, lo = tables.pools[pool, 0], tables.pools[pool, 1]
        ports = back_end.port << 16 | FIRST_PORT + (chance >> 16) % PORTS
        reply_key = key_of(ports, packet.protocol, packet.vni)
        hashed = mixed5(back_end.hi, back_end.lo, hi, lo, reply_key, seed)
        if find(state, hashed, back_end.hi, back_end.lo, hi, lo, reply_key, tables.timeouts, tick) != NO_ROW:
            continue
        there = create(
            state, packet.hash, packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key,
            tables.timeouts, tick, first_state, NO_ROW,
        )  # fmt: skip
        if there == NO_ROW:
            return NO_ROW
        back = create(
            state, hashed, back_end.hi, back_end.lo, hi, lo, reply_key, tables.timeouts, tick, first_state, there
        )
        if back == NO_ROW:
            free(state, there)
            return NO_ROW
        state.flows[there].pair = back + 1
        state.flows[there].back_end = back_end.number
        state.flows[back].pair = there + 1
        state.flows[back].back_end = packet.outer_source
        state.flows[back].flags = REPLY
        return there
    return NO_ROW
