"""Shapes of the fabric as built, of the matrix, and of ports."""

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12


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


class AsFound(TypedDict):
    """Cables that are used as they were found, not as the fabric file has them: how many, the first, and since when."""

    count: int
    first: list[str]
    since_ms: int | None


class Fabric(TypedDict):
    """The fabric as built; it is the same as long as `generation` is. `as_found` is null where all is as described."""

    fabric: str
    generation: int
    tiers: int
    switches: list[Switch]
    nics: list[Nic]
    links: list[Link]
    as_found: AsFound | None


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
