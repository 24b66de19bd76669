"""Map telemetry's measurements to the fabric's links."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric
from telemetry.detection.window import Snapshot
from telemetry.samples.counters import port_column, queue_columns

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


class Totals(NamedTuple):
    """The bytes that every port had sent and received at a time of its own, and which ports had been heard."""

    tx_bytes: Words
    rx_bytes: Words
    timestamp_ns: Ints
    heard: Flags

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Totals":
        """Return the totals of a snapshot."""
        tx_bytes, rx_bytes = (snapshot.total[:, port_column(name)].copy() for name in ("tx_bytes", "rx_bytes"))
        return cls(tx_bytes, rx_bytes, snapshot.timestamp_ns, snapshot.heard)

    def rates_since(self, before: "Totals") -> tuple[Floats, Floats, Flags]:
        """Return the rates in bit/s at which ports have sent and received since then, and of which ports they are."""
        interval_ns = np.where(before.heard, self.timestamp_ns - before.timestamp_ns, 0)
        per_byte = 8e9 / np.maximum(interval_ns, 1)
        sent, received = self.tx_bytes - before.tx_bytes, self.rx_bytes - before.rx_bytes
        return sent * per_byte, received * per_byte, interval_ns > 0


def link_utilisation(fabric: Fabric, snapshot: Snapshot, before: Totals | None = None) -> dict[str, float]:
    """Return the utilisation of every directed link with fresh samples: its rate over the window by its capacity.

    The rate is that of the sender's egress counters; where the sender is silent, of the receiver's ingress counters.
    With the totals at an earlier time, it is the rate since then.
    """
    if before is None:
        rates = (8.0 * snapshot.rate(port_column(name)) for name in ("tx_bytes", "rx_bytes"))
        (sent, received), known = (each.tolist() for each in rates), snapshot.window_interval_ns > 0
    else:
        sent_bps, received_bps, known = Totals.of(snapshot).rates_since(before)
        sent, received = sent_bps.tolist(), received_bps.tolist()
    fresh = (~snapshot.stale & snapshot.heard & known).tolist()
    rows = {name: row for row, name in enumerate(snapshot.names) if fresh[row]}
    found = {}
    for link, src, dst, capacity_bps in _links(fabric):
        if (row := rows.get(src)) is not None:
            found[link] = sent[row] / capacity_bps
        elif (row := rows.get(dst)) is not None:
            found[link] = received[row] / capacity_bps
    return found


def pfc_queues(snapshot: Snapshot) -> dict[tuple[str, int], tuple[bool, bool]]:
    """Return (was paused, paused its peer) for ports and priorities with PFC in the window."""
    window = snapshot.window_delta
    paused = (window[:, queue_columns("pfc_rx_frames")] > 0) | (window[:, queue_columns("paused_ns")] > 0)
    pausing = window[:, queue_columns("pfc_tx_frames")] > 0
    names = snapshot.names
    return {
        (names[row], priority): (bool(paused[row, priority]), bool(pausing[row, priority]))
        for row, priority in np.argwhere(paused | pausing).tolist()
    }


def _links(fabric: Fabric) -> list[tuple[str, str, str, int]]:
    """Return every directed link with its ends and capacity."""
    found = []
    for cable in fabric.cables:
        lower, upper = str(cable.lower), str(cable.upper)
        found.append((cable.up_link, lower, upper, cable.capacity_bps))
        found.append((cable.down_link, upper, lower, cable.capacity_bps))
    for nic in fabric.nics:
        port = str(nic.port)
        found.append((nic.up_link, nic.id, port, nic.capacity_bps))
        found.append((nic.down_link, port, nic.id, nic.capacity_bps))
    return found
