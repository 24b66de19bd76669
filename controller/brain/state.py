"""All that the brain knows, as one frozen value.

Wanted, installed and the difference are three things: `wanted(state, switch)` is computed, `SwitchState.installed`
is what the switch last said or acknowledged, and `transact` sends the difference. One transaction (a plan, a
release, a synchronisation) is under way at a time; the others wait in `queue`, in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.brain.networks import Networks
from controller.model.fabric import Fabric, PortRef
from controller.model.health import Health
from controller.model.job import JobRequest
from controller.model.placement import Shape
from controller.model.plan import Certificate, JobFlows, JobPlan, Plan
from controller.model.rule import FlowRule, SwitchRules
from controller.model.steering import SteeringLayout, layout_of
from controller.rules.compile import compile_fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may set; times in milliseconds."""

    default_lease_ms: int = 3_600_000
    max_lease_ms: int = 30 * 24 * 3_600_000
    max_waiting: int = 4_096
    max_suggestions_waiting: int = 64
    max_jobs: int = 10_000
    gateway_timeout_ms: int = 5_000
    max_gateways: int = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that holds paths: planned (being installed), running, or degraded (a link of its paths is down)."""

    request: JobRequest
    number: int
    generation: int
    state: str
    reason: str
    lease_expires_unix_ms: int
    flows: JobFlows
    certificate: Certificate
    pin_rules: Mapping[str, tuple[FlowRule, ...]] = field(default_factory=dict)

    def told(self) -> JobPlan:
        """Return the job's plan as it is told outside."""
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
    """A switch as last heard: `installed` is None while nobody knows what it holds.

    `failures` counts installations in a row that it failed.
    """

    connected: bool = False
    installed: SwitchRules | None = None
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWork:
    """Submit or preview a job; several callers may wait for the same one. `plan` is there once it is installed."""

    replies: tuple[int, ...]
    request: JobRequest
    preview: bool
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWork:
    """End a job; `reply` is None where its lease ended."""

    reply: int | None
    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncWork:
    """Bring what switches hold to what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestateWork:
    """Work out anew what running jobs may send and how good the whole plan is; nobody moves."""

    reason: str


Work = PlanWork | ReleaseWork | SyncWork | RestateWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The transaction under way: being solved while `target` is None, else being installed.

    `target` is what each switch will hold once it has acknowledged. `strangers` are switches that connected anew
    meanwhile: what was meant for their old session may reach the new one, so they are read again at the end. `health`
    is what the planner was told; a plan for another one is dropped and asked for again, `attempts` times at most.
    """

    token: int
    work: Work
    target: Mapping[str, SwitchRules] | None = None
    strangers: frozenset[str] = frozenset()
    health: Health | None = None
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestWork:
    """Look for places for a job; no transaction, for it changes nothing. `token` is there while it is under way."""

    reply: int
    shape: Shape
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The whole fabric in mind.

    `dirty` names switches whose installed rules may differ from the wanted ones; `health` follows from what the
    fabric file calls failed and from `down_ports`. Of `suggestions` the first is under way.
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
    """Return the state of a controller that has heard from nobody yet."""
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
    """Return all that a switch should hold: the underlay and every job's pins.

    Two jobs may pin the same addresses (the planner then gives both one path); the rule carries the older's cookie.
    """
    below = state.underlay[switch]
    pins = {rule.key: rule for job in reversed(state.jobs.values()) for rule in job.pin_rules.get(switch, ())}
    return SwitchRules(rules=below.rules + tuple(pins.values()), groups=below.groups) if pins else below
