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
from heddle.dataplane.elements.memory import state as shared
from heddle.dataplane.elements.memory import tcp_flags
from heddle.dataplane.elements.memory.buckets import index_slots
from heddle.dataplane.elements.memory.state import FIRST_OWN_WORD
from heddle.dataplane.jit import Grid, Ints, Rows, row_type

CONNECTION = row_type(
    "source_hi",  # key: the packet as it arrives in this direction
    "source_lo",
    "target_hi",
    "target_lo",
    "key",  # ports << 32 | protocol << 24 | VNI; the VNI is OUTSIDE for packets from the internet
    "flags",
    "next_hop",  # valid only for generation `generation`
    "generation",
    "new_source_lo",  # the packet as it leaves
    "new_target_lo",
    "new_ports",
    "last_seen_ns",
    "packets",
    "expected",  # TCP: next sequence number << 32 | last acknowledgement of this side (`elements.segments`)
    "pair",  # row of the other direction
    "out_vni",  # VNI of the target's VPC; OUTSIDE for none
    "new_source_hi",
    "new_target_hi",
    "mapping",  # row of the NAT mapping, or -1
    "seen_packets",  # `packets` at the last journal record of ageing
    "owner",  # row of the endpoint that it counts against
    "neighbours",  # in a queue of connections that may give way (`memory.queues`): older << 32 | newer, pairs + 1
    "beyond",  # TCP: start << 32 | end of what came behind a gap
    "queued",  # opener's row: number of the queue + 1, 0 for none; row of the replies: the time at which it was queued
)
"""One direction of a connection: three cache lines, of which packets need the first two. A row does not move while the
connection exists; `key` 0 marks a free row."""

REPLY, SEEN_REPLY, ESTABLISHED, CLOSING = (
    tcp_flags.REPLY,
    tcp_flags.SEEN_REPLY,
    tcp_flags.ESTABLISHED,
    tcp_flags.CLOSING,
)
FIN_OPENER, FIN_REPLIER, CLOSED = tcp_flags.FIN_OPENER, tcp_flags.FIN_REPLIER, tcp_flags.CLOSED
TRANSLATED, FROM_PARTNER, FLOATING, BORDER = 1 << 1, 1 << 5, 1 << 6, 1 << 7
"""Flags of a connection's row: those of TCP (`tcp_flags`), of which other traffic has the first three, and is
ESTABLISHED if it is more than requests with one reply each; addresses or ports are translated; received from the
partner, not seen here; by floating IP; to the provider's networks. Both rows have the same flags except for REPLY."""
EXPECTED = 1 << 15
"""Another flag: a hairpin connection that inward rules deny, but whose target has sent to its public source before."""
RECORD_FLAGS = (1 << 11) - 1 | EXPECTED
"""The flags in a partner's records: earlier versions refuse others, and EXPECTED."""
DECIDED = TRANSLATED | FLOATING | BORDER
"""The flags that admission decides; the others record what was seen."""

MAPPING = row_type(
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
    "incarnation",  # of its VPC
)
"""A NAT mapping: an endpoint's address and port, and their public address and port towards all hosts (RFC 4787, REQ-1).
"""

OWNER = row_type(
    "vni",
    "hi",
    "lo",
    "connections",  # that count against this endpoint
    "account",  # its VPC's account of connections (`shares`)
)
"""An endpoint that has connections, and how many."""

POOL = row_type(
    "key",  # public address << 8 | protocol
    "ports_used",
)
"""The ports of a public address, for one protocol."""

FULL = row_type(
    "reason",  # `Drop` + 1; 0 for a free row
    "vni",
    "hi",  # address of the endpoint
    "lo",
    "gave_way",  # older connections ended for new ones
    "refused",  # new connections
    "seen_ns",
)
"""A share or table that was full for the connections of an endpoint."""

SOURCE, TARGET, DECIDED_AT, CREATED_NS, COLUMNS = range(5)
"""Columns of `State.incarnations`: what the opener's side and the other side of a connection belong to (each the
incarnation of a VPC, direct connect or floating IP, for both sides that of a peering, or 0 outside), the generation of
networks that decided so, when the connection was created, and the number of columns."""

BITMAP_WORDS = 1024
"""One bit for each of 65,536 ports."""
MAPPINGS_PER_POOL = 64

(
    PAIRS_FREED, PAIRS_USED, OWNERS_FREED, OWNERS_USED, MAPPINGS_FREED, MAPPINGS_USED, POOLS_FREED, POOLS_USED,
) = range(FIRST_OWN_WORD, FIRST_OWN_WORD + 8)  # fmt: skip
"""Words of `counts`: freed rows, and rows ever used. The difference is the number of rows in use."""
(
    AGED_NS, AGED_NEXT, AGED_ENDED, PAIRS_ENDED, RESEND_ALL, RECLAIMED, STARTED_NS, STARTED_AT, SWEPT_BY, SWEEP_NEXT,
    SWEEP_LEFT,
) = range(POOLS_USED + 1, POOLS_USED + 12)  # fmt: skip
"""When ageing last ran; the pair that it checks next; connections that it ended; pairs that ended in this burst; 1
while the resend includes the connections received from the partner, for a partner that has restarted; connections that
ended to make room for others; when the data process started with an empty state; the first generation of networks that
it served; the generation of tables that the sweep is of, the pair that it checks next, and how many it has yet to check
(`memory.sweep`)."""
QUEUES = 8
FULL_ROWS = 64


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
    incarnations: Grid
    """By pair, the columns above; one row more, for the draft. All 0 for a free pair."""
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
    """Return shape and type of each array, by name."""
    word = np.dtype(np.int64)
    pools = max(limits.mappings // MAPPINGS_PER_POOL, 8)
    in_use = min(limits.connections, MAX_VPCS) + 2 * min(limits.mappings, 2 * MAX_VPCS) + limits.mappings
    common = shared.layout(limits.fragments, in_use)
    (accounts,), _ = common["accounts"]
    return {
        **common,
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
        "draft": ((2,), CONNECTION),
        "incarnations": ((limits.connections + 1, COLUMNS), word),
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
