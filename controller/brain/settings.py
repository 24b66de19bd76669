"""What an operator may set of the brain's decisions: each with its default, its range and what the config file says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from heddle.controller.model.cabling import CablingPolicy
from heddle.controller.model.event import JudgedCable
from heddle.controller.model.moves import DEFAULT_MOVES, Cause, MoveLimit


class Range(NamedTuple):
    """The key of a setting in the config file of `heddle run`, its least and greatest value, and what it means."""

    key: str
    least: int
    most: int | None
    text: str


def _setting(default: int, least: int, most: int | None, text: str, key: str = "") -> Any:
    """Return a field that has a key of its own in the config file, by default with the same name."""
    return field(default=default, metadata={"range": Range(key, least, most, text)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits that an operator may set; times in milliseconds."""

    default_lease_ms: int = _setting(
        3_600_000, 1_000, 2_592_000_000, "the lease of a job that requests none, milliseconds"
    )
    max_lease_ms: int = _setting(2_592_000_000, 1_000, None, "the longest lease a job may request, milliseconds")
    max_waiting: int = _setting(4_096, 1, 65_536, "requests that may wait for the planner; more are refused")
    max_suggestions_waiting: int = 64
    max_previews_waiting: int = 64
    max_jobs: int = _setting(10_000, 1, 1_000_000, "jobs that may hold paths at one time")
    gateway_timeout_ms: int = _setting(
        5_000, 100, 60_000, "how long a change of a VPC waits for gateways to acknowledge it, milliseconds"
    )
    max_gateways: int = 4_096
    moves: Mapping[Cause, MoveLimit] = field(default_factory=lambda: DEFAULT_MOVES)
    hold_ms: int = _setting(
        500, 0, 60_000,
        "a port that came up is used after so long, milliseconds; doubled by each failure in a minute", "port_hold_ms",
    )  # fmt: skip
    settle_ms: int = _setting(
        500, 100, 60_000,
        "on a fabric that hashes, ports are confirmed again so long after a link failed or returned, and"
        " then at intervals that double, up to half a minute: routers may change their routes late; milliseconds",
        "route_settle_ms",
    )  # fmt: skip
    pin_grace_ms: int = _setting(
        60_000, 0, 3_600_000, "after a start, pins of jobs that are not known stay for so long, milliseconds"
    )
    audit_ms: int = _setting(
        5_000, 100, 3_600_000, "the rules of every switch are read and compared once in this time, milliseconds"
    )
    acts_on_telemetry: bool = True
    """Whether telemetry may move flows; otherwise it raises alarms only."""
    period_ms: int = 1_000
    """The sampling period of telemetry."""
    quarantine_ms: int = _setting(
        10_000, 0, 3_600_000,
        "a NIC in quarantine returns when it has not stormed for so long, milliseconds; 0: no quarantine",
    )  # fmt: skip
    follow_ms: int = _setting(
        25, 0, 10_000, "hosts follow a published plan in this time, milliseconds; rules that need that wait so long"
    )
    congestion_pause_ms: int = _setting(
        5_000, 100, 3_600_000,
        "after moving flows off a congested port, the next move waits, milliseconds; doubled by each",
    )  # fmt: skip
    is_journaled: bool = False
    """Whether what has to survive a restart is written to a journal."""
    generation_floor: int = 0
    """Generations of virtual networks are at least this; 0: at least the Unix time in milliseconds."""
    cabling: CablingPolicy = CablingPolicy.EXCLUDE
    cabling_max_percent: int = _setting(
        25, 0, 100, "wrong cables stay in use where more than this share of all cables would be out of use, percent"
    )

    def acts_on(self, found: JudgedCable) -> bool:
        """Return whether plans follow what is known of a bad cable: what probes show or NICs deny, in any case."""
        return self.acts_on_telemetry or bool(found.probed or found.denied_by)


RANGES: Mapping[str, Range] = {
    each.name: each.metadata["range"]._replace(key=each.metadata["range"].key or each.name)
    for each in fields(Settings)
    if "range" in each.metadata
}
"""By name those that have a key of their own in the config file."""
