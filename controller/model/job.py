"""Define a job request. Field names and meanings are those of `SubmitJobRequest`."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from heddle.controller.model.moves import Cause, MoveLimit


class CollectiveKind(IntEnum):
    """The kinds of collective; numbers are those of the proto."""

    RING_ALL_REDUCE = 1
    TREE_ALL_REDUCE = 2
    ALL_GATHER = 3
    REDUCE_SCATTER = 4
    ALL_TO_ALL = 5
    BROADCAST = 6
    GATHER = 7
    SEND_RECV = 8
    CUSTOM = 9


RINGS = (CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)
"""The kinds in which each rank sends to the next rank alone, and the last to the first."""


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
    """One collective; empty `members` means all ranks; `size_bytes` is the contract's `bytes`."""

    kind: CollectiveKind
    size_bytes: int = 0
    root: int = 0
    pairs: tuple[RankPair, ...] = ()
    flows: tuple[FlowDemand, ...] = ()
    qps_per_flow: int = 1
    members: tuple[int, ...] = ()
    phase: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job; `ranks` are NIC ids, `lease_ms` 0 means the controller's default.

    `move_limits` are those of decisions on behalf of this job; a cause not listed has the controller's default.
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
