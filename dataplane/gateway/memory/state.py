"""What the data process remembers between packets, as arrays: all zeros is the state of a gateway that saw nothing.

The data process alone writes it; it outlives generations of tables, and is laid out in shared memory so that others
can look. Rows are taken from stacks: those given back, then those never used, so what is not needed is never touched.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataplane.cache_lines import zeros_at_a_line
from dataplane.config.limit import MAX_VPCS
from dataplane.config.local import Limits
from dataplane.gateway.memory.buckets import index_slots
from dataplane.gateway.tables.schema import CONNECTION
from dataplane.jit import Grid, Ints, Rows


def _row(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


MAPPING = _row(
    "inside",  # IPv4 address of the endpoint
    "key",  # port or ICMP identifier << 32 | protocol << 24 | VNI; 0 for a free row
    "public",  # IPv4 address
    "public_port",
    "references",  # rows of connections whose source it translates
    "pool",
    "account",  # what it counts against (`shares`): its VPC's mappings
    "port_account",  # and its VPC's ports of the public address
)
"""A NAT mapping: an endpoint's address and port, and what they are outside, towards everyone (RFC 4787, REQ-1)."""

OWNER = _row(
    "vni",
    "hi",
    "lo",
    "connections",  # that count against this endpoint
    "account",  # its VPC's account of connections (`shares`)
)
"""An endpoint that has connections."""

POOL = _row(
    "key",  # public address << 8 | protocol
    "ports_used",
)
"""The ports of a public address, for one protocol."""

ACCOUNT = _row(
    "about",  # the table, or public address and protocol (`shares`)
    "vni",
    "count",
)
"""What a VPC uses of one table, or of the ports of one public address."""

FRAGMENT = _row(
    "source_hi",
    "source_lo",
    "target_hi",
    "target_lo",
    "identification",  # a packet's `fragment_id`
    "vni",  # + 1; 0 for a free row
    "protocol",
    "ports",
    "hash",
    "first_bytes",  # what the first one carried behind its IP header, so that none overlaps it
    "seen_ns",
    "come_bytes",  # of all parts together
    "whole_bytes",  # once the last one came, else 0
    "account",  # what it counts against (`shares`)
)
"""A packet whose first fragment was seen."""

RECORD = _row(
    "what",  # UPDATED or ENDED
    "source_hi",  # the row of who opened it
    "source_lo",
    "target_hi",
    "target_lo",
    "key",
    "new_source_hi",
    "new_source_lo",
    "new_target_hi",
    "new_target_lo",
    "new_ports",
    "out_vni",
    "flags",
    "mapped",  # bit 0: a NAT mapping translates its source; bit 1: the source of the answers
    "idle_ns",  # since its last packet: two machines' clocks have nothing in common
)
"""What a partner is told of a connection."""
UPDATED, ENDED = 1, 2

JOURNAL_ROWS = 1 << 13
BITMAP_WORDS = 1024
"""A bit for each of 65,536 ports."""
MAPPINGS_PER_POOL = 64

PAIRS_BACK, PAIRS_USED, OWNERS_BACK, OWNERS_USED, MAPPINGS_BACK, MAPPINGS_USED, POOLS_BACK, POOLS_USED = range(8)
"""Words of `counts`: rows given back, and rows ever used. What is in use is the difference."""
JOURNAL_ON, JOURNAL_HEAD, JOURNAL_TAIL, JOURNAL_LOST, RESEND_LEFT = range(8, 13)
"""A partner listens; records written, read and lost for want of room; pairs still to be told of, all anew."""
AGED_NS, AGED_NEXT, AGED_ENDED, SEED, PARTNER_REFUSED, PAIRS_HELD = range(13, 19)
"""When ageing was last at work; the pair it looks at next; connections that it ended; a secret that hashes and port
choices start from, which never changes; records of the partner that found no room or another connection in their place;
pairs that ended in this burst."""
RESEND_ALL = 19
"""1 while pairs that are the partner's are told as well: to one that has begun anew."""
ACCOUNTS_BACK, ACCOUNTS_USED, FRAGMENTS_HELD, FRAGMENTS_AGED_NS, FRAGMENTS_NEXT = range(20, 25)
"""Accounts as above; packets whose fragments are remembered; when ageing last looked at these, and at which next."""
COUNTS = 32
PUNT_DUES = 1 << 15


class State(NamedTuple):
    """All of it. Sizes are powers of two (`config.local.Limits`)."""

    connections: Rows
    """CONNECTION rows, two a connection."""
    slots: Ints
    """(`buckets`) Of the connections' rows, by `mixed5` of addresses and key."""
    pairs: Ints
    """Pairs given back; from the other end on those that ended in this burst."""
    owners: Rows
    """OWNER rows."""
    owner_index: Ints
    owners_back: Ints
    mappings: Rows
    """MAPPING rows."""
    mapping_out: Ints
    """Index by endpoint and public address."""
    mapping_in: Ints
    """Index by public address, port and protocol."""
    mappings_back: Ints
    pools: Rows
    """POOL rows."""
    pool_index: Ints
    pools_back: Ints
    port_bits: Grid
    """By pool: a bit for each port in use."""
    fragments: Rows
    """FRAGMENT rows, in buckets."""
    journal: Rows
    """RECORD rows, a ring: what is new for a partner."""
    draft: Rows
    """Two CONNECTION rows: a connection in the making."""
    counts: Ints
    punt_dues: Ints
    """Until when each account's share of the way to the slow path is used up (`punt_share`)."""
    accounts: Rows
    """ACCOUNT rows."""
    account_index: Ints
    accounts_back: Ints


def layout(limits: Limits) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each of the arrays, by name in the order of `State`."""
    word = np.dtype(np.int64)
    pools = max(limits.mappings // MAPPINGS_PER_POOL, 8)
    most = min(limits.connections, MAX_VPCS) + 2 * min(limits.mappings, 2 * MAX_VPCS)
    accounts = 1 << (most + min(limits.fragments, MAX_VPCS)).bit_length()
    return {
        "connections": ((2 * limits.connections,), CONNECTION),
        "slots": ((index_slots(2 * limits.connections),), word),
        "pairs": ((limits.connections,), word),
        "owners": ((limits.connections,), OWNER),
        "owner_index": ((index_slots(limits.connections),), word),
        "owners_back": ((limits.connections,), word),
        "mappings": ((limits.mappings,), MAPPING),
        "mapping_out": ((index_slots(limits.mappings),), word),
        "mapping_in": ((index_slots(limits.mappings),), word),
        "mappings_back": ((limits.mappings,), word),
        "pools": ((pools,), POOL),
        "pool_index": ((index_slots(pools),), word),
        "pools_back": ((pools,), word),
        "port_bits": ((pools, BITMAP_WORDS), word),
        "fragments": ((max(limits.fragments, 8),), FRAGMENT),
        "journal": ((JOURNAL_ROWS,), RECORD),
        "draft": ((2,), CONNECTION),
        "counts": ((COUNTS,), word),
        "punt_dues": ((PUNT_DUES,), word),
        "accounts": ((accounts,), ACCOUNT),
        "account_index": ((index_slots(accounts),), word),
        "accounts_back": ((accounts,), word),
    }


def state_of(arrays: Mapping[str, NDArray[Any]]) -> State:
    """Return the state in arrays as `layout` says, in shared memory for example."""
    return State(**arrays)


def empty_state(limits: Limits) -> State:
    """Return the state of a gateway that saw nothing, in memory of its own: rows and buckets are made to fit lines."""
    return state_of({name: zeros_at_a_line(shape, dtype) for name, (shape, dtype) in layout(limits).items()})
