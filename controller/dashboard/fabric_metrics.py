"""Metrics of the fabric's ports, queues and NICs, rendered from a telemetry snapshot.

Names: ours for switches (`fabric_port_…`, `fabric_queue_…`, `fabric_link_…`); for NICs those of the RDMA exporter
(github.com/yuuki/rdma_exporter), so that its dashboards read both. Units are base units, but for the pause duration of
NICs, which that exporter has in microseconds. Labels are names of the fabric file. A port has series after its first
sample, a queue after its first count. Beyond MAX_SERIES whole ports are left out, and a metric counts them.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.controller.dashboard.exposition import Family, label_text, lines
from heddle.controller.model.fabric import Fabric
from heddle.controller.views.measured import link_utilisation
from heddle.telemetry.detection.window import SECOND_NS, Snapshot
from heddle.telemetry.samples.counters import (
    LINK_AT,
    NIC_COUNTERS,
    PRIORITIES,
    QUEUE_COUNTERS,
    link_column,
    nic_column,
    port_column,
    queue_columns,
)

MAX_SERIES = 500_000
Ints = NDArray[np.int64]

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
# Absent where the device does not count them.
LINK_FAMILIES = {
    "rx_crc_errors": Family("fabric_port_receive_crc_errors_total", "counter", "Frames received damaged.", PORT),
    "fec_corrected_codewords": Family(
        "fabric_port_fec_corrected_codewords_total", "counter", "Codewords that FEC has corrected.", PORT
    ),
    "fec_uncorrectable_codewords": Family(
        "fabric_port_fec_uncorrectable_codewords_total", "counter", "Codewords that FEC could not correct.", PORT
    ),
    "flaps": Family("fabric_port_link_flaps_total", "counter", "How often the link has lost its carrier.", PORT),
}
SPEED = Family("fabric_port_speed_bits_per_second", "gauge", "The rate that the link has now.", PORT)
LANES = Family("fabric_port_lanes", "gauge", "The lanes that the link has now.", PORT)
QUEUE_FAMILIES = {
    "ecn_marked_packets": Family(
        "fabric_queue_ecn_marked_packets_total", "counter", "Packets that a queue marked (CE).", QUEUE
    ),
    "packets": Family("fabric_queue_transmit_packets_total", "counter", "Packets sent from a queue.", QUEUE),
    "bytes": Family("fabric_queue_transmit_bytes_total", "counter", "Bytes sent from a queue.", QUEUE),
    "dropped_packets": Family("fabric_queue_dropped_packets_total", "counter", "Packets that a queue dropped.", QUEUE),
    "pfc_rx_frames": Family("fabric_port_pfc_rx_packets_total", "counter", "PFC frames received.", QUEUE),
    "pfc_tx_frames": Family("fabric_port_pfc_tx_packets_total", "counter", "PFC frames sent.", QUEUE),
    "paused_ns": Family("fabric_port_pfc_paused_seconds_total", "counter", "Time a queue was paused by PFC.", QUEUE),
}
DEPTH = Family("fabric_queue_depth_bytes", "gauge", "Bytes in a queue; absent while the port is stale.", QUEUE)
MAX_DEPTH = Family(
    "fabric_queue_max_depth_bytes", "gauge", "The high-water mark of a queue, as the device reports it.", QUEUE
)
WATCHDOG = Family(
    "fabric_queue_pfc_watchdog_active",
    "gauge",
    "1 while the switch's PFC watchdog discards a queue; absent while the port is stale.",
    QUEUE,
)
UTILIZATION = Family(
    "fabric_link_utilization_ratio",
    "gauge",
    "Measured transmit rate of a switch port over the last periods, divided by the capacity; absent while stale.",
    PORT,
)
STALE = Family("fabric_port_stale", "gauge", "1 if the newest sample is too old to be used.", PORT)
SAMPLED = Family(
    "fabric_port_sample_timestamp_seconds",
    "gauge",
    "The timestamp of the newest sample, by the clock of its source.",
    PORT,
)
LEFT_OUT = Family("fabric_metrics_ports_left_out", "gauge", "Ports without series, because there are too many.")
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
    "rdma_roce_pfc_pause_duration_total", "counter", "Microseconds that a NIC's priority was paused by PFC.", PFC
)
NIC_STALE = Family("rdma_device_stale", "gauge", "1 if the newest sample is too old to be used.", DEVICE)
FAMILIES = (
    *PORT_FAMILIES.values(), *LINK_FAMILIES.values(), SPEED, LANES,
    *QUEUE_FAMILIES.values(), DEPTH, MAX_DEPTH, WATCHDOG, UTILIZATION, STALE, SAMPLED,
    LEFT_OUT, *NIC_TRAFFIC.values(), *NIC_FAMILIES.values(), NIC_PAUSES, NIC_PAUSED, NIC_STALE,
)  # fmt: skip
SERIES_PER_PORT = len(PORT_FAMILIES) + len(LINK_FAMILIES) + 5
SERIES_PER_QUEUE = len(QUEUE_FAMILIES) + 3
SERIES_PER_NIC = len(NIC_TRAFFIC) + len(NIC_FAMILIES) + 1 + 3 * PRIORITIES


class _Shown(NamedTuple):
    """The rows and priorities that have series, each with its labels, in flat lists of text and arrays of numbers.

    With a tuple per series, the garbage collector would scan all of them and stop the process meanwhile.
    """

    ports: Ints
    port_labels: list[str]
    queues: tuple[Ints, Ints]
    queue_labels: list[str]
    nics: list[tuple[int, str]]
    nic_queues: list[tuple[int, int, str, str]]
    left_out: int


def fabric_lines(fabric: Fabric, snapshot: Snapshot, *, max_series: int = MAX_SERIES) -> Iterator[str]:
    """Yield the metrics of every port, queue and NIC that has a sample."""
    shown = _shown(fabric, snapshot, max_series)
    stale = snapshot.stale.tolist()
    yield from _port_lines(snapshot, shown)
    yield from lines(UTILIZATION, _utilisation(fabric, snapshot, shown))
    yield from _queue_lines(snapshot, shown)
    yield from _nic_lines(snapshot, shown, stale)
    yield from lines(LEFT_OUT, [("", shown.left_out)])


def _shown(fabric: Fabric, snapshot: Snapshot, max_series: int) -> _Shown:
    counted = snapshot.depth_bytes > 0
    for name in QUEUE_COUNTERS:
        counted |= snapshot.total[:, queue_columns(name)] > 0
    ports, port_labels, queue_labels = array("q"), [], []
    rows, priorities = array("q"), array("q")
    nics, nic_queues = [], []
    left, left_out = max_series, 0
    for row in np.flatnonzero(snapshot.heard).tolist():
        name = snapshot.names[row]
        nic = fabric.nic_by_id.get(name)
        used = np.flatnonzero(counted[row]).tolist()
        left -= SERIES_PER_NIC if nic else SERIES_PER_PORT + SERIES_PER_QUEUE * len(used)
        if left < 0:
            left_out += 1
        elif nic:
            labels = label_text(("host", nic.host), ("device", name), ("port", 1))
            nics.append((row, labels))
            for priority in used:
                of = f'{labels},direction="{{}}",priority="{priority}"'
                nic_queues.append((row, priority, of.replace("{}", "rx"), of.replace("{}", "tx")))
        else:
            switch, _, number = name.rpartition(":")
            labels = label_text(("switch", switch), ("port", number))
            ports.append(row)
            port_labels.append(labels)
            rows.extend([row] * len(used))
            priorities.extend(used)
            queue_labels += [f'{labels},priority="{priority}"' for priority in used]
    queues = np.array(rows, dtype=np.int64), np.array(priorities, dtype=np.int64)
    return _Shown(np.array(ports, dtype=np.int64), port_labels, queues, queue_labels, nics, nic_queues, left_out)


def _port_lines(snapshot: Snapshot, shown: _Shown) -> Iterator[str]:
    for name, family in PORT_FAMILIES.items():
        yield from _series(family, shown.port_labels, snapshot.total[shown.ports, port_column(name)])
    counted = snapshot.link.counted[shown.ports]
    for name, family in LINK_FAMILIES.items():
        column = link_column(name)
        yield from _known(family, shown, snapshot.total[shown.ports, column], counted[:, column - LINK_AT])
    for family, values in ((SPEED, snapshot.link.speed_bps), (LANES, snapshot.link.lanes)):
        yield from _known(family, shown, values[shown.ports], values[shown.ports] > 0)
    yield from _series(STALE, shown.port_labels, snapshot.stale[shown.ports].astype(np.int64))
    yield from _series(SAMPLED, shown.port_labels, snapshot.timestamp_ns[shown.ports] / SECOND_NS)


def _known(family: Family, shown: _Shown, values: NDArray[np.generic], which: NDArray[np.bool_]) -> Iterator[str]:
    """Yield the series of the ports of which a value is known."""
    return _series(family, list(compress(shown.port_labels, which.tolist())), values[which])


def _series(family: Family, labels: list[str], values: NDArray[np.generic]) -> Iterator[str]:
    return lines(family, zip(labels, values.tolist(), strict=True))


def _utilisation(fabric: Fabric, snapshot: Snapshot, shown: _Shown) -> Iterable[tuple[str, float]]:
    by_port = {link.partition(">")[0]: value for link, value in link_utilisation(fabric, snapshot).items()}
    names = (snapshot.names[row] for row in shown.ports.tolist())
    return ((labels, by_port[name]) for name, labels in zip(names, shown.port_labels, strict=True) if name in by_port)


def _queue_lines(snapshot: Snapshot, shown: _Shown) -> Iterator[str]:
    for name, family in QUEUE_FAMILIES.items():
        values = snapshot.total[:, queue_columns(name)][shown.queues]
        yield from _series(family, shown.queue_labels, values / SECOND_NS if name == "paused_ns" else values)
    fresh = ~snapshot.stale[shown.queues[0]]
    at = shown.queues[0][fresh], shown.queues[1][fresh]
    labels = list(compress(shown.queue_labels, fresh.tolist()))
    yield from _series(DEPTH, labels, snapshot.depth_bytes[at])
    yield from _series(MAX_DEPTH, labels, snapshot.max_depth_bytes[at])
    yield from _series(WATCHDOG, labels, snapshot.watchdog_active[at].astype(np.int64))


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
