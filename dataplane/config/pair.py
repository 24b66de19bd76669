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
    """A way to the partner, each end as ADDRESS:PORT. With two, one broken network does not look like a death."""

    listen: str
    partner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConfig:
    """The partner of a gateway; both are configured alike but for what is each one's own."""

    partner_id: str
    mode: Mode = Mode.ACTIVE_STANDBY
    paths: tuple[Path, ...]
    """Heartbeats go over all of them (UDP), copies of connections over the first (TCP, the same ports)."""
    takes_over: tuple[tuple[str, IPv4Address], ...] = ()
    """By interface: the partner's address there, which is served as well while the partner does not."""
    interval_ms: int = 50
    missed: int = 5
    """Heartbeats that do not come until the partner counts as dead."""
    preempt: bool = False
    """Whether a gateway that is back takes its share again by itself, once it has a copy of all connections."""
    hold_s: int = 30
    """For how long its partner must have heard it without a break before."""
    key: bytes = b""
    """Shared secret under which heartbeats and copies are sealed; empty for none."""
