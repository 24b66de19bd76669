"""Define a job request. Field names and meanings are those of `SubmitJobRequest`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from heddle.controller.model.collectives import (
    A_PART,
    ALL,
    ALL_BUT_OWN,
    BROADCASTED,
    EACH_TO_EACH,
    EXCHANGED,
    FROM_ROOT,
    GATHERED,
    LISTED_FLOWS,
    LISTED_PAIRS,
    PART_OF_EACH,
    REDUCED,
    RING,
    SCATTERED,
    SENT,
    SENT_BY_FLOW,
    TO_ROOT,
    TREE,
    TWICE_ALL_BUT_OWN,
    Buffer,
    FlowSize,
    Pattern,
)
from heddle.controller.model.moves import Cause, MoveLimit
from heddle.controller.model.nccl import BY_KIND_ALONE, WITH_PXN, WITHOUT_PXN, OnRails


class CollectiveKind(IntEnum):
    """The kinds of collective, a row each: number in the proto, which members send to which, bytes of a flow, buffer.

    Everything else that depends on a kind follows from its row. docs/files.md has the rows in words.
    """

    pattern: Pattern
    flow_size: FlowSize
    buffer: Buffer
    _value_: int

    def __new__(cls, number: int, pattern: Pattern, flow_size: FlowSize, buffer: Buffer) -> "CollectiveKind":
        """Return the kind of a row, which has the row's number as its value."""
        kind = int.__new__(cls, number)
        kind._value_, kind.pattern, kind.flow_size, kind.buffer = number, pattern, flow_size, buffer
        return kind

    RING_ALL_REDUCE = 1, RING, TWICE_ALL_BUT_OWN, REDUCED
    TREE_ALL_REDUCE = 2, TREE, ALL, REDUCED
    ALL_GATHER = 3, RING, ALL_BUT_OWN, GATHERED
    REDUCE_SCATTER = 4, RING, ALL_BUT_OWN, SCATTERED
    ALL_TO_ALL = 5, EACH_TO_EACH, A_PART, EXCHANGED
    BROADCAST = 6, FROM_ROOT, ALL, BROADCASTED
    GATHER = 7, TO_ROOT, ALL, PART_OF_EACH
    SEND_RECV = 8, LISTED_PAIRS, ALL, SENT
    CUSTOM = 9, LISTED_FLOWS, ALL, SENT_BY_FLOW


OFFERED_KINDS = tuple(kind.name for kind in CollectiveKind if not kind.pattern.lists)
"""What `heddle job suggest` and the page offer: kinds that ranks and bytes describe."""


class Algorithm(IntEnum):
    """How a collective becomes flows, a row each: number in the proto, and the expansions of patterns that have one."""

    expansions: Mapping[Pattern, OnRails]
    _value_: int

    def __new__(cls, number: int, expansions: Mapping[Pattern, OnRails]) -> "Algorithm":
        """Return the algorithm of a row, which has the row's number as its value."""
        algorithm = int.__new__(cls, number)
        algorithm._value_, algorithm.expansions = number, expansions
        return algorithm

    CONTRACT = 0, BY_KIND_ALONE
    """By the kind alone: the row of `CollectiveKind`."""
    NCCL = 1, WITH_PXN
    """As NCCL by default: rings and trees by every rail, an all-to-all through the GPU beside the rail (PXN)."""
    NCCL_NO_PXN = 2, WITHOUT_PXN
    """As NCCL with `NCCL_PXN_DISABLE=1`: in an all-to-all each GPU sends by its own NIC."""


class Steering(IntEnum):
    """How paths are selected: by UDP source port, or by pin rules; unspecified means SOURCE_PORT."""

    SOURCE_PORT = 1
    PIN = 2


class Incast(IntEnum):
    """How the senders of an incast share the receiving NIC; unspecified: the planner chooses."""

    UNSPECIFIED = 0
    RATES = 1
    WINDOWS = 2


class RankPair(NamedTuple):
    """One sender and one receiver, by rank; a tuple, because a request has up to millions."""

    src_rank: int
    dst_rank: int


class FlowDemand(NamedTuple):
    """One flow of a CUSTOM collective; `rate_bps` 0 is elastic, `udp_source_port` 0 is the controller's choice."""

    src_rank: int
    dst_rank: int
    rate_bps: int = 0
    udp_source_port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective; empty `members` means all ranks; `size_bytes` is the contract's `bytes`.

    `paths_per_flow` is the number of paths over which a NIC sprays a queue pair; 0: `paths_per_flow` of the NIC.
    """

    kind: CollectiveKind
    size_bytes: int = 0
    root: int = 0
    pairs: tuple[RankPair, ...] = ()
    flows: tuple[FlowDemand, ...] = ()
    qps_per_flow: int = 1
    members: tuple[int, ...] = ()
    phase: int = 0
    algorithm: Algorithm = Algorithm.CONTRACT
    paths_per_flow: int = 0

    @property
    def on_rails(self) -> OnRails | None:
        """Return its expansion by its algorithm; None where its kind alone says which flows it has."""
        return self.algorithm.expansions.get(self.kind.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job; `ranks` are NIC ids, `lease_ms` 0 means the controller's default.

    `move_limits` are those of decisions on behalf of this job; a cause not listed has the controller's default.
    `assumed`: nothing says what the job sends; its collectives are an assumption. `drains_before_moves`: its senders
    let a queue pair drain before it changes its path, so that a move loses and reorders no packet.
    """

    job_id: str
    ranks: tuple[str, ...]
    collectives: tuple[Collective, ...]
    tenant: str = ""
    priority: int = 0
    lease_ms: int = 0
    steering: Steering = Steering.SOURCE_PORT
    require_utilisation: float = 0.0
    gpu_milli: int = 0
    incast: Incast = Incast.UNSPECIFIED
    move_limits: tuple[tuple[Cause, MoveLimit], ...] = ()
    assumed: bool = False
    drains_before_moves: bool = False
