"""The data process's state between packets, as arrays; all zeros is the initial state.

Only the data process writes it. It outlives the generations of tables, and lies in shared memory, where other
processes can read it. Rows are allocated from stacks: freed rows first, then rows never used, so that unused memory is
never touched.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.dataplane.cache_lines import zeros_at_a_line
from heddle.dataplane.config.limit import MAX_VPCS
from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.buckets import index_slots
from heddle.dataplane.jit import Grid, Ints, Rows
from heddle.dataplane.tables.schema import CONNECTION


def _row(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


MAPPING = _row(
    "inside",  # IPv4 address of the endpoint
    "key",  # port or ICMP identifier << 32 | protocol << 24 | VNI; 0 for a free row
    "public",  # IPv4 address
    "public_port",
    "references",  # connection rows with a source that it translates
    "pool",
    "account",  # its VPC's account of mappings (`shares`)
    "port_account",  # its VPC's account of ports of the public address
    "endpoint_account",  # its endpoint's account of ports
    "holders",  # exclusive or of the connection rows that it translates, each + 1; with one reference that row
)
"""A NAT mapping: an endpoint's address and port, and their public address and port towards all hosts (RFC 4787, REQ-1).
"""

OWNER = _row(
    "vni",
    "hi",
    "lo",
    "connections",  # that count against this endpoint
    "account",  # its VPC's account of connections (`shares`)
)
"""An endpoint that has connections, and how many."""

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
"""What a VPC uses of one table or of the ports of one public address, or what an endpoint uses of ports."""

FULL = _row(
    "reason",  # `Drop` + 1; 0 for a free row
    "vni",
    "hi",  # address of the endpoint
    "lo",
    "gave_way",  # older connections ended for new ones
    "refused",  # new connections
    "seen_ns",
)
"""A share or table that was full for the connections of an endpoint."""

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
    "first_bytes",  # payload of the first fragment; later ones must not overlap it
    "seen_ns",
    "come_bytes",  # received so far, in all fragments
    "whole_bytes",  # payload of the whole packet, known from its last fragment on; else 0
    "account",  # its VPC's account of fragments (`shares`)
)
"""A packet whose first fragment has arrived."""

RECORD = _row(
    "what",  # UPDATED, ENDED or GAVE_WAY
    "source_hi",  # the opener's row
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
    "mapped",  # bit 0: a NAT mapping translates its source; bit 1: the source of the replies
    "idle_ns",  # since its last packet: the clocks of two machines cannot be compared
)
"""The state of a connection, as it is sent to the partner."""
UPDATED, ENDED, GAVE_WAY = 1, 2, 3

JOURNAL_ROWS = 1 << 13
BITMAP_WORDS = 1024
"""One bit for each of 65,536 ports."""
MAPPINGS_PER_POOL = 64

PAIRS_FREED, PAIRS_USED, OWNERS_FREED, OWNERS_USED, MAPPINGS_FREED, MAPPINGS_USED, POOLS_FREED, POOLS_USED = range(8)
"""Words of `counts`: freed rows, and rows ever used. The difference is the number of rows in use."""
JOURNAL_ON, JOURNAL_HEAD, JOURNAL_TAIL, JOURNAL_LOST, RESEND_LEFT = range(8, 13)
"""A partner is attached; records written, read, and lost for lack of room; pairs still to be sent in full."""
AGED_NS, AGED_NEXT, AGED_ENDED, SEED, PARTNER_REFUSED, PAIRS_ENDED = range(13, 19)
"""When ageing last ran; the pair that it checks next; connections that it ended; the secret seed of hashes and port
choices, which never changes; records of the partner that were refused; pairs that ended in this burst."""
RESEND_ALL = 19
"""1 while the resend includes the connections received from the partner, for a partner that has restarted."""
ACCOUNTS_FREED, ACCOUNTS_USED, FRAGMENTS_HELD, FRAGMENTS_AGED_NS, FRAGMENTS_NEXT = range(20, 25)
"""Accounts as above; packets with stored fragments; when ageing last checked fragments, and the slot that it checks
next."""
RECLAIMED, STARTED_NS = 25, 26
"""Connections that ended to make room for others; when the data process started with an empty state."""
COUNTS = 32
QUEUES = 8
FULL_ROWS = 64
PUNT_DUES = 1 << 15


class State(NamedTuple):
    """All state arrays. Sizes are powers of two (`config.local.Limits`)."""

    connections: Rows
    """CONNECTION rows, two per connection."""
    slots: Ints
    """Index of the connection rows, by `mixed5` of addresses and key (`buckets`)."""
    pairs: Ints
    """Freed pairs; from the other end on, the pairs that ended in this burst."""
    owners: Rows
    """OWNER rows."""
    owner_index: Ints
    freed_owners: Ints
    mappings: Rows
    """MAPPING rows."""
    mapping_out: Ints
    """Index by endpoint and public address."""
    mapping_in: Ints
    """Index by public address, port and protocol."""
    freed_mappings: Ints
    pools: Rows
    """POOL rows."""
    pool_index: Ints
    freed_pools: Ints
    port_bits: Grid
    """By pool: a bit for each used port."""
    fragments: Rows
    """FRAGMENT rows, in buckets."""
    journal: Rows
    """RECORD rows, a ring: changes for the partner."""
    draft: Rows
    """Two CONNECTION rows: the connection being created."""
    counts: Ints
    punt_dues: Ints
    """By account: the time at which its allowance for the slow path is available again (`punt_share`)."""
    accounts: Rows
    """ACCOUNT rows."""
    account_index: Ints
    freed_accounts: Ints
    endpoint_queues: Grid
    """By row of `owners`: oldest and newest of the connections in each queue (`queues`), as number of the pair + 1."""
    vpc_queues: Grid
    """The same by row of `accounts`, for the connections of a VPC."""
    full: Rows
    """FULL rows, by hash."""


def layout(limits: Limits) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each array, by name, in the order of `State`."""
    word = np.dtype(np.int64)
    pools = max(limits.mappings // MAPPINGS_PER_POOL, 8)
    in_use = min(limits.connections, MAX_VPCS) + 2 * min(limits.mappings, 2 * MAX_VPCS)
    accounts = 1 << (in_use + min(limits.fragments, MAX_VPCS) + limits.mappings).bit_length()
    return {
        "connections": ((2 * limits.connections,), CONNECTION),
        "slots": ((index_slots(2 * limits.connections),), word),
        "pairs": ((limits.connections,), word),
        "owners": ((limits.connections,), OWNER),
        "owner_index": ((index_slots(limits.connections),), word),
        "freed_owners": ((limits.connections,), word),
        "mappings": ((limits.mappings,), MAPPING),
        "mapping_out": ((index_slots(limits.mappings),), word),
        "mapping_in": ((index_slots(limits.mappings),), word),
        "freed_mappings": ((limits.mappings,), word),
        "pools": ((pools,), POOL),
        "pool_index": ((index_slots(pools),), word),
        "freed_pools": ((pools,), word),
        "port_bits": ((pools, BITMAP_WORDS), word),
        "fragments": ((max(limits.fragments, 8),), FRAGMENT),
        "journal": ((JOURNAL_ROWS,), RECORD),
        "draft": ((2,), CONNECTION),
        "counts": ((COUNTS,), word),
        "punt_dues": ((PUNT_DUES,), word),
        "accounts": ((accounts,), ACCOUNT),
        "account_index": ((index_slots(accounts),), word),
        "freed_accounts": ((accounts,), word),
        "endpoint_queues": ((limits.connections, 2 * QUEUES), word),
        "vpc_queues": ((accounts, 2 * QUEUES), word),
        "full": ((FULL_ROWS,), FULL),
    }


def state_of(arrays: Mapping[str, NDArray[Any]]) -> State:
    """Return the state in given arrays, for example in shared memory."""
    return State(**arrays)


def empty_state(limits: Limits) -> State:
    """Return the initial state in the process's own memory; rows and buckets are aligned to cache lines."""
    return state_of({name: zeros_at_a_line(shape, dtype) for name, (shape, dtype) in layout(limits).items()})
