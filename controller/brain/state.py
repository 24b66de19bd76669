"""The controller's whole state, as one frozen value.

`wanted(state, switch)` computes the rules that a switch should hold, `SwitchState.installed` holds the rules that it
last reported or acknowledged, and `install` sends the difference. One transaction is active at a time; the others
wait in `queue`, in order. Compilation and installation of what a failure requires wait for no plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from heddle.controller.brain.converging import Convergence
from heddle.controller.brain.lifecycle import JobEvent, WorkKind
from heddle.controller.brain.port_search import Seeking
from heddle.controller.brain.settings import Settings
from heddle.controller.brain.virtual_networks import Networks
from heddle.controller.model.cabling import Cabling
from heddle.controller.model.effect import Drained
from heddle.controller.model.event import JudgedCable
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.health import Health
from heddle.controller.model.job import JobRequest
from heddle.controller.model.job_state import JobState
from heddle.controller.model.moves import Cause
from heddle.controller.model.placement import Shape
from heddle.controller.model.plan import Certificate, Effort, JobFlows, JobPlan, Moved
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.rule import FlowRule, RuleKey, SwitchRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that holds paths.

    `number` identifies its rules (cookies) and is never used again; `generation` grows with every published change.
    `pin_rules` are its rules by switch, empty where source ports select all paths; `severed` is whether flows on failed
    links have none. `stranded` flows have no live path.
    `healthy_utilisation` is that of its fullest link before the failures that degrade it; None while none does.
    `lease_ms` is the length of its lease as last granted, from which it starts again after a restart.
    """

    request: JobRequest
    number: int
    generation: int
    state: JobState
    reason: str
    lease_expires_unix_ms: int
    flows: JobFlows
    effort: Effort = field(default_factory=Effort)
    pin_rules: Mapping[str, tuple[FlowRule, ...]] = field(default_factory=dict)
    severed: bool = False
    stranded: int = 0
    healthy_utilisation: float | None = None
    lease_ms: int = 0

    def as_plan(self, certificate: Certificate) -> JobPlan:
        """Return the job's plan as clients see it; `certificate` is that of the whole fabric."""
        mine = {name: getattr(self.effort, name) for name in Effort.__slots__}
        return JobPlan(
            job_id=self.request.job_id,
            tenant=self.request.tenant,
            priority=self.request.priority,
            generation=self.generation,
            state=self.state,
            reason=self.reason,
            lease_expires_unix_ms=self.lease_expires_unix_ms,
            flows=self.flows,
            certificate=replace(certificate, assumed=self.request.assumed, **mine),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRecord:
    """One decision that moved flows of a job: when, which generation of the job, why, and the flows' old links."""

    unix_ms: int
    job_id: str
    generation: int
    reason: str
    moved: Moved


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """The last known state of a switch: `installed` is None while its rules are unknown.

    `failures` counts its consecutive failed installations; `changed` is the token of the last installation there.
    `refusal` is why the last one failed, until the switch holds what it should, also in later sessions. One that is
    `lagging` still processes what it was sent: it gets nothing more, and is not read, before it has caught up.
    `lost` counts the audits in a row that did not find rules which it had acknowledged, also in later sessions.
    """

    connected: bool = False
    installed: SwitchRules | None = None
    failures: int = 0
    changed: int = 0
    refusal: str = ""
    lagging: bool = False
    lost: int = 0

    @property
    def is_known(self) -> bool:
        """Return whether the rules of a connected switch are known."""
        return self.connected and self.installed is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submitted job; several callers may wait for the same one."""

    replies: tuple[int, ...]
    request: JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWork:
    """Plan and install submitted jobs together: one while it waits, all that can be joined with it when it starts.

    `attempts` counts plans that a failure made void. What was refused together with others is planned `alone`.
    `waits_for` are the switches that it waits for, or waited for last: they lagged, or were being read. What is `still`
    moves no running flow: a move needed a switch that gets no rules now.
    """

    kind: ClassVar[Literal[WorkKind.PLAN]] = WorkKind.PLAN

    submissions: tuple[Submission, ...]
    attempts: int = 1
    alone: bool = False
    waits_for: frozenset[str] = frozenset()
    still: bool = False

    @property
    def requests(self) -> tuple[JobRequest, ...]:
        """Return the jobs to plan."""
        return tuple(each.request for each in self.submissions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWork:
    """End a job: on request (RELEASED), or without a `reply` where its lease ended (LEASE_ENDED)."""

    kind: ClassVar[Literal[WorkKind.RELEASE]] = WorkKind.RELEASE

    reply: int | None
    job_id: str
    event: JobEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanWork:
    """Plan running jobs again; `subject` is the job on whose behalf flows may move, if any."""

    kind: ClassVar[Literal[WorkKind.REPLAN]] = WorkKind.REPLAN

    cause: Cause
    reason: str
    subject: str = ""
    ports: tuple[str, ...] = ()  # the congested ports that it is for
    moves: bool = True
    """Whether flows may move that have a path."""
    suspects: frozenset[str] = frozenset()
    """On a fabric that hashes: the leaves whose running flows may have left their paths."""
    relief: bool = False  # the moves that a failure allows, once its flows have new paths


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainWork:
    """Take a cable or switch out of use, or return it; with `dry_run`, only reply as if.

    `by_rule`: a bad cable, without a caller, where the running jobs lose nothing by it (`transactions.bad_cables`).
    """

    kind: ClassVar[Literal[WorkKind.DRAIN]] = WorkKind.DRAIN

    reply: int | None
    target: str
    undrain: bool
    dry_run: bool = False
    by_rule: bool = False


Work = PlanWork | ReleaseWork | ReplanWork | DrainWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The active transaction: being solved, then (with `before`) waiting until switches have acknowledged its rules.

    On a fabric that hashes, probes seek ports for what is solved (`seeking`) before anything else changes.

    `health` is the planner's input; a plan for any other is void. `before` are the jobs that the plan has changed, as
    they were, and `announces` those whose new generation is published after the acknowledgement. `response` is the
    reply to a drain, and `certificate` is the one before. `slowed` are the jobs whose lower rates have been published;
    the next installation waits `wait_ms` for hosts to follow what has been published. It waits for `barriers` and for
    `touched`, the switches whose pins it changes; `own` are those of submitted jobs: others it needs only for moves.
    """

    token: int
    work: Work
    health: Health
    before: Mapping[str, Job] | None = None
    announces: tuple[str, ...] = ()
    barriers: frozenset[str] = frozenset()
    solve_ns: int = 0
    response: Drained | None = None
    certificate: Certificate = field(default_factory=Certificate)
    slowed: tuple[str, ...] = ()
    wait_ms: int = 0
    seeking: Seeking | None = None
    touched: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    @property
    def needed(self) -> frozenset[str]:
        """Return the switches without which it does not end."""
        return self.barriers | self.touched


@dataclass(frozen=True, slots=True, kw_only=True)
class Installing:
    """The installation under way: by switch, the rules after its acknowledgement.

    `of` is the token of the transaction that waits for it. `reconnected` are switches whose session was replaced
    meanwhile: messages for the old session may reach the new one, so their rules are read again at the end. It waits
    for `lagging` switches, and is `given_up` where something else waits for it.
    """

    token: int
    target: Mapping[str, SwitchRules]
    of: int | None = None
    reconnected: frozenset[str] = frozenset()
    lagging: frozenset[str] = frozenset()
    given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """The compilation under way, the state of the fabric that it is for, and when it began."""

    token: int
    health: Health
    since_unix_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Preview a job; not a transaction, because it changes nothing. `token` is set while it is active."""

    reply: int
    request: JobRequest
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestWork:
    """Find places for a job; not a transaction, because it changes nothing. `token` is set while it is active."""

    reply: int
    shape: Shape
    token: int | None = None
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A port that has failed: how often lately, when last, and, once it is up, from when on it is used again."""

    failures: int
    failed_unix_ms: int
    until_unix_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A NIC that storms, or did lately: whether it is in quarantine now, how often it was, and when it last stormed."""

    active: bool
    episodes: int
    seen_unix_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HotPort:
    """A congested switch port: its link, and the traffic there that no job has planned.

    No decision is made for it before `quiet_until_unix_ms`; the pause doubles with each of its `decisions`. After a
    move, `watched` are the ports that flows have taken, and until `check_unix_ms` `before` the jobs as they were.
    """

    link: str
    excess_bps: int
    seen_unix_ms: int
    stale: bool = False
    decisions: int = 0
    quiet_until_unix_ms: int = 0
    check_unix_ms: int | None = None
    before: Mapping[str, Job] = field(default_factory=dict)
    watched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCable:
    """A cable that loses frames or is slow: what is known of it, the rate in bit/s that it has left.

    `left_out`: plans do without it; `judged` are the jobs for which this was last decided, `verdict` says what was.
    """

    found: JudgedCable
    left_bps: int
    left_out: bool = False
    judged: frozenset[str] | None = None
    judged_unix_ms: int = 0
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The controller's state.

    `dirty` names switches whose installed rules may differ from the wanted ones. `health` is what has failed, derived
    from the fabric file and `down_ports`; `drained` is out of use as well. The underlay is compiled for `compiled_for`;
    the next compilation waits for `compile_pause_unix_ms`. The first of `suggestions` and of `previews` is active, the
    others wait. `moves` are the newest decisions that moved flows, newest last. `older_pins` are the pins of switches
    at their first session with this process, less those replaced; none after the grace time. `parked` are submissions
    that wait for switches; `lacking` are switches that refused rules which they should hold, as last published.
    """

    fabric: Fabric
    layout: SteeringLayout
    settings: Settings
    health: Health
    compiled_for: Health
    down_ports: frozenset[PortRef] = frozenset()
    holds: Mapping[PortRef, Hold] = field(default_factory=dict)
    settles_unix_ms: int | None = None
    """When ports are confirmed again after the last change of a link, `settle_ms` after the time before."""
    settle_ms: int = 0
    drained: frozenset[str] = frozenset()
    underlay: Mapping[str, SwitchRules]
    switches: Mapping[str, SwitchState]
    jobs: dict[str, Job] = field(default_factory=dict)
    certificate: Certificate = field(default_factory=Certificate)
    moves: tuple[MoveRecord, ...] = ()
    hot_ports: Mapping[str, HotPort] = field(default_factory=dict)
    quarantines: Mapping[str, Quarantine] = field(default_factory=dict)
    dirty: frozenset[str] = frozenset()
    queue: tuple[Work, ...] = ()
    active: Active | None = None
    installing: Installing | None = None
    compiling: Compiling | None = None
    compile_pause_unix_ms: int = 0
    previews: tuple[Preview, ...] = ()
    suggestions: tuple[SuggestWork, ...] = ()
    networks: Networks = field(default_factory=Networks)
    audited: int = 0
    audited_unix_ms: int = 0
    started_unix_ms: int | None = None
    older_pins: Mapping[str, frozenset[RuleKey]] = field(default_factory=dict)
    next_token: int = 1
    next_job_number: int = 1
    topology_generation: int = 1
    parked: tuple[PlanWork, ...] = ()
    lacking: frozenset[str] = frozenset()
    cabling: Cabling = field(default_factory=Cabling)
    bad_cables: Mapping[str, BadCable] = field(default_factory=dict)
    convergence: Convergence = field(default_factory=Convergence)

    @property
    def degraded(self) -> dict[str, int]:
        """Return the rate in bit/s that each bad cable has left, by id."""
        return {name: bad.left_bps for name, bad in self.bad_cables.items() if self.settings.acts_on(bad.found)}

    @property
    def left_out(self) -> frozenset[str]:
        """Return the bad cables that plans do without."""
        return frozenset(name for name, bad in self.bad_cables.items() if bad.left_out)

    @property
    def out_of_use(self) -> Health:
        """Return what has failed, is drained or left out, which cables are wrong and which NICs are in quarantine."""
        sound, wrong = self.without_cabling, self.cabling.verdict.left_out
        return sound.union(Health(down_cables=wrong)) if wrong else sound

    @property
    def without_cabling(self) -> Health:
        """Return what is out of use for other reasons than wrong cabling."""
        cables, ports = (self.drained.intersection(of) for of in (self.fabric.cable_by_link, self.fabric.nic_by_id))
        nics = frozenset(nic for nic, each in self.quarantines.items() if each.active)
        out = Health(down_cables=cables | self.left_out, down_switches=self.drained - cables - ports, down_nics=ports)
        return self.health.union(out).union(Health(down_nics=nics, quarantined_nics=nics))


def wanted(state: State, switch: str) -> SwitchRules:
    """Return the rules that a switch should hold: the underlay and every job's pins.

    Two jobs may pin the same addresses: the planner gives both one path, and the rule has the older job's cookie.
    """
    below = state.underlay[switch]
    pins = {rule.key: rule for job in reversed(state.jobs.values()) for rule in job.pin_rules.get(switch, ())}
    return SwitchRules(rules=below.rules + tuple(pins.values()), groups=below.groups) if pins else below
