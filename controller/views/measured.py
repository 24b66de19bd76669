"""Map telemetry's measurements to the fabric's links."""

import numpy as np

from controller.model.fabric import Fabric
from telemetry.detection.window import Snapshot
from telemetry.samples.counters import port_column, queue_columns


def link_utilisation(fabric: Fabric, snapshot: Snapshot) -> dict[str, float]:
    """Return the utilisation of every directed link with fresh samples: its rate over the window by its capacity.

    The rate is that of the sender's egress counters; where the sender is silent, of the receiver's ingress counters.
    """
    fresh = (~snapshot.stale & snapshot.heard & (snapshot.window_interval_ns > 0)).tolist()
    sent = (8.0 * snapshot.rate(port_column("tx_bytes"))).tolist()
    received = (8.0 * snapshot.rate(port_column("rx_bytes"))).tolist()
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
