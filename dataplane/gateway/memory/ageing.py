"""End connections that were idle for too long, a few with each call.

A connection lives for its timeout plus one round (`rounds`) at most. Packets whose fragments did not all arrive are
removed in the same way. A round also writes a journal record for each connection that had packets since the last round.
Connections of what the tables no longer contain end at once (`sweep`).
"""

from heddle.dataplane.elements.fragments import age_fragments
from heddle.dataplane.elements.memory.rounds import SECOND_NS, rows_due
from heddle.dataplane.elements.memory.state import JOURNAL_ON, UPDATED
from heddle.dataplane.gateway.memory.connections import end_connection
from heddle.dataplane.gateway.memory.journal import note
from heddle.dataplane.gateway.memory.state import (
    AGED_ENDED,
    AGED_NEXT,
    AGED_NS,
    CLOSING,
    ESTABLISHED,
    FROM_PARTNER,
    PAIRS_USED,
    SEEN_REPLY,
    State,
)
from heddle.dataplane.gateway.memory.sweep import sweep
from heddle.dataplane.jit import Row, inline, kernel
from heddle.dataplane.packet.transport import ICMP, ICMPV6, TCP, UDP
from heddle.dataplane.tables.schema import (
    OWN_ICMP_TIMEOUT_S,
    OWN_OTHER_TIMEOUT_S,
    OWN_TCP_TIMEOUT_S,
    OWN_TCP_TRANSITORY_S,
    OWN_UDP_EXCHANGE_S,
    OWN_UDP_TIMEOUT_S,
    OWN_UDP_UNANSWERED_S,
    Tables,
)

FIRST_REGISTERED_PORT = 1024
"""RFC 4787, REQ-5 a: a NAT may end mappings towards lower ports, the well-known ones, early."""


@inline
def timeout_s(tables: Tables, key: int, flags: int) -> int:
    """Return how long a connection may be idle, by the key and the flags of its opener's row."""
    protocol = key >> 24 & 0xFF
    if protocol == TCP:
        is_open = flags & (ESTABLISHED | CLOSING) == ESTABLISHED
        return tables.own[OWN_TCP_TIMEOUT_S if is_open else OWN_TCP_TRANSITORY_S]
    if protocol == UDP:
        if flags & SEEN_REPLY == 0:
            return tables.own[OWN_UDP_UNANSWERED_S]
        is_exchange = flags & ESTABLISHED == 0 and key >> 32 & 0xFFFF < FIRST_REGISTERED_PORT
        return tables.own[OWN_UDP_EXCHANGE_S if is_exchange else OWN_UDP_TIMEOUT_S]
    if protocol in (ICMP, ICMPV6):
        return tables.own[OWN_ICMP_TIMEOUT_S]
    return tables.own[OWN_OTHER_TIMEOUT_S]


@kernel
def age(tables: Tables, state: State, now_ns: int) -> int:
    """Check the pairs that are due, between two bursts; return how many connections ended."""
    counts = state.counts
    sweep(tables, state)
    age_fragments(tables, state, now_ns)
    used, ended = counts[PAIRS_USED], 0
    for _ in range(rows_due(counts, AGED_NS, used, now_ns)):
        pair = counts[AGED_NEXT]
        counts[AGED_NEXT] = pair + 1 if pair + 1 < used else 0
        if pair < used and state.connections[2 * pair].key != 0:
            ended += _check(tables, state, 2 * pair, now_ns)
    counts[AGED_ENDED] += ended
    return ended


@inline
def _check(tables: Tables, state: State, row: int, now_ns: int) -> int:
    """Check one connection; return 1 if it ended."""
    forward, back = state.connections[row], state.connections[row + 1]
    idle_ns = now_ns - max(forward.last_seen_ns, back.last_seen_ns)
    if idle_ns > timeout_s(tables, forward.key, forward.flags) * SECOND_NS:
        end_connection(state, row)
        return 1
    if state.counts[JOURNAL_ON] and forward.flags & FROM_PARTNER == 0:
        _note_traffic(state, forward, back, row, idle_ns)
    return 0


@inline
def _note_traffic(state: State, forward: Row, back: Row, row: int, idle_ns: int) -> None:
    """Write a journal record if the connection had packets since the last round."""
    if forward.packets != forward.seen_packets or back.packets != back.seen_packets:
        forward.seen_packets = forward.packets
        back.seen_packets = back.packets
        note(state, UPDATED, row, idle_ns)
