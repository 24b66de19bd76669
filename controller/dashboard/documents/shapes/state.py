"""Shapes of what changes: the state, congestion, events.

The arrays of `LinkFigures` are in the order of `Fabric.links`, those of `SwitchFigures` in the order of
`Fabric.switches`. Shares are rounded to three digits; null: not measured.
"""

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

Flag = int


class LinkFigures(TypedDict):
    """What changes of each link; `cabling` is 0 as described, 1 wrong, 2 missing, 3 unknown by what its ports hear.

    `bad` is 1 where its cable loses frames or is slow.
    """

    utilisation: list[float | None] | None
    planned: list[float] | None
    pause_share: list[float | None] | None
    up: list[Flag] | None
    drained: list[Flag] | None
    cabling: list[int] | None
    bad: list[Flag] | None


class SwitchFigures(TypedDict):
    """What changes of each switch; `rule_limit` is null where the fabric file has none.

    `connected` is null on a fabric that hashes: its switches have no session. `faults` says by switch why new jobs do
    not use it, for at most 20 of them.
    """

    connected: list[Flag] | None
    rules: list[int]
    rule_limit: list[int | None]
    faults: dict[str, str]


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
    """Counts for the head of the page; `hot_links` are ports with a raised condition other than silence.

    `vpcs_violated` are VPCs of which installed tables open or close other paths than intended, `vpcs_kept` those that
    a gateway serves as they were before, because it refuses what is wanted.
    """

    jobs: int
    flows: int
    switches_connected: int | None
    links_down: int
    hot_links: int
    vpcs_violated: int
    vpcs_kept: int


class TelemetryAge(TypedDict):
    """Whether telemetry is collected, the age of its newest period, and whether plans follow it, or it alarms only."""

    configured: bool
    age_ms: int | None
    acts: bool


class StateOf(TypedDict):
    """The state of the fabric; of the past, what is not recorded is null.

    `miscablings` are sentences: why cables are wrong or missing, and which wrong ones stay in use.
    """

    at_ms: int
    boot: str
    sequence: int
    links: LinkFigures
    switches: SwitchFigures | None
    jobs: list[JobFigures] | None
    congested: list[CongestedPort]
    miscablings: list[str] | None
    counts: Counts | None
    telemetry: TelemetryAge


class TimelineEvent(TypedDict):
    """An event of the log: `kind` is for programs, `text` for people."""

    at_ms: int
    kind: str
    severity: str
    subject: str
    text: str


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
