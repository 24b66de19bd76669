"""The shapes of the JSON documents: the types that the code writes, and the source of the OpenAPI document.

Ids are those of the fabric file and of the gRPC API. The arrays of `LinkFigures` are in the order of `Fabric.links`,
those of `SwitchFigures` in the order of `Fabric.switches`. Shares are rounded to three digits; null: not measured.
"""

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

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
