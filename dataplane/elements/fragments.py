"""Fragments: the first fragment of a packet carries the ports, and later fragments take them from it.

The first fragment is stored under VPC, addresses, identification and protocol, for the timeout in `Tables.own`. A
later fragment gets its ports, protocol and hash from there, and then finds the same connection. A later fragment that
arrives before the first is dropped: no fragment is held back, so no buffer can be exhausted. A later fragment that
overlaps the first could change the ports that the rules matched, and is dropped (RFC 3128; RFC 5722).

Identifications are used again, at 4,000 packets/s after 16 s, and a packet may have lost fragments. A first fragment
therefore begins a new packet, whatever its row counted before, and only one that came completely frees its row before
the timeout: `covered` knows fragments by their place, because a duplicate is not the fragment that is missing.

Rows lie in buckets of eight, two buckets for each key. A row is free again when all bytes of the packet have arrived,
or when it times out. If all 16 rows are in use, or if the VPC has reached its share of all rows (`shares`), the packet
is dropped and counted: packets in progress keep their rows.
"""

from heddle.dataplane.elements.memory.buckets import SLOTS
from heddle.dataplane.elements.memory.rounds import SECOND_NS, rows_due
from heddle.dataplane.elements.memory.shares import FRAGMENTS, LIMITED, charge, discharge
from heddle.dataplane.elements.memory.state import (
    FOLLOWED_NS,
    FRAGMENTS_AGED_NS,
    FRAGMENTS_HELD,
    FRAGMENTS_NEXT,
    SEED,
    Memory,
)
from heddle.dataplane.engine.burst import FIRST_FRAGMENT
from heddle.dataplane.engine.hashing import mixed, mixed5
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.ipv4 import MORE_FRAGMENTS
from heddle.dataplane.packet.memory import load16
from heddle.dataplane.tables.schema import OWN_FRAGMENT_TIMEOUT_S, OWN_VPC_PERCENT, Tables

NONE = -1
IPV4_OFFSET, IPV6_OFFSET = 0x1FFF, 0xFFF8
FOLLOWED = -1


@inline
def _offset_of(memory: Bytes, packet: Row) -> int:
    """Return the byte offset of a later fragment; the IPv6 fragment header lies in front of `l4`."""
    if packet.family == 4:
        return (load16(memory, packet.l3 + 6) & IPV4_OFFSET) * 8
    return load16(memory, packet.l4 - 6) & IPV6_OFFSET


@inline
def _vpc_of(packet: Row, tables: Tables) -> int:
    """Return the incarnation of a packet's VPC, 0 for none."""
    return 0 if packet.vpc < 0 else tables.vpc_incarnations[packet.vpc]


@inline
def _between(start: int, end: int) -> int:
    """Return what a fragment contributes to `covered`; that of adjacent ones is that of both as one."""
    return mixed(start) ^ mixed(end)


@inline
def _is_of(row: Row, packet: Row, vpc: int) -> bool:
    return (
        row.vni == packet.vni + 1
        and row.incarnation == vpc
        and row.identification == packet.fragment_id
        and row.source_lo == packet.source_lo
        and row.target_lo == packet.target_lo
        and row.source_hi == packet.source_hi
        and row.target_hi == packet.target_hi
    )


@inline
def _find(state: Memory, packet: Row, vpc: int, oldest_ns: int, wants_free: bool) -> int:
    """Return the row of a packet's first fragment, or NONE.

    If there is none and `wants_free` is set, return a free row of the emptier bucket.
    """
    tail = packet.fragment_id ^ packet.vni << 40
    seed = state.counts[SEED]
    hashed = mixed5(packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, tail, seed)
    buckets = state.fragments.shape[0] // SLOTS
    free, max_room = NONE, 0
    for bucket in range(2):
        at = (hashed >> (bucket * 24) & (buckets - 1)) * SLOTS
        room = 0
        for slot in range(at, at + SLOTS):
            row = state.fragments[slot]
            if row.vni == 0 or row.seen_ns < oldest_ns:
                room += 1
                if room > max_room:
                    free, max_room = slot, room
            elif _is_of(row, packet, vpc):
                return slot
    return free if wants_free else NONE


@element
def follow(memory: Bytes, packet: Row, tables: Tables, state: Memory, now_ns: int) -> int:
    """Store a first fragment, or fill in a later one from its first; return FOLLOWED or the drop reason."""
    oldest_ns = now_ns - tables.own[OWN_FRAGMENT_TIMEOUT_S] * SECOND_NS
    is_first = packet.fragment == FIRST_FRAGMENT
    vpc = _vpc_of(packet, tables)
    slot = _find(state, packet, vpc, oldest_ns, is_first)
    if slot == NONE:
        return Drop.FRAGMENTS_FULL.value if is_first else Drop.FRAGMENT_WITHOUT_FIRST.value
    row = state.fragments[slot]
    if is_first:
        reason = _take(packet, tables, state, row, oldest_ns)
        if reason != FOLLOWED:
            return reason
        row.source_hi = packet.source_hi
        row.source_lo = packet.source_lo
        row.target_hi = packet.target_hi
        row.target_lo = packet.target_lo
        row.identification = packet.fragment_id
        row.vni = packet.vni + 1
        row.incarnation = vpc
        row.protocol = packet.protocol
        row.ports = packet.ports
        row.hash = packet.hash
        row.first_bytes = packet.l4_bytes
        row.covered = _between(0, packet.l4_bytes)
        row.whole_bytes = 0
        row.seen_ns = now_ns
        return FOLLOWED
    start = _offset_of(memory, packet)
    if start < row.first_bytes:
        return Drop.BAD_FRAGMENT.value
    packet.protocol = row.protocol
    packet.ports = row.ports
    packet.hash = row.hash
    state.counts[FOLLOWED_NS] = row.seen_ns
    end = start + packet.l4_bytes
    row.covered ^= _between(start, end)
    if not _has_more(memory, packet):
        row.whole_bytes = end
    if row.whole_bytes > 0 and row.covered == _between(0, row.whole_bytes):
        remove_fragment(state, slot)
    return FOLLOWED


@inline
def _take(packet: Row, tables: Tables, state: Memory, row: Row, oldest_ns: int) -> int:
    """Assign a row to the packet, unless it has it already, and count it; return FOLLOWED or the drop reason."""
    if row.vni != 0 and row.seen_ns >= oldest_ns:
        return FOLLOWED
    if row.vni != 0:
        discharge(state, row.account)
        state.counts[FRAGMENTS_HELD] -= 1
        row.vni = 0
    free = state.fragments.shape[0] - state.counts[FRAGMENTS_HELD]
    account = charge(state, FRAGMENTS, packet.vni, free, tables.own[OWN_VPC_PERCENT])
    if account < 0:
        return Drop.FRAGMENTS_LIMITED.value if account == LIMITED else Drop.FRAGMENTS_FULL.value
    row.account = account
    state.counts[FRAGMENTS_HELD] += 1
    return FOLLOWED


@inline
def _has_more(memory: Bytes, packet: Row) -> bool:
    """Whether a later fragment is not the last one."""
    if packet.family == 4:
        return load16(memory, packet.l3 + 6) & MORE_FRAGMENTS != 0
    return load16(memory, packet.l4 - 6) & 1 != 0


@inline
def remove_fragment(state: Memory, slot: int) -> None:
    """Free a row."""
    discharge(state, state.fragments[slot].account)
    state.fragments[slot].vni = 0
    state.counts[FRAGMENTS_HELD] -= 1


@element
def age_fragments(tables: Tables, state: Memory, now_ns: int) -> None:
    """Remove packets whose fragments did not all arrive in time, so that they stop counting against their VPC."""
    counts, size = state.counts, state.fragments.shape[0]
    oldest_ns = now_ns - tables.own[OWN_FRAGMENT_TIMEOUT_S] * SECOND_NS
    for _ in range(rows_due(counts, FRAGMENTS_AGED_NS, size if counts[FRAGMENTS_HELD] != 0 else 0, now_ns)):
        slot = counts[FRAGMENTS_NEXT]
        counts[FRAGMENTS_NEXT] = slot + 1 if slot + 1 < size else 0
        if state.fragments[slot].vni != 0 and state.fragments[slot].seen_ns < oldest_ns:
            remove_fragment(state, slot)
