"""Shapes of virtual networks and of the controller itself."""

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from heddle.controller.dashboard.documents.shapes.state import TelemetryAge


class Vpc(TypedDict):
    """A VPC; `isolation`: whether the installed tables open exactly the intended paths: verified, violated, unknown.

    `isolation_why` has the first paths that differ, or what is not known. The verdict rests on tables that were read
    at `isolation_checked_ms` or later, of the newest generation where `isolation_is_newest`.
    """

    id: str
    tenant: str
    vni: int
    network: str
    subnets: list[str]
    endpoints: int
    isolation: str
    isolation_why: list[str]
    isolation_checked_ms: int | None
    isolation_age_ms: int | None
    isolation_is_newest: bool


class Gateway(TypedDict):
    """A gateway or balancer (`kind`), attached or detached; `role` is active, standby or single.

    `kept_vpcs` says by VPC what is served instead of its newest state, and why; `unknown_vpcs` are served, and the
    controller does not know them. null: not reported.
    """

    id: str
    kind: str
    vpc: str | None
    state: str
    pair: str | None
    role: str | None
    vtep: str
    generation: int
    wanted_generation: int
    refused: str
    kept_vpcs: dict[str, str]
    unknown_vpcs: list[str]
    connections: int | None
    connections_limit: int | None
    mappings: int | None
    mappings_limit: int | None
    age_ms: int | None


class Backend(TypedDict):
    """A back end of a load balancer; `health` is up, down or draining."""

    address: str
    weight: int
    health: str


class Balancer(TypedDict):
    """A port of a virtual IP, and the ids of the balancers that serve it."""

    id: str
    vpc: str
    vip: str
    served_by: list[str]
    backends: list[Backend]


class Networks(TypedDict):
    """Virtual networks."""

    vpcs: list[Vpc]
    gateways: list[Gateway]
    balancers: list[Balancer]


class SwitchHealth(TypedDict):
    """A switch's session since `since_ms`, and its rules; `installed_equals_wanted` is null while they are unknown.

    `connected` is null on a fabric that hashes: its switches have no session. `fault` is why no new job uses the switch
    although it is connected, "" where jobs may.
    """

    id: str
    connected: bool | None
    since_ms: int | None
    rules: int
    rule_limit: int | None
    installed_equals_wanted: bool | None
    fault: str


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


class ProbeAgents(TypedDict):
    """The hosts whose probe agents are attached, of those with a NIC; `missing` names the first that are not."""

    attached: int
    expected: int
    missing: list[str]


class HealthDocument(TypedDict):
    """The controller itself; `probe_agents` is null on a fabric that does not hash."""

    version: str
    leader: bool
    uptime_ms: int
    switches: list[SwitchHealth]
    probe_agents: ProbeAgents | None
    telemetry: TelemetryAge
    install_ms: InstallTimes
    loop_lag_ms: LoopLag
    http: HttpCounts
