"""A gateway's partner: who it is, how the two hear of each other, and which of them serves at first."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address


class Mode(StrEnum):
    """How two gateways share the work while both are well."""

    ACTIVE_STANDBY = "active-standby"  # the one with the lower id serves, the other waits
    ACTIVE_ACTIVE = "active-active"  # each serves its own VTEP; senders choose between the two


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way for heartbeats; with two of them, no single broken network looks like a partner's death."""

    local: str
    """ADDRESS:PORT to send from and listen at (UDP)."""
    remote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConfig:
    """The partner of a gateway; both are configured alike but for what is each one's own."""

    partner_id: str
    mode: Mode = Mode.ACTIVE_STANDBY
    heartbeats: tuple[Path, ...]
    records: Path | None = None
    """TCP: where copies of the partner's connections are taken, and where it takes ours."""
    takes_over: tuple[tuple[str, IPv4Address], ...] = ()
    """By interface: the address of the partner there, which is served as well while the partner is not."""
    interval_ms: int = 100
    missed: int = 5
    """Heartbeats that do not come until the partner counts as dead."""
    preempt: bool = False
    """Whether a gateway that is back takes over its share again by itself, once it has a copy of all connections."""
    hold_s: int = 30
    """For how long its partner must have heard it without a break before."""
    key: bytes = b""
    """Shared secret under which heartbeats and records are sealed; empty for none."""
