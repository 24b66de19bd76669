"""What the fabric's ports, queues and NICs counted, as metrics, read off a snapshot.

Names: ours for switches (`fabric_port_…`, `fabric_queue_…`, `fabric_link_…`); for NICs those of the RDMA exporter
(github.com/yuuki/rdma_exporter), so that its dashboards read both. Units are base units, but for the pause duration of
NICs, which that exporter has in microseconds. Labels are names of the fabric file alone. A port has series once it was
heard, a queue once it counted anything; past MAX_SERIES whole ports are left out, and how many is told.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.brain.measured import link_utilisation
from controller.dashboard.exposition import Family, label_text, lines
from controller.model.fabric import Fabric
from telemetry.counters import NIC_COUNTERS, PRIORITIES, QUEUE_COUNTERS, nic_column, port_column, queue_columns
from telemetry.window import SECOND_NS, Snapshot

MAX_SERIES = 500_000
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]

PORT = ("switch", "port")
QUEUE = ("switch", "port", "priority")
DEVICE = ("host", "device", "port")
PFC = (*DEVICE, "direction", "priority")

PORT_FAMILIES = {
    "tx_bytes": Family("fabric_port_transmit_bytes_total", "counter", "Bytes sent by a switch port.", PORT),
    "rx_bytes": Family("fabric_port_receive_bytes_total", "counter", "Bytes received by a switch port.", PORT),
    "tx_packets": Family("fabric_port_transmit_packets_total", "counter", "Packets sent by a switch port.", PORT),
    "rx_packets": Family("fabric_port_receive_packets_total", "counter", "Packets received by a switch port.", PORT),
    "drops": Family("fabric_port_dropped_packets_total", "counter", "Packets that a switch port dropped.", PORT),
}
QUEUE_FAMILIES = {
    "ecn_marked_packets": Family(
        "fabric_queue_ecn_marked_packets_total", "counter", "Packets that a queue marked (CE).", QUEUE
    ),
    "packets": Family("fabric_queue_transmit_packets_total", "counter", "Packets sent from a queue.", QUEUE),
    "bytes": Family("fabric_queue_transmit_bytes_total", "counter", "Bytes sent from a queue.", QUEUE),
    "dropped_packets": Family("fabric_queue_dropped_packets_total", "counter", "Packets that a queue dropped.", QUEUE),
    "pfc_rx_frames": Family("fabric_port_pfc_rx_packets_total", "counter", "PFC frames received.", QUEUE),
    "pfc_tx_frames": Family("fabric_port_pfc_tx_packets_total", "counter", "PFC frames sent.", QUEUE),
    "paused_ns": Family("fabric_port_pfc_paused_seconds_total", "counter", "Time a queue stood still for PFC.", QUEUE),
}
DEPTH = Family("fabric_queue_depth_bytes", "gauge", "Bytes in a queue; absent while the port is stale.", QUEUE)
MAX_DEPTH = Family("fabric_queue_max_depth_bytes", "gauge", "Most bytes in a queue, as the device tells it.", QUEUE)
UTILIZATION = Family(
    "fabric_link_utilization_ratio",
    "gauge",
    "Measured rate out of a switch port over the last periods, by the link's capacity; absent while stale.",
    PORT,
)
STALE = Family("fabric_port_stale", "gauge", "1 where the newest sample is too old to be acted on.", PORT)
SAMPLED = Family("fabric_port_sample_timestamp_seconds", "gauge", "The source's own time of its newest sample.", PORT)
LEFT_OUT = Family("fabric_metrics_ports_left_out", "gauge", "Ports without series here, for there are too many.")
NIC_TRAFFIC = {
    "tx_bytes": Family("rdma_optional_tx_bytes_total", "counter", "Bytes sent by a NIC.", DEVICE),
    "rx_bytes": Family("rdma_optional_rx_bytes_total", "counter", "Bytes received by a NIC.", DEVICE),
    "tx_packets": Family("rdma_optional_tx_packets_total", "counter", "Packets sent by a NIC.", DEVICE),
    "rx_packets": Family("rdma_optional_rx_packets_total", "counter", "Packets received by a NIC.", DEVICE),
}
NIC_FAMILIES = {
    name: Family(f"rdma_{name}_total", "counter", f"The driver's counter {name}.", DEVICE) for name in NIC_COUNTERS
}
NIC_PAUSES = Family("rdma_roce_pfc_pause_frames_total", "counter", "PFC frames by direction and priority.", PFC)
NIC_PAUSED = Family(
    "rdma_roce_pfc_pause_duration_total", "counter", "Microseconds that a NIC's priority stood still for PFC.", PFC
)
NIC_STALE = Family("rdma_device_stale", "gauge", "1 where the newest sample is too old to be acted on.", DEVICE)
FAMILIES = (
    *PORT_FAMILIES.values(), *QUEUE_FAMILIES.values(), DEPTH, MAX_DEPTH, UTILIZATION, STALE, SAMPLED, LEFT_OUT,
    *NIC_TRAFFIC.values(), *NIC_FAMILIES.values(), NIC_PAUSES, NIC_PAUSED, NIC_STALE,
)  # fmt: skip
SERIES_PER_PORT = len(PORT_FAMILIES) + 3
SERIES_PER_QUEUE = len(QUEUE_FAMILIES) + 2
SERIES_PER_NIC = len(NIC_TRAFFIC) + len(NIC_FAMILIES) + 1 + 3 * PRIORITIES


class _Shown(NamedTuple):
    """What has series: rows with their labels, and (row, priority) pairs with theirs."""

    ports: list[tuple[int, str]]
    queues: list[tuple[int, int, str]]
    nics: list[tuple[int, str]]
    nic_queues: list[tuple[int, int, str, str]]
    left_out: int


def fabric_lines(fabric: Fabric, snapshot: Snapshot, *, max_series: int = MAX_SERIES) -> Iterator[str]:
    """Write every port, queue and NIC that was heard."""
    shown = _shown(fabric, snapshot, max_series)
    stale = snapshot.stale.tolist()
    yield from _port_lines(snapshot, shown, stale)
    yield from lines(UTILIZATION, _utilisation(fabric, snapshot, shown))
    yield from _queue_lines(snapshot, shown, stale)
    yield from _nic_lines(snapshot, shown, stale)
    yield from lines(LEFT_OUT, [("", shown.left_out)])


def _shown(fabric: Fabric, snapshot: Snapshot, max_series: int) -> _Shown:
    counted = np.zeros((len(snapshot.names), PRIORITIES), dtype=np.bool_)
    for name in QUEUE_COUNTERS:
        counted |= snapshot.total[:, queue_columns(name)] > 0
    counted |= snapshot.depth_bytes > 0
    found, room = _Shown([], [], [], [], 0), max_series
    left_out = 0
    for row in np.flatnonzero(snapshot.heard).tolist():
        name = snapshot.names[row]
        nic = fabric.nic_by_id.get(name)
        priorities = np.flatnonzero(counted[row]).tolist()
        room -= SERIES_PER_NIC if nic else SERIES_PER_PORT + SERIES_PER_QUEUE * len(priorities)
        if room < 0:
            left_out += 1
        elif nic:
            labels = label_text(("host", nic.host), ("device", name), ("port", 1))
            found.nics.append((row, labels))
            for priority in priorities:
                of = f'{labels},direction="{{}}",priority="{priority}"'
                found.nic_queues.append((row, priority, of.replace("{}", "rx"), of.replace("{}", "tx")))
        else:
            switch, _, number = name.rpartition(":")
            labels = label_text(("switch", switch), ("port", number))
            found.ports.append((row, labels))
            found.queues.extend((row, priority, f'{labels},priority="{priority}"') for priority in priorities)
    return found._replace(left_out=left_out)


def _port_lines(snapshot: Snapshot, shown: _Shown, stale: list[bool]) -> Iterator[str]:
    for name, family in PORT_FAMILIES.items():
        total = snapshot.total[:, port_column(name)].tolist()
        yield from lines(family, ((labels, total[row]) for row, labels in shown.ports))
    sampled = (snapshot.timestamp_ns / SECOND_NS).tolist()
    yield from lines(STALE, ((labels, int(stale[row])) for row, labels in shown.ports))
    yield from lines(SAMPLED, ((labels, sampled[row]) for row, labels in shown.ports))


def _utilisation(fabric: Fabric, snapshot: Snapshot, shown: _Shown) -> Iterable[tuple[str, float]]:
    by_port = {link.partition(">")[0]: value for link, value in link_utilisation(fabric, snapshot).items()}
    names = snapshot.names
    return ((labels, by_port[names[row]]) for row, labels in shown.ports if names[row] in by_port)


def _queue_lines(snapshot: Snapshot, shown: _Shown, stale: list[bool]) -> Iterator[str]:
    for name, family in QUEUE_FAMILIES.items():
        values: list[list[float]] = snapshot.total[:, queue_columns(name)].tolist()
        scale = 1 / SECOND_NS if name == "paused_ns" else 1
        yield from lines(family, ((labels, values[row][priority] * scale) for row, priority, labels in shown.queues))
    depth, most = snapshot.depth_bytes.tolist(), snapshot.max_depth_bytes.tolist()
    fresh = [queue for queue in shown.queues if not stale[queue[0]]]
    yield from lines(DEPTH, ((labels, depth[row][priority]) for row, priority, labels in fresh))
    yield from lines(MAX_DEPTH, ((labels, most[row][priority]) for row, priority, labels in fresh))


def _nic_lines(snapshot: Snapshot, shown: _Shown, stale: list[bool]) -> Iterator[str]:
    for name, family in NIC_TRAFFIC.items():
        total = snapshot.total[:, port_column(name)].tolist()
        yield from lines(family, ((labels, total[row]) for row, labels in shown.nics))
    for name, family in NIC_FAMILIES.items():
        total = snapshot.total[:, nic_column(name)].tolist()
        yield from lines(family, ((labels, total[row]) for row, labels in shown.nics))
    received = snapshot.total[:, queue_columns("pfc_rx_frames")].tolist()
    sent = snapshot.total[:, queue_columns("pfc_tx_frames")].tolist()
    paused = snapshot.total[:, queue_columns("paused_ns")].tolist()
    pairs = shown.nic_queues
    frames = [(rx, received[row][priority]) for row, priority, rx, _ in pairs]
    frames += [(tx, sent[row][priority]) for row, priority, _, tx in pairs]
    yield from lines(NIC_PAUSES, frames)
    yield from lines(NIC_PAUSED, ((rx, paused[row][priority] // 1_000) for row, priority, rx, _ in pairs))
    yield from lines(NIC_STALE, ((labels, int(stale[row])) for row, labels in shown.nics))
