"""Casts: the flows of one run with what happens to the fabric meanwhile, and jobs from pairs of NICs. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Nic
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.traffic.workloads import LogicalFlow, Workload
from heddle.v1 import heddle_pb2 as pb

PACE = 0.97
"""NICs send at this part of the planned rate, so that a late packet of theirs fills no queue, and ACKs have room."""


def paced(flow: pb.FlowPlan) -> int:
    """Return the rate at which a NIC sends a planned flow, 1 bit/s at least: a part in a plane may have no more."""
    return max(1, int(flow.rate_bps * PACE))


def floor_of(flow: pb.FlowPlan) -> int:
    """Return the rate below which congestion control does not cut a flow that may exceed its plan; 0 for others."""
    return paced(flow) if flow.work_conserving else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment of a run: an `event` of the scene, or a `decision` of the controller: a note or a new plan."""

    at_ns: int
    kind: Literal["event", "decision"]
    text: str


class Act(NamedTuple):
    """Something that happens at `at_s` of a run; `do` is called in a thread, or by the run itself (`in_run`).

    Only the run may use NICs. `text` is the mark's; empty for what no reader needs to see.
    """

    at_s: float
    text: str
    do: Callable[[], object] | None = None
    in_run: bool = False


class Decision(NamedTuple):
    """A note of the controller's log, or a generation of a followed job's plan with its flows, from the run's start.

    `subject` is what the note is about, or the job.
    """

    at_ns: int
    subject: str
    text: str
    flows: Mapping[str, pb.FlowPlan] = MappingProxyType({})

    @property
    def line(self) -> str:
        """Return the text of its mark."""
        return f"{self.subject}: {self.text}"


def at_once(_: Sequence[Decision]) -> bool:
    """Return that nothing is left to decide."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """One run of a scene: the flows, those that are watched, the jobs whose plans NICs follow, and what happens.

    `decided` returns whether the controller has decided what it has to; until then the run goes on for a while.
    """

    requests: Sequence[FlowRequest]
    watched: frozenset[str]
    followed: Sequence[pb.JobPlan] = ()
    acts: Sequence[Act] = ()
    decided: Callable[[Sequence[Decision]], bool] = at_once


class UnfitFabricError(HeddleError):
    """A fabric is too small for a scene; the message names what it lacks."""


def send_recv(job_id: str, nics: Sequence[Nic], pairs: Sequence[tuple[int, int]]) -> Workload:
    """Return a job in which each pair of ranks is a flow, as fast as its NICs are."""
    found = tuple(RankPair(src_rank=src, dst_rank=dst) for src, dst in pairs)
    collective = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=10**7, pairs=found)
    return workload(job_id, nics, collective, [(src, dst, 0) for src, dst in pairs])


def workload(
    job_id: str, nics: Sequence[Nic], collective: Collective, flows: Sequence[tuple[int, int, int]]
) -> Workload:
    """Return a workload of flows given as (rank, rank, rate; 0: as much as it can get)."""
    crossing = tuple(
        LogicalFlow(
            src_rank=src, dst_rank=dst, src_nic=nics[src].id, dst_nic=nics[dst].id, size_bytes=10**7, rate_bps=rate_bps
        )
        for src, dst, rate_bps in flows
    )
    job = JobRequest(job_id=job_id, ranks=tuple(nic.id for nic in nics), collectives=(collective,))
    return Workload(kind=job_id, seed=0, flows=crossing, job=job)
