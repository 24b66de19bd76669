"""The controller's whole state, as one frozen value.

`wanted(state, switch)` computes the rules that a switch should hold, `SwitchState.installed` holds the rules that it
last reported or acknowledged, and `transact` sends the difference. One transaction is active at a time; the others
wait in `queue`, in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from controller.brain.lifecycle import JobEvent, WorkKind
from controller.brain.networks import Networks
from controller.model.fabric import Fabric, PortRef
from controller.model.health import Health
from controller.model.job import JobRequest
from controller.model.job_state import JobState
from controller.model.placement import Shape
from controller.model.plan import Certificate, JobFlows, JobPlan, Plan
from controller.model.rule import FlowRule, SwitchRules
from controller.model.steering import SteeringLayout, layout_of
from controller.rules.compile import compile_fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits that an operator may set; times in milliseconds."""

    default_lease_ms: int = 3_600_000
    max_lease_ms: int = 30 * 24 * 3_600_000
    max_waiting: int = 4_096
    max_suggestions_waiting: int = 64
    max_jobs: int = 10_000
    gateway_timeout_ms: int = 5_000
    max_gateways: int = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that holds paths.

    `number` identifies its rules (cookies) and is never used again; `generation` grows with every published change.
    `pin_rules` are its rules by switch, empty where source ports select all paths.
    """

    request: JobRequest
    number: int
    generation: int
    state: JobState
    reason: str
    lease_expires_unix_ms: int
    flows: JobFlows
    certificate: Certificate
    pin_rules: Mapping[str, tuple[FlowRule, ...]] = field(default_factory=dict)

    def as_plan(self) -> JobPlan:
        """Return the job's plan as clients see it."""
        return JobPlan(
            job_id=self.request.job_id,
            tenant=self.request.tenant,
            priority=self.request.priority,
            generation=self.generation,
            state=self.state,
            reason=self.reason,
            lease_expires_unix_ms=self.lease_expires_unix_ms,
            flows=self.flows,
            certificate=self.certificate,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """The last known state of a switch: `installed` is None while its rules are unknown.

    `failures` counts its consecutive failed installations.
    """

    connected: bool = False
    installed: SwitchRules | None = None
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWork:
    """Submit or preview a job; several callers may wait for the same one. `plan` is set once it is being installed."""

    kind: ClassVar[Literal[WorkKind.PLAN]] = WorkKind.PLAN

    replies: tuple[int, ...]
    request: JobRequest
    preview: bool
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWork:
    """End a job: on request (RELEASED), or without a `reply` where its lease ended (LEASE_ENDED)."""

    kind: ClassVar[Literal[WorkKind.RELEASE]] = WorkKind.RELEASE

    reply: int | None
    job_id: str
    event: JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncWork:
    """Send each switch the difference between its installed and its wanted rules."""

    kind: ClassVar[Literal[WorkKind.SYNC]] = WorkKind.SYNC


@dataclass(frozen=True, slots=True, kw_only=True)
class RestateWork:
    """Plan the rates and the certificate of running jobs again; no flow changes its path."""

    kind: ClassVar[Literal[WorkKind.RESTATE]] = WorkKind.RESTATE

    reason: str


Work = PlanWork | ReleaseWork | SyncWork | RestateWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The active transaction: being solved while `target` is None, else being installed.

    `target` holds, by switch, the rules after its acknowledgement. `reconnected` are switches whose session was
    replaced meanwhile: messages for the old session may reach the new one, so their rules are read again at the end.
    `health` is the planner's input; a plan for any other health is discarded and planned again (`MAX_ATTEMPTS`).
    """

    token: int
    work: Work
    target: Mapping[str, SwitchRules] | None = None
    reconnected: frozenset[str] = frozenset()
    health: Health | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestWork:
    """Find places for a job; not a transaction, because it changes nothing. `token` is set while it is active."""

    reply: int
    shape: Shape
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The controller's state.

    `dirty` names switches whose installed rules may differ from the wanted ones. `health` is derived from the failures
    in the fabric file and from `down_ports`. The first of `suggestions` is active, the others wait.
    """

    fabric: Fabric
    layout: SteeringLayout
    settings: Settings
    health: Health
    down_ports: frozenset[PortRef] = frozenset()
    underlay: Mapping[str, SwitchRules]
    switches: Mapping[str, SwitchState]
    jobs: dict[str, Job] = field(default_factory=dict)
    dirty: frozenset[str] = frozenset()
    queue: tuple[Work, ...] = ()
    active: Active | None = None
    suggestions: tuple[SuggestWork, ...] = ()
    networks: Networks = field(default_factory=Networks)
    next_token: int = 1
    next_job_number: int = 1
    topology_generation: int = 1


def begin(fabric: Fabric, settings: Settings | None = None) -> State:
    """Return the initial state: no switch connected, no job, the underlay compiled."""
    layout = layout_of(fabric)
    return State(
        fabric=fabric,
        layout=layout,
        settings=settings or Settings(),
        health=fabric.failed,
        underlay=compile_fabric(fabric, layout, fabric.failed, ()),
        switches={switch.id: SwitchState() for switch in fabric.switches},
    )


def wanted(state: State, switch: str) -> SwitchRules:
    """Return the rules that a switch should hold: the underlay and every job's pins.

    Two jobs may pin the same addresses (the planner then gives both one path); the rule carries the older job's
    cookie.
    """
    below = state.underlay[switch]
    pins = {rule.key: rule for job in reversed(state.jobs.values()) for rule in job.pin_rules.get(switch, ())}
    return SwitchRules(rules=below.rules + tuple(pins.values()), groups=below.groups) if pins else below
