"""Define a plan: paths, ports and rates of flows, and the certificate of the plan's quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from heddle.controller.model.job_state import JobState
from heddle.controller.model.rule import FlowRule
from heddle.foundation.traffic_class import DATA
from heddle.probing.flow import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionWindow:
    """The time slot of a flow: it sends while (Unix time in ns / slot_ns) mod slots = slot; slots 0 means always."""

    slot: int = 0
    slots: int = 0
    slot_ns: int = 0


ALWAYS = AdmissionWindow()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPlan:
    """One queue pair's path and rate; names and meanings are the contract's.

    A flow with a window sends at `rate_bps` in its slot, and nothing in other slots. `work_conserving` is no field, so
    that recordings of former versions are read; a kind of flow plan of its own has another value. `entries` are the
    list of a sprayed flow, as rotations of `links`; a flow with one path has none.
    """

    work_conserving: ClassVar[bool] = False

    flow_id: str
    src_nic: str
    dst_nic: str
    links: tuple[str, ...]
    udp_source_port: int
    rate_bps: int
    demand_bps: int
    reverse_links: tuple[str, ...]
    reverse_udp_source_port: int
    phase: int
    src_rank: int
    dst_rank: int
    collective: int
    queue_pair: int
    pinned: bool = False
    dscp: int = DATA.dscp
    priority_group: int = DATA.priority
    window: AdmissionWindow = ALWAYS
    entries: tuple[int, ...] = ()


def conserving_count(flows: Sequence[FlowPlan]) -> int:
    """Return how many flows may exceed their rates; a lazy sequence knows it without building a flow plan."""
    known = getattr(flows, "conserving_count", None)
    return int(known) if known is not None else sum(flow.work_conserving for flow in flows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spraying:
    """What the largest utilisation would be with other paths for the flows that are sprayed; 0: not computed."""

    flows: int
    single_path_max_link_utilisation: float
    random_sets_max_link_utilisation: float
    all_paths_max_link_utilisation: float
    advice: str


class SetPath(NamedTuple):
    """A path of a set: its links, its entries in the list, and the source port that selects it."""

    links: tuple[str, ...]
    weight: int
    udp_source_port: int


class PathSet(NamedTuple):
    """The different paths of a sprayed flow, and by entry of its list the index of the path."""

    paths: tuple[SetPath, ...]
    order: tuple[int, ...]


class PathTemplate(NamedTuple):
    """The list of most flows of some collectives, by index in the request."""

    collectives: tuple[int, ...]
    entries: tuple[int, ...]


class PathTemplates(NamedTuple):
    """The templates of a job, and the uplinks of a leaf: an entry is an uplink shift + uplinks * a core shift."""

    uplinks: int
    templates: tuple[PathTemplate, ...]


def path_templates(flows: Sequence[FlowPlan]) -> PathTemplates | None:
    """Return the templates of flows; None where none is sprayed."""
    found: PathTemplates | None = getattr(flows, "path_templates", None)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The utilisation that the whole plan reaches, and a lower bound that no plan can beat.

    On a fabric that hashes it is `probed`: probes have seen the paths of `paths_confirmed` flows of the job, the oldest
    of them last at `oldest_confirmation_unix_ms`; `probes` were sent for the newest generation.
    ACK paths are not probed. `assumed`: nothing says what the job sends. `below_goal` is by how much the mean speed of
    the jobs is below that of the goal of a convergence; 0: they are at the goal, or it is not known. `spraying`
    compares path sets with others.
    """

    max_link_utilisation: float = 0.0
    lower_bound: float = 0.0
    lower_bound_kind: str = "cut"
    ecmp_max_link_utilisation: float = 0.0
    e_ecmp_max_link_utilisation: float = 0.0
    bottleneck_link: str = ""
    deadlock_free: bool = True
    solve_ns: int = 0
    install_ns: int = 0
    flows_moved: int = 0
    rules_installed: int = 0
    max_rules_on_a_switch: int = 0
    max_nic_utilisation: float = 0.0
    bottleneck_nic: str = ""
    flows_slowed: int = 0
    mean_share: float = 1.0
    worst_share: float = 1.0
    links_over_capacity: int = 0
    probed: bool = False
    paths_confirmed: int = 0
    oldest_confirmation_unix_ms: int = 0
    probes: int = 0
    assumed: bool = False
    below_goal: float = 0.0
    spraying: Spraying | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Packets from one NIC to another with one source port, and their path: a flow's data or its ACKs."""

    src_nic: str
    dst_nic: str
    udp_source_port: int
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlows:
    """The flows of one job in the order of the contract's flow ids.

    `flows` may be a lazy sequence over arrays: index or iterate, do not copy. `link_loads_bps` is the job's load on
    each of its links (NIC links included) in the heaviest phase there; `pinned` is whether any flow is pinned. Both
    spare a reader a loop over a hundred thousand flows. `guards` are streams of other jobs that this job's pins by
    addresses would divert: each needs a pin of its own while this job runs. `reverse_links` are links that only ACKs of
    its flows take: none where ACKs return on the flows' paths. `notes` describe how incasts are shared.
    """

    job_id: str
    flows: Sequence[FlowPlan]
    link_loads_bps: Mapping[str, int]
    pinned: bool
    guards: tuple[Stream, ...] = ()
    own_max_link_utilisation: float = 0.0
    predicted_completion_ns: int = 0
    reverse_links: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The result of planning: every job's flows, and one certificate for all."""

    jobs: tuple[JobFlows, ...]
    certificate: Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """The result where no admissible plan exists; `why` names the bottleneck and the remedy.

    `budget` marks a rule budget as the reason (RESOURCE_EXHAUSTED rather than FAILED_PRECONDITION).
    """

    why: str
    budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The flows of a running job whose paths a decision changed: their number, and the old links of some by flow id."""

    flows: int
    old_links: Mapping[str, tuple[str, ...]]


class WantedRows(NamedTuple):
    """Flows of a job that need a source port: their rows in the job's flows, and their paths."""

    rows: tuple[int, ...]
    flows: tuple[Wanted, ...]


class Confirmed(NamedTuple):
    """What probes have confirmed of a job's plan: when, by how many probes, and whether all flows' paths.

    `reaimed` flows have another port for the path that they had; the ports of `unseen` flows could not be confirmed.
    `followed` flows keep their port on another path, over which the hash leads them.
    """

    unix_ms: int = 0
    probes: int = 0
    is_whole: bool = False
    reaimed: int = 0
    unseen: int = 0
    followed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """The speed of each running job, by id: now, and in the goal of a convergence. 1 is that at full demand."""

    before: Mapping[str, float]
    goal: Mapping[str, float]

    @property
    def gain(self) -> float:
        """Return by how much the mean speed of the jobs is below the goal's."""
        return (sum(self.goal.values()) - sum(self.before.values())) / max(len(self.goal), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """A plan beside running jobs, which come first, and what it changes for them.

    A flow is *severed* while a link of its path has failed, and *stranded* where no live path is left for it.

    A running job whose paths and rates are unchanged has the same `flows.flows` object as before. `moved` has the flows
    with other paths, `stranded` the ids of stranded flows, both by job id. `pins` has the pin rules by
    job and switch, of new jobs and of jobs whose flows moved. `slowed` has running jobs with the lower rates that they
    need before switches move pinned flows, on their old paths. On a fabric that hashes, `wanted` has by job the flows
    whose ports probes have to find, and `confirmed` what they have found. The goal of a convergence has `speeds`.
    """

    jobs: tuple[JobFlows, ...]
    certificate: Certificate
    moved: Mapping[str, Moved] = field(default_factory=dict)
    stranded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pins: Mapping[str, Mapping[str, tuple[FlowRule, ...]]] = field(default_factory=dict)
    slowed: Mapping[str, JobFlows] = field(default_factory=dict)
    wanted: Mapping[str, WantedRows] = field(default_factory=dict)
    confirmed: Mapping[str, Confirmed] = field(default_factory=dict)
    speeds: Speeds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend:
    """A plan whose flows get other paths where no source port leads over the planned ones; all else stays.

    `jobs` are those of the plan, kept ones first. By flow id: `avoid` are the paths that found no port, and `reached`
    the links at the top of the fabric that the flow's probes were seen on, where that is known. The flows `stay` keep
    the paths that they have while the jobs run. The flows `seen` are in `jobs` where the hash leads their ports.
    """

    jobs: tuple[JobFlows, ...]
    avoid: Mapping[str, frozenset[tuple[str, ...]]]
    reached: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stay: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveredPins:
    """A job's pins by switch, but for severed flows, if it has such (`severed`); valid for these `flows`."""

    flows: JobFlows
    pins: Mapping[str, tuple[FlowRule, ...]]
    severed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What the newest generation of a job's plan took; times in nanoseconds."""

    solve_ns: int = 0
    install_ns: int = 0
    flows_moved: int = 0
    rules_installed: int = 0
    max_rules_on_a_switch: int = 0
    probed: bool = False
    paths_confirmed: int = 0
    oldest_confirmation_unix_ms: int = 0
    probes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One generation of a job's plan, as clients see it."""

    job_id: str
    tenant: str
    priority: int
    generation: int
    state: JobState
    reason: str
    lease_expires_unix_ms: int
    flows: JobFlows
    certificate: Certificate
