"""Compute the rates that `heddle top` shows from two samples of `WatchPorts`. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from heddle.v1 import heddle_pb2 as pb

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRates:
    """Rates of a port or NIC between two of its samples; shares are 0 to 1.

    `ecn_share` is the marked share of packets sent. `paused_share` is that of the priority paused the longest. Depths
    are summed over priorities. `stale`: no newer sample arrived in time, and all values are old.
    """

    port: str
    stale: bool = False
    interval_s: float = 0.0
    utilisation: float = 0.0
    tx_bps: float = 0.0
    rx_bps: float = 0.0
    ecn_share: float = 0.0
    ecn_per_s: float = 0.0
    pfc_rx_per_s: float = 0.0
    pfc_tx_per_s: float = 0.0
    paused_share: float = 0.0
    depth_bytes: int = 0
    max_depth_bytes: int = 0
    drops_per_s: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Return all fields by name."""
        return asdict(self)


SORT_KEYS: dict[str, Callable[[PortRates], Any]] = {
    "utilisation": lambda row: -row.utilisation,
    "ecn": lambda row: (-row.ecn_share, -row.ecn_per_s),
    "pfc": lambda row: -(row.pfc_rx_per_s + row.pfc_tx_per_s),
    "pause": lambda row: -row.paused_share,
    "depth": lambda row: -row.depth_bytes,
    "drops": lambda row: -row.drops_per_s,
    "rx": lambda row: -row.rx_bps,
    "port": lambda row: natural(row.port),
}


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders leaf2:9 before leaf2:10."""
    words, digits = [], ""
    for letter in name + "\0":
        if letter.isdecimal():
            digits += letter
            continue
        if digits:
            words.append((0, int(digits), ""))
            digits = ""
        words.append((1, 0, letter))
    return tuple(words)


class Board:
    """The newest sample of each port, and the one that its last rates start from."""

    def __init__(self, capacity_bps: Mapping[str, int]) -> None:
        self._capacity_bps = capacity_bps
        self._newest: dict[str, pb.PortSample] = {}
        self._base: dict[str, pb.PortSample] = {}
        self._rates: dict[str, PortRates] = {}

    def put(self, sample: pb.PortSample) -> None:
        """Record a sample."""
        self._newest[sample.port] = sample
        self._base.setdefault(sample.port, sample)

    def __len__(self) -> int:
        return len(self._newest)

    def complete(self) -> bool:
        """Return whether every port that is not stale has two samples."""
        return bool(self._newest) and all(
            sample.stale or port in self._rates or sample.timestamp_unix_ns > self._base[port].timestamp_unix_ns
            for port, sample in self._newest.items()
        )

    def rows(self, sort: str) -> list[PortRates]:
        """Return every port with its rates since the last call, or its last rates if no newer sample arrived."""
        for port, sample in self._newest.items():
            base = self._base[port]
            if sample.timestamp_unix_ns > base.timestamp_unix_ns:
                self._rates[port] = between(base, sample, self._capacity_bps.get(port, 0))
                self._base[port] = sample
        known = (
            self._rates.get(port) or between(sample, sample, self._capacity_bps.get(port, 0))
            for port, sample in self._newest.items()
        )
        rows = [
            row if row.stale == (stale := self._newest[row.port].stale) else replace(row, stale=stale) for row in known
        ]
        return sorted(rows, key=lambda row: (SORT_KEYS[sort](row), natural(row.port)))


def between(before: pb.PortSample, after: pb.PortSample, capacity_bps: int) -> PortRates:
    """Return the rates between two samples of one port; a total that fell (the controller restarted) counts as 0."""
    interval_s = max(0, after.timestamp_unix_ns - before.timestamp_unix_ns) / SECOND_NS
    per_s = 1 / interval_s if interval_s else 0.0

    def grown(name: str) -> int:
        return max(0, int(getattr(after, name)) - int(getattr(before, name)))

    earlier = {queue.priority: queue for queue in before.queues}
    queues = [(earlier.get(queue.priority, pb.QueueSample()), queue) for queue in after.queues]

    def queued(name: str) -> list[int]:
        return [max(0, getattr(new, name) - getattr(old, name)) for old, new in queues]

    marked, tx_bps = sum(queued("ecn_marked_packets")), 8 * grown("tx_bytes") * per_s
    sent = max(grown("tx_packets"), sum(queued("packets")), marked)
    return PortRates(
        port=after.port,
        stale=after.stale,
        interval_s=interval_s,
        utilisation=tx_bps / capacity_bps if capacity_bps else 0.0,
        tx_bps=tx_bps,
        rx_bps=8 * grown("rx_bytes") * per_s,
        ecn_share=marked / sent if sent else 0.0,
        ecn_per_s=marked * per_s,
        pfc_rx_per_s=sum(queued("pfc_rx_frames")) * per_s,
        pfc_tx_per_s=sum(queued("pfc_tx_frames")) * per_s,
        paused_share=min(1.0, max(queued("paused_ns"), default=0) / SECOND_NS * per_s),
        depth_bytes=sum(queue.depth_bytes for queue in after.queues),
        max_depth_bytes=sum(queue.max_depth_bytes for queue in after.queues),
        drops_per_s=max(grown("drops"), sum(queued("dropped_packets"))) * per_s,
    )
