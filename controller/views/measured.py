"""Map telemetry's measurements to the fabric's links."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.controller.model.fabric import Fabric
from heddle.telemetry.detection.window import Snapshot
from heddle.telemetry.samples.counters import port_column, queue_columns

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


class LinkRows(NamedTuple):
    """The rows of both ends of every directed link in a snapshot's arrays, -1 where it has none."""

    src: Ints
    dst: Ints
    capacity_bps: Floats

    @classmethod
    def of(cls, fabric: Fabric, names: tuple[str, ...]) -> "LinkRows":
        """Return the rows of a fabric's links in snapshots of these ports; they hold for every such snapshot."""
        row = {name: number for number, name in enumerate(names)}
        links = fabric.directed_links
        return cls(
            np.array([row.get(link.src, -1) for link in links], dtype=np.int64),
            np.array([row.get(link.dst, -1) for link in links], dtype=np.int64),
            np.array([link.capacity_bps for link in links], dtype=np.float64),
        )

    def picked(self, sent: Floats, received: Floats, known: Flags) -> Floats:
        """Return a value per link: of the sender's row if known, else of the receiver's, else nan."""
        by_sender, by_receiver = (np.append(known, False)[rows] for rows in (self.src, self.dst))
        fallback = np.where(by_receiver, np.append(received, np.nan)[self.dst], np.nan)
        picked: Floats = np.where(by_sender, np.append(sent, np.nan)[self.src], fallback)
        return picked


def utilisation_of_links(rows: LinkRows, snapshot: Snapshot, before: Totals | None = None) -> Floats:
    """Return the utilisation of every directed link: its rate over the window by its capacity; nan where not measured.

    The rate is that of the sender's egress counters; where the sender is silent, of the receiver's ingress counters.
    With the totals at an earlier time, it is the rate since then.
    """
    if before is None:
        sent, received = (8.0 * snapshot.rate(port_column(name)) for name in ("tx_bytes", "rx_bytes"))
        known = snapshot.window_interval_ns > 0
    else:
        sent, received, known = Totals.of(snapshot).rates_since(before)
    return rows.picked(sent, received, _fresh(snapshot) & known) / rows.capacity_bps


def pause_share_of_links(rows: LinkRows, snapshot: Snapshot) -> Floats:
    """Return the share of the window in which PFC stopped each link's sender; nan without fresh samples of the sender.

    It is that of the priority that was paused most.
    """
    paused_ns = snapshot.window_delta[:, queue_columns("paused_ns")].max(axis=1)
    share = paused_ns / np.maximum(snapshot.window_interval_ns, 1)
    return rows.picked(share, np.full_like(share, np.nan), _fresh(snapshot) & (snapshot.window_interval_ns > 0))


def _fresh(snapshot: Snapshot) -> Flags:
    return ~snapshot.stale & snapshot.heard


def link_utilisation(fabric: Fabric, snapshot: Snapshot, before: Totals | None = None) -> dict[str, float]:
    """Return `utilisation_of_links` of the links with fresh samples by id."""
    found = utilisation_of_links(LinkRows.of(fabric, snapshot.names), snapshot, before).tolist()
    links = zip(fabric.directed_links, found, strict=True)
    return {link.id: value for link, value in links if value == value}


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
