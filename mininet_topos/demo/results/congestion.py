"""Congestion figures of one run: marks, pauses and drops, from snapshots of the counter page. Pure functions."""

from collections.abc import Iterable, Sequence

from heddle.controller.model.fabric import Fabric, Nic
from heddle.foundation.traffic_class import LOSSLESS
from heddle.mininet_topos.demo.results.values import Congestion, CongestionSeries
from heddle.mininet_topos.measure.flow_run import NicCounters
from heddle.mininet_topos.traffic.workloads import Workload
from heddle.telemetry.counter_page import QUEUE_FIELDS, CounterSnapshot

INTERVAL_NS = 100_000_000
"""The minimum distance between two points of a time series."""


def congestion_of(
    fabric: Fabric,
    workload: Workload,
    snapshots: Sequence[CounterSnapshot],
    start_unix_ns: int,
    nics: Iterable[NicCounters],
) -> Congestion:
    """Return the totals between the last snapshot before the start and the last snapshot, and their time series.

    The last flow of the workload is the bystander. `snapshots` is in order and not empty.
    """
    before = [snapshot for snapshot in snapshots if snapshot.timestamp_unix_ns <= start_unix_ns]
    first = before[-1] if before else snapshots[0]
    points = [first, *(one for one in snapshots if one.timestamp_unix_ns > max(start_unix_ns, first.timestamp_unix_ns))]
    counters = list(nics)
    grown = points[-1].since(first)
    return Congestion(
        bystander=len(workload.flows) - 1,
        marked_packets=total(grown, "ecn_marked_packets"),
        cnps=sum(nic.np_cnp_sent for nic in counters),
        pfc_frames=total(grown, "pfc_tx_frames"),
        switch_paused_ns=total(grown, "paused_ns"),
        nic_paused_ns=1000 * sum(map(_paused_us, counters)),
        dropped_packets=total(grown, "dropped_packets"),
        series=_series(fabric, workload, points, start_unix_ns),
    )


def _paused_us(nic: NicCounters) -> int:
    return sum(nic.counters.get(f"rx_prio{each.priority}_pause_duration", 0) for each in LOSSLESS)


def total(snapshot: CounterSnapshot, field: str) -> int:
    """Return the sum of one counter over all ports and priorities."""
    return int(snapshot.queues[:, :, QUEUE_FIELDS.index(field)].sum())


def _series(
    fabric: Fabric, workload: Workload, snapshots: Sequence[CounterSnapshot], start_unix_ns: int
) -> CongestionSeries:
    nics = fabric.nic_by_id
    receiver, bystander = (nics[workload.flows[place].dst_nic] for place in (0, -1))
    steps = [(earlier, later, later.since(earlier)) for earlier, later in _apart(snapshots)]

    def counted(field: str) -> tuple[int, ...]:
        return tuple(total(grown, field) for _, _, grown in steps)

    def rate_bps(nic: Nic) -> tuple[int, ...]:
        return tuple(
            grown.queue(str(nic.port), nic.traffic_class.priority)["bytes"]
            * 8
            * 10**9
            // (later.timestamp_unix_ns - earlier.timestamp_unix_ns)
            for earlier, later, grown in steps
        )

    depth = QUEUE_FIELDS.index("depth_bytes")
    return CongestionSeries(
        times_ns=tuple(later.timestamp_unix_ns - start_unix_ns for _, later, _ in steps),
        receiver_bps=rate_bps(receiver),
        bystander_bps=rate_bps(bystander),
        marked_packets=counted("ecn_marked_packets"),
        pfc_frames=counted("pfc_tx_frames"),
        dropped_packets=counted("dropped_packets"),
        depth_bytes=tuple(int(later.queues[:, :, depth].max()) for _, later, _ in steps),
    )


def _apart(snapshots: Sequence[CounterSnapshot]) -> Iterable[tuple[CounterSnapshot, CounterSnapshot]]:
    """Yield consecutive pairs of snapshots that are at least `INTERVAL_NS` apart."""
    earlier = snapshots[0]
    for later in snapshots[1:]:
        if later.timestamp_unix_ns - earlier.timestamp_unix_ns >= INTERVAL_NS:
            yield earlier, later
            earlier = later
