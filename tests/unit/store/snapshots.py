"""Build snapshots with given totals, without windows."""

import numpy as np

from heddle.telemetry.detection.window import Links, Snapshot
from heddle.telemetry.samples.counters import COLUMNS, PRIORITIES, port_column, queue_columns

S = 1_000_000_000


def snapshot(now_s, total, *, depth=None, stale=None, names=("leaf1:1", "leaf1:2")):
    count = len(names)
    flags = np.zeros(count, dtype=np.bool_)
    words = np.zeros((count, PRIORITIES), dtype=np.uint64)
    held = words if depth is None else depth
    nothing = np.zeros((count, COLUMNS), dtype=np.uint64)
    numbers = np.zeros(count, dtype=np.int64)
    return Snapshot(
        now_ns=round(now_s * S),
        names=tuple(names),
        total=total,
        window_delta=nothing,
        window_interval_ns=numbers,
        depth_bytes=held,
        max_depth_bytes=held,
        watchdog_dropped_packets=words,
        watchdog_active=words > 0,
        timestamp_ns=numbers,
        sequence=numbers.astype(np.uint64),
        boot_id=numbers.astype(np.uint64),
        heard=~flags,
        stale=flags if stale is None else stale,
        link=Links.of(count),
    )


def totals(tx_bytes=0, marked=0, names=("leaf1:1", "leaf1:2")):
    """The first port's totals; the others have counted nothing."""
    found = np.zeros((len(names), COLUMNS), dtype=np.uint64)
    found[0, port_column("tx_bytes")] = tx_bytes
    found[0, queue_columns("ecn_marked_packets")][3] = marked
    return found
