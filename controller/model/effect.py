"""What the brain wants done: values that the shell performs, in the order they were returned."""

from dataclasses import dataclass

from controller.model.error import HeddleError
from controller.model.health import Health
from controller.model.job import JobRequest
from controller.model.placement import Placement, Shape
from controller.model.plan import JobFlows, JobPlan
from controller.model.rule import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Solve:
    """Plan `requests` beside the jobs that stay where they are, off the loop; answered by `event.Solved`."""

    token: int
    requests: tuple[JobRequest, ...]
    kept: tuple[tuple[JobRequest, JobFlows], ...]
    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Look for places for a job beside the jobs that run, off the loop; answered by `event.Suggested`."""

    token: int
    shape: Shape
    kept: tuple[tuple[JobRequest, JobFlows], ...]
    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """Send these steps, each behind barriers; answered by `event.Installed` or `event.InstallFailed`."""

    token: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """Read again what a switch holds; answered by `event.RulesRead`, or by nothing where it is gone."""

    switch: str


Answer = JobPlan | int | tuple[Placement, ...]
"""A job's plan, the number of flows released, places for a job, or the generation of networks that a change made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer a caller, or tell it an error."""

    reply: int
    outcome: Answer | HeddleError


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Tell whoever watches the job about a new generation or state."""

    plan: JobPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged:
    """Tell whoever watches the topology."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line for the log; `severity` is info, warning or error."""

    severity: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworksChanged:
    """Tell gateways and hosts: there is a new generation of virtual networks."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """End a gateway's session: the same gateway attached anew."""

    gateway_id: str
    session: int


Effect = Solve | Place | Install | ReadRules | Reply | Announce | TopologyChanged | NetworksChanged | EndSession | Note
