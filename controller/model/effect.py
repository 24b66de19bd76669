"""Define the effects of the brain: values that the runtime performs, in the order in which they were returned."""

from dataclasses import dataclass

from controller.model.error import HeddleError
from controller.model.health import Health
from controller.model.job import JobRequest
from controller.model.placement import Placement, Shape
from controller.model.plan import JobFlows, JobPlan
from controller.model.rule import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Solve:
    """Plan `requests` beside the jobs in `kept`, in a worker thread; `event.Solved` returns the result."""

    token: int
    requests: tuple[JobRequest, ...]
    kept: tuple[tuple[JobRequest, JobFlows], ...]
    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Find places for a job beside the jobs in `kept`, in a worker thread; `event.Suggested` returns the result."""

    token: int
    shape: Shape
    kept: tuple[tuple[JobRequest, JobFlows], ...]
    health: Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """Send these steps, each followed by barriers; `event.Installed` or `event.InstallFailed` returns the result."""

    token: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """Read a switch's rules; `event.RulesRead` returns them, no event follows where the switch has disconnected."""

    switch: str


Response = JobPlan | int | tuple[Placement, ...]
"""A job's plan, the number of flows released, places for a job, or the generation of a network change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Return a response or an error to a caller."""

    reply: int
    outcome: Response | HeddleError


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Publish a job's new generation or state to its watchers."""

    plan: JobPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChanged:
    """Publish a new topology to its watchers."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Write a line to the log; `severity` is info, warning or error."""

    severity: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworksChanged:
    """Notify gateways and hosts of a new generation of virtual networks."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """End a gateway's session, because the same gateway has attached again."""

    gateway_id: str
    session: int


Effect = Solve | Place | Install | ReadRules | Reply | Announce | TopologyChanged | NetworksChanged | EndSession | Note
