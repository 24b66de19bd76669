"""Configuration of a gateway's partner: identity, paths for heartbeats, mode and takeover."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address


class Mode(StrEnum):
    """How two healthy gateways divide the work."""

    ACTIVE_STANDBY = "active-standby"  # the gateway with the lower id serves, the other stands by
    ACTIVE_ACTIVE = "active-active"  # each serves its own VTEP; senders choose between the two


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A path to the partner, each end as ADDRESS:PORT. With two, one network failure does not cause a takeover."""

    listen: str
    partner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConfig:
    """The partner of a gateway; both gateways are configured alike, except for ids and addresses."""

    partner_id: str
    mode: Mode = Mode.ACTIVE_STANDBY
    paths: tuple[Path, ...]
    """Heartbeats use all paths (UDP), copies of connections the first (TCP, the same ports)."""
    takes_over: tuple[tuple[str, IPv4Address], ...] = ()
    """(interface, address) of the partner, served while the partner does not serve."""
    interval_ms: int = 50
    missed: int = 5
    """Consecutive heartbeats missed until the partner counts as dead."""
    preempt: bool = False
    """Whether a returned gateway takes its role back once it has a complete copy of connections."""
    hold_s: int = 30
    """Time of uninterrupted heartbeats before that."""
    key: bytes = b""
    """Shared secret that authenticates heartbeats and copies; empty for none."""
