"""What the scenes share: the parts of a scene, and how its traffic is built in either mode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.model.error import HeddleError
from controller.model.fabric import Nic
from controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from mininet_topos.demo.results.scenes import Check
from mininet_topos.demo.workloads import LogicalFlow, Workload
from mininet_topos.measure.flow_run import FlowRequest

if TYPE_CHECKING:
    from mininet_topos.demo.scenes.stage import Played, Stage

SECONDS = 4.5
ACT_S = 1.2
"""The duration of every run, and when something happens in it."""
RECOVERY_S = 2.0
"""How soon goodput must be that of the plan in force. After a cut the lab's queues need up to a second of it: only then
they write off the frames that were lost on the cable, and the pauses that those have caused end."""
PACE = 0.97
"""NICs send at this part of the planned rate, so that a late packet of theirs fills no queue, and ACKs have room."""
PAYLOAD_PART = 4096 / 4158
"""Payload over frame."""


def paced(flow: pb.FlowPlan) -> int:
    """Return the rate at which a NIC sends a planned flow."""
    return int(flow.rate_bps * PACE)


class Act(NamedTuple):
    """Something that happens at `at_s` of a run; `do` is called in a thread, or by the run itself (`in_run`).

    Only the run may use NICs. `text` is the mark's; empty for what no reader needs to see.
    """

    at_s: float
    text: str
    do: Callable[[], object] | None = None
    in_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """One run of a scene: the flows, those that are watched, the jobs whose plans NICs follow, and what happens."""

    requests: Sequence[FlowRequest]
    watched: frozenset[str]
    followed: Sequence[pb.JobPlan] = ()
    acts: Sequence[Act] = ()


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


class UnfitFabricError(HeddleError):
    """A fabric is too small for a scene; the message names what it lacks."""


class Scene(Protocol):
    """One scene. `planned` is played first: it chooses what `hashed` repeats under ECMP.

    `loses_packets`: it loses packets that no queue counts, on a cable that is cut or by the rule of a quarantine.
    """

    kind: str
    title: str
    watched: str
    needs_telemetry: bool
    loses_packets: bool

    def planned(self, stage: "Stage") -> Cast:
        """Submit what runs from the start, and return the cast; raises UnfitFabricError."""

    def hashed(self, stage: "Stage") -> Cast:
        """Return the cast of the same scene under ECMP."""

    def checks(self, played: "Played") -> tuple[Check, ...]:
        """Return the verdict on a planned run."""

    def end(self, stage: "Stage") -> None:
        """Undo what has happened to the fabric, however far the run came; jobs are released by the caller."""


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
