"""NAT mappings: which endpoint uses which public port. A mapping is the same towards every remote host.

RFC 4787, and RFC 5382 and 5508 for the corresponding rules of TCP and of ICMP identifiers:

- REQ-1, endpoint-independent mapping: the key is the endpoint's address and port, for all remote hosts.
- REQ-3, no port overloading: a bitmap of ports for each public address and protocol, shared by all VPCs that use the
  address. A port of 0 to 1,023 stays in that range if the gateway's port range allows, one of 1,024 to 65,535 always.
- REQ-4, parity: the endpoint's own port if it is free, otherwise one of the same parity, otherwise any.
- REQ-2, paired pooling: a VPC has one public address.
- RFC 7857, 9: if the endpoint's own port is not available, the new port is unpredictable (RFC 6056): the search begins
  at a keyed hash whose key only this gateway knows (`state.SEED`).
- A mapping lives as long as a connection uses it (REQ-5, REQ-6: packets in either direction refresh it).

A protocol without ports has one mapping per public address, under port 0: one endpoint at a time. Of two gateways that
share the ports, the one that answers for the public addresses allocates it (`control.pair.duties`). UDP port 4791 is
never allocated: a reply to it would look like RoCEv2, which is not translated.
"""

from typing import Any

import numpy as np

from heddle.dataplane.elements.memory.buckets import ROW, SLOTS, first_slot, free_row, put, take_out, take_row
from heddle.dataplane.elements.memory.shares import ENDPOINT_PORTS, LIMITED, MAPPINGS, PORTS, charge, discharge
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.flow_key import VNI
from heddle.dataplane.engine.hashing import mixed2, mixed3
from heddle.dataplane.gateway.memory.state import BITMAP_WORDS, MAPPINGS_FREED, MAPPINGS_USED, POOLS_FREED, State
from heddle.dataplane.jit import Grid, element, inline
from heddle.dataplane.packet.transport import ICMP, TCP, UDP

NO_MAPPING, ENDPOINT_LIMITED = -1, -3
"""In place of a mapping: there is none; the endpoint has reached its share of the ports."""
ROCE_PORT = 4791
FIRST_UNPRIVILEGED = 1024
LAST_PORT = 65535
EVEN_BITS, ODD_BITS = np.uint64(0x5555_5555_5555_5555), np.uint64(0xAAAA_AAAA_AAAA_AAAA)
_0, _1 = np.uint64(0), np.uint64(1)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@inline
def has_ports(protocol: int) -> bool:
    """Whether a protocol has ports or identifiers to translate."""
    return protocol in (TCP, UDP, ICMP)


@inline
def _find_out(state: State, hashed: int, inside: int, key: int, public: int, incarnation: int) -> int:
    for bucket in range(2):
        at = first_slot(state.mapping_out, hashed, bucket)
        for slot in range(at, at + SLOTS):
            entry = state.mapping_out[slot]
            if entry == 0:
                break
            row = state.mappings[(entry & ROW) - 1]
            is_its = row.inside == inside and row.key == key and row.public == public
            if is_its and row.incarnation == incarnation:
                return (entry & ROW) - 1
    return NO_MAPPING


@element
def mapping_from(state: State, public: int, port: int, protocol: int) -> int:
    """Return the mapping of a public address and port, or NO_MAPPING."""
    hashed = mixed3(public ^ state.counts[SEED], port, protocol)
    for bucket in range(2):
        at = first_slot(state.mapping_in, hashed, bucket)
        for slot in range(at, at + SLOTS):
            entry = state.mapping_in[slot]
            if entry == 0:
                break
            row = state.mappings[(entry & ROW) - 1]
            if row.public == public and row.public_port == port and row.key >> 24 & 0xFF == protocol:
                return (entry & ROW) - 1
    return NO_MAPPING


@element
def mapping_for(
    state: State,
    inside: int,
    key: int,
    public: int,
    first: int,
    last: int,
    wanted: int,
    percent: int,
    of_ports: int,
    of_endpoint: int,
    incarnation: int,
) -> int:
    """Return the mapping of an endpoint's address and port with one more reference; create it if there is none.

    Args:
        state: the mappings.
        inside: the endpoint's IPv4 address.
        key: port or ICMP identifier << 32 | protocol << 24 | VNI.
        public: the public IPv4 address.
        first: first port of the range to allocate from; 0 for a protocol without ports.
        last: last port of the range; below `first` for none.
        wanted: the required public port (the partner allocated it), or -1.
        percent: the VPC's share of the mappings (`shares`).
        of_ports: the VPC's share of the ports of the public address.
        of_endpoint: the endpoint's share of them.
        incarnation: that of the VPC; a mapping of the VNI's former owner is another one.

    Returns:
        A row; NO_MAPPING if ports or rows are exhausted or the wanted port is in use; LIMITED if the VPC has reached
        its share; ENDPOINT_LIMITED if the endpoint has.
    """
    hashed = mixed3(inside ^ state.counts[SEED], key, public)
    found = _find_out(state, hashed, inside, key, public, incarnation)
    if found != NO_MAPPING:
        if wanted >= 0 and state.mappings[found].public_port != wanted:
            return NO_MAPPING
        state.mappings[found].references += 1
        return found
    pool, port = _pool_of(state, public << 8 | key >> 24 & 0xFF), wanted
    if pool == NO_MAPPING:
        return NO_MAPPING
    if wanted < 0:
        port = _free_port(state, pool, key >> 32, key >> 24 & 0xFF, first, last, hashed)
    elif _bit(state.port_bits, pool, wanted):
        port = NO_MAPPING
    row = NO_MAPPING
    if port >= 0:
        row = _charge(state, inside, key, pool, last - first + 1, percent, of_ports, of_endpoint)
    if row >= 0:
        state.mappings[row].incarnation = incarnation
    if row >= 0 and not _made(state, row, hashed, pool, inside, key, public, port):
        _discharge(state, row)
        free_row(state.freed_mappings, state.counts, MAPPINGS_FREED, row)
        row = NO_MAPPING
    if row < 0:
        _leave_pool(state, pool)
    return row


@inline
def _made(state: State, row: int, hashed: int, pool: int, inside: int, key: int, public: int, port: int) -> bool:
    """Fill in the row of a mapping with a port of its pool; return False without room in the indices."""
    if not _index(state, row, hashed, mixed3(public ^ state.counts[SEED], port, key >> 24 & 0xFF)):
        return False
    mapping = state.mappings[row]
    mapping.inside = inside
    mapping.key = key
    mapping.public = public
    mapping.public_port = port
    mapping.references = 1
    mapping.holders = 0
    mapping.pool = pool
    _set_bit(state.port_bits, pool, port)
    state.pools[pool].ports_used += 1
    return True


@element
def _charge(
    state: State, inside: int, key: int, pool: int, ports: int, percent: int, of_ports: int, of_endpoint: int
) -> int:
    """Take a row, and count it and its port against VPC and endpoint; return the row, or the error."""
    vni, free_ports = key & VNI, ports - state.pools[pool].ports_used
    free = state.mappings.shape[0] - state.counts[MAPPINGS_USED] + state.counts[MAPPINGS_FREED]
    account = charge(state, MAPPINGS, vni, free, percent)
    if account < 0:
        return account
    port_account = charge(state, PORTS + state.pools[pool].key, vni, free_ports, of_ports)
    if port_account < 0:
        discharge(state, account)
        return port_account
    about = ENDPOINT_PORTS + (inside << 8 | key >> 24 & 0xFF)
    endpoint_account = charge(state, about, vni, free_ports, of_endpoint)
    row = take_row(state.freed_mappings, state.counts, MAPPINGS_FREED) if endpoint_account >= 0 else NO_MAPPING
    if row < 0:
        if endpoint_account >= 0:
            discharge(state, endpoint_account)
        discharge(state, port_account)
        discharge(state, account)
        return ENDPOINT_LIMITED if endpoint_account == LIMITED else NO_MAPPING
    state.mappings[row].account = account
    state.mappings[row].port_account = port_account
    state.mappings[row].endpoint_account = endpoint_account
    return row


@element
def _discharge(state: State, row: int) -> None:
    """Count a mapping and its port no more."""
    discharge(state, state.mappings[row].account)
    discharge(state, state.mappings[row].port_account)
    discharge(state, state.mappings[row].endpoint_account)


@element
def release_mapping(state: State, row: int) -> None:
    """Release one reference; the last one ends the mapping and frees its port."""
    mapping = state.mappings[row]
    mapping.references -= 1
    if mapping.references > 0:
        return
    protocol = mapping.key >> 24 & 0xFF
    seed = state.counts[SEED]
    take_out(state.mapping_out, mixed3(mapping.inside ^ seed, mapping.key, mapping.public), row)
    take_out(state.mapping_in, mixed3(mapping.public ^ seed, mapping.public_port, protocol), row)
    _discharge(state, row)
    _clear_bit(state.port_bits, mapping.pool, mapping.public_port)
    state.pools[mapping.pool].ports_used -= 1
    _leave_pool(state, mapping.pool)
    mapping.key = 0
    free_row(state.freed_mappings, state.counts, MAPPINGS_FREED, row)


@inline
def _index(state: State, row: int, out: int, back: int) -> bool:
    if not put(state.mapping_out, out, row):
        return False
    if not put(state.mapping_in, back, row):
        take_out(state.mapping_out, out, row)
        return False
    return True


@element
def _pool_of(state: State, key: int) -> int:
    """Return the port pool of a public address and protocol, created if there is none, or NO_MAPPING."""
    hashed = mixed2(key, 0)
    for bucket in range(2):
        at = first_slot(state.pool_index, hashed, bucket)
        for slot in range(at, at + SLOTS):
            entry = state.pool_index[slot]
            if entry == 0:
                break
            if state.pools[(entry & ROW) - 1].key == key:
                return (entry & ROW) - 1
    pool = take_row(state.freed_pools, state.counts, POOLS_FREED)
    if pool == NO_MAPPING:
        return NO_MAPPING
    if not put(state.pool_index, hashed, pool):
        free_row(state.freed_pools, state.counts, POOLS_FREED, pool)
        return NO_MAPPING
    state.pools[pool].key = key
    state.pools[pool].ports_used = 0
    for word in range(BITMAP_WORDS):
        state.port_bits[pool, word] = 0
    if key & 0xFF == UDP:
        _set_bit(state.port_bits, pool, ROCE_PORT)
    return pool


@inline
def _leave_pool(state: State, pool: int) -> None:
    """Free a pool without used ports."""
    if state.pools[pool].ports_used == 0:
        take_out(state.pool_index, mixed2(state.pools[pool].key, 0), pool)
        free_row(state.freed_pools, state.counts, POOLS_FREED, pool)


@element
def _free_port(state: State, pool: int, port: int, protocol: int, first: int, last: int, start: int) -> int:
    """Return a free public port for an endpoint's port, or NO_MAPPING."""
    if not has_ports(protocol):
        return 0 if first == 0 and not _bit(state.port_bits, pool, 0) else NO_MAPPING
    if state.pools[pool].ports_used >= last - first + 1:
        return NO_MAPPING
    low, high = first, last
    if protocol != ICMP:
        if port < FIRST_UNPRIVILEGED and first < FIRST_UNPRIVILEGED:
            low, high = max(first, 1), min(last, FIRST_UNPRIVILEGED - 1)
        else:
            low = max(first, FIRST_UNPRIVILEGED)
    if high > LAST_PORT or low > high:
        return NO_MAPPING
    if low <= port <= high and not _bit(state.port_bits, pool, port):
        return port
    start = low + (mixed2(start, state.counts[SEED]) >> 8) % (high - low + 1)
    same, other = (ODD_BITS, EVEN_BITS) if port & 1 else (EVEN_BITS, ODD_BITS)
    found = _scan(state.port_bits, pool, low, high, start, same)
    if found < 0:
        found = _scan(state.port_bits, pool, low, high, start, other)
    if found < 0 and high < FIRST_UNPRIVILEGED <= last:  # a low port is better changed to a high one than refused
        start = FIRST_UNPRIVILEGED + start * 64 % (last - FIRST_UNPRIVILEGED + 1)
        found = _scan(state.port_bits, pool, FIRST_UNPRIVILEGED, last, start, same | other)
    return found


@element
def _scan(bits: Grid, pool: int, low: int, high: int, start: int, parity: Any) -> int:
    """Return the first free port from `start` on, wrapping round at the end of the range, or NO_MAPPING."""
    first_word, words = low >> 6, (high >> 6) - (low >> 6) + 1
    for step in range(words + 1):  # the word of `start` is read twice: first from `start` on, at the end as a whole
        word = first_word + ((start >> 6) - first_word + step) % words
        free = ~np.uint64(bits[pool, word]) & np.uint64(parity)
        if step == 0:
            free &= _ALL << np.uint64(start & 63)
        if word == low >> 6:
            free &= _ALL << np.uint64(low & 63)
        if word == high >> 6:
            free &= _ALL >> np.uint64(63 - (high & 63))
        if free != _0:
            return word << 6 | _lowest(free)
    return NO_MAPPING


@inline
def _lowest(word: Any) -> Any:
    """Return the number of the lowest set bit of an unsigned word."""
    left, bit = np.uint64(word), np.int64(0)
    for width in (32, 16, 8, 4, 2, 1):
        if left & ((_1 << np.uint64(width)) - _1) == _0:
            left >>= np.uint64(width)
            bit += width
    return bit


@inline
def _bit(bits: Grid, pool: int, port: int) -> bool:
    return bits[pool, port >> 6] >> (port & 63) & 1 != 0


@inline
def _set_bit(bits: Grid, pool: int, port: int) -> None:
    bits[pool, port >> 6] |= 1 << (port & 63)


@inline
def _clear_bit(bits: Grid, pool: int, port: int) -> None:
    bits[pool, port >> 6] &= ~(1 << (port & 63))
