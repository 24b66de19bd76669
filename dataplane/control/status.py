"""What a gateway counts and holds, read from shared memory at one moment, as a value.

Counters are written while they are read, each whole by itself; sums over several agree once the gateway is at rest.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dataplane.config.local import LocalConfig
from dataplane.control.shared import Shared, Word
from dataplane.engine.counters import PORT_COUNTERS
from dataplane.engine.reasons import Drop, Punt


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Rows of a table that traffic fills."""

    used: int
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLook:
    """How one gateway of a pair stands with its partner."""

    partner_id: str
    mode: str
    shares: tuple[str, ...]
    """What the work of the two is divided in, each called by the member whose it is at first."""
    serves: tuple[str, ...]
    """Those that this one serves."""
    partner_serves: tuple[str, ...]
    """Those that the partner says it serves; none while it is not heard."""
    hears_partner: bool
    has_copy: bool
    """Whether it keeps a copy of all connections that the partner knows."""
    partner_has_copy: bool
    takeovers: int
    """Times that it took a share, the first one after its start included."""
    conflicts: int
    """Times that both served a share and this one yielded."""
    heartbeats_ignored: int
    """Old ones, and those of somebody else."""
    heartbeats_refused: int
    """Datagrams that are no heartbeats, or not sealed with our key."""
    records_sent: int
    """Records of connections, to the partner."""
    records_received: int
    records_refused: int
    """Of those received: without room, or about a connection that is another one's here."""
    copies_begun: int
    """Times that the partner was told all connections from the beginning, over a new link."""
    copies_anew: int
    """Times that it was told all again over the same link, for it was too slow and records were lost."""
    stalls: int
    """Times that more could have been told, had the partner answered faster."""
    faults: int
    """Links that ended because the other end was not the partner, or went silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One look at a gateway."""

    gateway_id: str
    pid: int
    """Of the data process, 0 while there is none."""
    backend: str
    """Kind of port; empty while there is no data process."""
    notices: tuple[str, ...]
    configured: int
    """Generation of the network that is to be served, by the controller's count."""
    generation_offered: int
    """Generation of tables, by the gateway's own."""
    generation_in_use: int
    restarts: int
    """Of the data process, unasked."""
    hangs: int
    """Times that it did nothing for a third of a second, though there was time for it."""
    busy_ns: int
    """Time in which there were packets."""
    ports: Mapping[str, Mapping[str, int]]
    """By interface: side, and PORT_COUNTERS."""
    drops: Mapping[str, int]
    """By reason, those that were counted."""
    punts: Mapping[str, int]
    tables: Mapping[str, Occupancy] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    """Frames that found a ring full, `to_slow_path` and `from_slow_path`; frames from there that were `withdrawn`, for
    they were not sent while they were true; `neighbours` that found no room in the slow path's table, and frames that
    were given up while `waiting` for one."""
    slow_path: Mapping[str, int] = field(default_factory=dict)
    """What became of punted packets."""
    pair: PairLook | None = None
    """How it stands with the partner, where there is one."""

    @property
    def received(self) -> int:
        """What came in by ports or from the slow path."""
        return sum(port["rx_packets"] + port["rx_injected"] for port in self.ports.values())

    @property
    def ended(self) -> int:
        """What was transmitted, punted or dropped. At rest this is `received`."""
        transmitted = sum(port["tx_packets"] for port in self.ports.values())
        return transmitted + sum(self.drops.values()) + sum(self.punts.values())

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it, with both sums."""
        return {**asdict(self), "received": self.received, "ended": self.ended}


def counted(local: LocalConfig, shared: Shared) -> dict[str, Any]:
    """Return the parts of a status that are counters."""
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
