"""The status of a gateway: counters and table occupancy, read from shared memory at one moment, as a value.

The data process writes counters while they are read. Each counter is consistent by itself; sums over several are exact
once the gateway is idle.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.control.process.shared import Shared, Word
from heddle.dataplane.engine.counters import PORT_COUNTERS
from heddle.dataplane.engine.reasons import Drop, Punt


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Rows used and available in a table that traffic fills."""

    used: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStatus:
    """Status of the pair, as one of its gateways sees it."""

    partner_id: str
    mode: str
    shares: tuple[str, ...]
    """The pair's roles, each named after the member that owns it at first."""
    serves: tuple[str, ...]
    """Roles that this gateway serves."""
    partner_serves: tuple[str, ...]
    """Roles that the partner reports to serve; none while it is not heard."""
    hears_partner: bool
    has_copy: bool
    """Whether this gateway keeps a complete copy of the partner's connections."""
    partner_has_copy: bool
    takeovers: int
    """Times that this gateway took a role, the first after its start included."""
    conflicts: int
    """Times that both served a role and this gateway yielded."""
    heartbeats_ignored: int
    """Heartbeats that were old, or from or to another gateway."""
    heartbeats_refused: int
    """Datagrams that are malformed, or not sealed with the configured key."""
    records_sent: int
    """Connection records sent to the partner."""
    records_received: int
    records_refused: int
    """Records received but not stored: no room, or they conflict with a connection of this gateway."""
    copies_begun: int
    """Complete copies begun over a new TCP connection."""
    copies_anew: int
    """Complete copies begun again over the same TCP connection, because records were lost to a slow partner."""
    stalls: int
    """Times that sending stopped until the partner acknowledged."""
    faults: int
    """TCP connections closed because the other end was not the partner, or timed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A snapshot of a gateway."""

    gateway_id: str
    pid: int
    """Process id of the data process; 0 while none runs."""
    backend: str
    """Port backend in use; empty while no data process runs."""
    notices: tuple[str, ...]
    configured: int
    """Generation of the network configuration, as the controller counts."""
    generation_offered: int
    """Generation of the tables published last, as the gateway counts."""
    generation_in_use: int
    restarts: int
    """Unplanned restarts of the data process."""
    hangs: int
    """Times that the data process made no progress for a third of a second (`liveness`)."""
    busy_ns: int
    """Time that the data process spent on bursts with packets."""
    ports: Mapping[str, Mapping[str, int]]
    """PORT_COUNTERS by interface."""
    drops: Mapping[str, int]
    """Packets by drop reason; reasons with 0 are left out."""
    punts: Mapping[str, int]
    tables: Mapping[str, Occupancy] = field(default_factory=dict)
    gave_way: int = 0
    """Closed and half-open connections that ended early, for lack of room for new ones."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Frames dropped because a ring was full, `to_slow_path` and `from_slow_path`; frames of the slow path `withdrawn`
    because they became outdated before they were sent; `neighbours` for which the slow path's table had no room; and
    frames dropped while `waiting` for a neighbour."""
    slow_path: Mapping[str, int] = field(default_factory=dict)
    """Punted packets by outcome."""
    pair: PairStatus | None = None
    """Status of the pair; None for a gateway without a partner."""
    kept_vpcs: Mapping[str, str] = field(default_factory=dict)
    """By VPC that is not served as the controller wants: what is served instead, and why."""
    unknown_vpcs: tuple[str, ...] = ()
    """VPCs that stay in force although the controller does not know them."""

    @property
    def received(self) -> int:
        """Packets received from ports or from the slow path, and fragments made of them."""
        return sum(port["rx_packets"] + port["rx_injected"] + port["rx_fragments"] for port in self.ports.values())

    @property
    def ended(self) -> int:
        """Packets transmitted, punted or dropped; equals `received` once the gateway is idle."""
        transmitted = sum(port["tx_packets"] for port in self.ports.values())
        return transmitted + sum(self.drops.values()) + sum(self.punts.values())

    def as_json(self) -> dict[str, Any]:
        """Return the status as JSON values, with both sums."""
        return {**asdict(self), "received": self.received, "ended": self.ended}


def counted(local: LocalConfig, shared: Shared) -> dict[str, Any]:
    """Return the fields of `Status` that are counters in shared memory."""
    counters = shared.counters
    names = PORT_COUNTERS.names or ()
    return {
        "generation_in_use": int(shared.words[Word.IN_USE]),
        "busy_ns": int(shared.words[Word.BUSY_NS]),
        "ports": {
            one.name: {name: int(counters.ports[i][name]) for name in names} for i, one in enumerate(local.interfaces)
        },
        "drops": _by_name(counters.drops.tolist(), Drop),
        "punts": _by_name(counters.punts.tolist(), Punt),
    }


def _by_name(counts: list[int], reasons: type[Drop] | type[Punt]) -> dict[str, int]:
    return {reason.name.lower(): counts[reason] for reason in reasons if counts[reason]}
