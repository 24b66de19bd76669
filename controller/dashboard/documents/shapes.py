"""The shapes of the JSON documents: the types that the code writes, and the source of the OpenAPI document.

Ids are those of the fabric file and of the gRPC API. The arrays of `LinkFigures` are in the order of `Fabric.links`,
those of `SwitchFigures` in the order of `Fabric.switches`. Shares are rounded to three digits; null: not measured.
"""

from typing import NotRequired  # pydantic reads no other before Python 3.12

from typing_extensions import TypedDict

Flag = int


class Switch(TypedDict):
    """A switch; `tier` 0 is a leaf. `pod` numbers the groups of leaves that share their first upper switches."""

    id: str
    tier: int
    role: str
    pod: int | None


class Nic(TypedDict):
    """A NIC and the switch port that it is plugged into."""

    id: str
    host: str
    switch: str
    port: int
    rate_bps: int


class End(TypedDict):
    """One end of a link: a switch and the number of its port, or a NIC without one."""

    node: str
    port: int | None


Link = TypedDict(
    "Link", {"id": str, "from": End, "to": End, "capacity_bps": int, "kind": str}, total=True
)  # `from` is a keyword


class Fabric(TypedDict):
    """The fabric as built; it is the same as long as `generation` is."""

    fabric: str
    generation: int
    tiers: int
    switches: list[Switch]
    nics: list[Nic]
    links: list[Link]


class LinkFigures(TypedDict):
    """What changes of each link."""

    utilisation: list[float | None] | None
    planned: list[float] | None
    pause_share: list[float | None] | None
    up: list[Flag] | None
    drained: list[Flag] | None


class SwitchFigures(TypedDict):
    """What changes of each switch; `rule_limit` is null where the fabric file has none."""

    connected: list[Flag]
    rules: list[int]
    rule_limit: list[int | None]


class JobFigures(TypedDict):
    """A job: its fullest link, all jobs' load counted, and the lower bound of the whole plan."""

    id: str
    tenant: str
    state: str
    flows: int
    max_utilisation: float
    bound: float
    degraded: bool


class CongestedPort(TypedDict):
    """A raised condition of a port or NIC (`port` null); `root`: it is the cause of others or of itself."""

    switch: str
    port: int | None
    cause: str
    since_ms: int
    root: bool


class Counts(TypedDict):
    """Counts for the head of the page; `hot_links` are ports with a raised condition other than silence."""

    jobs: int
    flows: int
    switches_connected: int
    links_down: int
    hot_links: int


class TelemetryAge(TypedDict):
    """Whether telemetry is collected, and the age of its newest period."""

    configured: bool
    age_ms: int | None


class StateOf(TypedDict):
    """The state of the fabric; of the past, what is not recorded is null."""

    at_ms: int
    boot: str
    sequence: int
    links: LinkFigures
    switches: SwitchFigures | None
    jobs: list[JobFigures] | None
    congested: list[CongestedPort]
    counts: Counts | None
    telemetry: TelemetryAge


class TimelineEvent(TypedDict):
    """An event of the log: `kind` is for programs, `text` for people."""

    at_ms: int
    kind: str
    severity: str
    subject: str
    text: str


class Session(TypedDict):
    """Who the caller is, and the token that actions carry; `login`: the caller can log in here with a password."""

    user: str | None
    may_act: bool
    csrf: str | None
    login: bool


class LoginRequest(TypedDict):
    """The one login."""

    user: str
    password: str


class Matrix(TypedDict):
    """The load of each leaf (row) and switch above it (column); `of`: measured or planned. 1.0 is an even load."""

    of: str
    leaves: list[str]
    spines: list[str]
    up: list[list[float | None]]
    down: list[list[float | None]]
    imbalance_index: float


class Series(TypedDict):
    """What a port did over time, in buckets that begin at `t_ms`."""

    t_ms: list[int]
    utilisation: list[float]
    ecn_marked_per_s: list[float]
    pfc_rx_per_s: list[float]
    pfc_tx_per_s: list[float]
    drops_per_s: list[float]
    depth_bytes: list[int]


class PortDocument(TypedDict):
    """A port of a switch, or a NIC (`port` null), its peer, and its series in buckets of `bucket_s`."""

    switch: str
    port: int | None
    peer: str
    up: bool
    capacity_bps: int
    bucket_s: int
    series: Series


class JobLine(JobFigures):
    """A job in the list, with the reason of its newest generation."""

    generation: int
    priority: int
    reason: str


class Jobs(TypedDict):
    """All jobs, the oldest first."""

    jobs: list[JobLine]


class Certificate(TypedDict):
    """How good the whole plan is; `own` is the fullest link of this job. `proof` names the kind of the bound."""

    achieved: float
    own: float
    bound: float
    ecmp: float
    e_ecmp: float
    proof: str
    flows_slowed: int
    mean_share: float
    worst_share: float


class FlowLine(TypedDict):
    """A flow: the rate that it may send at on average, and the rate that its host measured."""

    id: str
    src: str
    dst: str
    planned_bps: int
    measured_bps: float | None
    links: list[str]
    udp_source_port: int


class Generation(TypedDict):
    """A generation of a job's plan, and why there is one."""

    generation: int
    at_ms: int | None
    state: str
    reason: str


class Sharing(TypedDict):
    """A job with flows on the same links."""

    job: str
    links: list[str]


class JobDocument(TypedDict):
    """A job with its first flows."""

    id: str
    tenant: str
    state: str
    reason: str
    generation: int
    priority: int
    lease_expires_ms: int
    certificate: Certificate
    flows: list[FlowLine]
    flows_total: int
    generations: list[Generation]
    shares_links_with: list[Sharing]


class Preview(JobDocument):
    """The plan of a job that is not submitted, and the planned utilisation of every link with it."""

    links_planned: list[float]


class PortPlace(TypedDict):
    """A port; of a NIC, or where the port is not known, `port` is null."""

    switch: str
    port: int | None


class HotPort(TypedDict):
    """A port with a raised condition: what it counted lately per second, and the jobs that are planned over it."""

    switch: str
    port: int | None
    priority: int | None
    cause: str
    value: float
    threshold: float
    since_ms: int
    stale: bool
    ecn_marked_per_s: float
    pfc_rx_per_s: float
    pfc_tx_per_s: float
    drops_per_s: float
    depth_bytes: int
    jobs: list[str]
    flows: int
    root_cause: str


Edge = TypedDict("Edge", {"from": PortPlace, "to": PortPlace})


class PauseTree(TypedDict):
    """Ports that pause each other, and the root: `nic` where a host is too slow; `circle`: a deadlock."""

    root: PortPlace
    nic: str | None
    circle: bool
    edges: list[Edge]


class CongestionDocument(TypedDict):
    """The raised conditions."""

    ports: list[HotPort]
    pause_trees: list[PauseTree]


class Timeline(TypedDict):
    """Events, oldest first; `recorded_from_ms` is the time of the oldest that is kept."""

    events: list[TimelineEvent]
    recorded_from_ms: int | None


class Vpc(TypedDict):
    """A VPC; `isolation`: whether its tables were verified. The controller does not verify them by itself."""

    id: str
    tenant: str
    vni: int
    network: str
    subnets: list[str]
    endpoints: int
    isolation: str


class Gateway(TypedDict):
    """A gateway: `state` is attached or detached, `role` active, standby or single; null: not reported."""

    id: str
    vpc: str | None
    state: str
    pair: str | None
    role: str | None
    vtep: str
    generation: int
    wanted_generation: int
    refused: str
    connections: int | None
    mappings: int | None
    mappings_limit: int | None
    age_ms: int | None


class Backend(TypedDict):
    """A back end of a balancer."""

    address: str
    weight: int
    health: str


class Balancer(TypedDict):
    """A balancer."""

    id: str
    vpc: str
    vip: str
    backends: list[Backend]


class Networks(TypedDict):
    """Virtual networks."""

    vpcs: list[Vpc]
    gateways: list[Gateway]
    balancers: list[Balancer]


class SwitchHealth(TypedDict):
    """A switch's session since `since_ms`, and its rules; `installed_equals_wanted` is null while they are unknown."""

    id: str
    connected: bool
    since_ms: int | None
    rules: int
    rule_limit: int | None
    installed_equals_wanted: bool | None


class InstallTimes(TypedDict):
    """The installation times of the newest generation of `count` jobs."""

    p50: float | None
    p99: float | None
    count: int


class LoopLag(TypedDict):
    """By how much the event loop was late in the last minute."""

    p50: float | None
    p99: float | None
    max: float | None


class HttpCounts(TypedDict):
    """The streams that are open, and what was refused past a limit."""

    clients: int
    refused: int


class HealthDocument(TypedDict):
    """The controller itself."""

    version: str
    leader: bool
    uptime_ms: int
    switches: list[SwitchHealth]
    telemetry: TelemetryAge
    install_ms: InstallTimes
    loop_lag_ms: LoopLag
    http: HttpCounts


class DrainRequest(TypedDict):
    """Drain a link or a switch, or return it to use; `dry_run` says what would move."""

    target: str
    undrain: NotRequired[bool]
    dry_run: NotRequired[bool]


class ReleaseRequest(TypedDict):
    """End a job; `dry_run` says what would be released."""

    job: str
    dry_run: NotRequired[bool]


class PreviewRequest(TypedDict):
    """A jobs file with one job (YAML), or the NICs of the ranks with one collective."""

    jobs: NotRequired[str]
    ranks: NotRequired[list[str]]
    collective: NotRequired[str]
    size_bytes: NotRequired[int]


class Done(TypedDict):
    """What an action has moved, or with `dry_run` would move: flows, and the jobs that they belong to."""

    dry_run: bool
    moves: int
    jobs: list[str]
    text: str


class Refusal(TypedDict):
    """Why a request is refused, a line for each problem."""

    error: str
