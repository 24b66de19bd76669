"""Congestion: hot ports and the trees of pauses."""

from collections.abc import Iterator, Mapping

from heddle.controller.brain.state import State
from heddle.controller.dashboard.documents.fabric import end_of
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.state import HotPort, PauseTree, PortPlace
from heddle.controller.views.congestion import CIRCLE, Congested, congestion
from heddle.controller.views.measured import pfc_queues
from heddle.telemetry.detection.window import SECOND_NS, Snapshot
from heddle.telemetry.samples.counters import port_column, queue_columns

MAX_JOBS = 100


def congestion_document(moment: Moment) -> Mapping[str, object]:
    """Return the raised conditions (`CongestionDocument`)."""
    if moment.tick is None or not moment.tick.active:
        return {"ports": [], "pause_trees": []}
    snapshot = moment.tick.snapshot
    found = congestion(moment.state, moment.tick.active, pfc_queues(snapshot))
    return {"ports": _ports(moment.state, snapshot, found), "pause_trees": list(pause_trees(moment.state, found))}


def place_of(name: str) -> PortPlace:
    """Return the place of a port or NIC."""
    end = end_of(name)
    return {"switch": end["node"], "port": end["port"]}


def pause_trees(state: State, found: tuple[Congested, ...]) -> Iterator[PauseTree]:
    """Yield a tree for each root that pauses lead to."""
    edges: dict[str, dict[tuple[str, str], None]] = {}
    for each in found:
        for pair in zip(each.trail, each.trail[1:], strict=False):
            edges.setdefault(each.root_cause, {})[pair] = None
    for cause, pairs in edges.items():
        root = cause.removeprefix(CIRCLE)
        yield {
            "root": place_of(root),
            "nic": root if root in state.fabric.nic_by_id else None,
            "circle": cause != root,
            "edges": [{"from": place_of(first), "to": place_of(second)} for first, second in pairs],
        }


def _ports(state: State, snapshot: Snapshot, found: tuple[Congested, ...]) -> Iterator[HotPort]:
    row_of = {name: row for row, name in enumerate(snapshot.names)}
    for each in found:
        signal = each.signal
        row = row_of[signal.port]
        place = place_of(signal.port)
        yield {
            **place,
            "priority": signal.priority,
            "cause": signal.kind.value,
            "value": signal.value,
            "threshold": signal.threshold,
            "since_ms": signal.since_unix_ns // 1_000_000,
            "stale": signal.stale,
            "ecn_marked_per_s": _per_s(snapshot, row, queue_columns("ecn_marked_packets")),
            "pfc_rx_per_s": _per_s(snapshot, row, queue_columns("pfc_rx_frames")),
            "pfc_tx_per_s": _per_s(snapshot, row, queue_columns("pfc_tx_frames")),
            "drops_per_s": _per_s(snapshot, row, slice(port_column("drops"), port_column("drops") + 1)),
            "depth_bytes": int(snapshot.depth_bytes[row].max()),
            "jobs": _jobs_over(state, signal.port),
            "flows": each.flows,
            "root_cause": each.root_cause,
        }


def _per_s(snapshot: Snapshot, row: int, columns: slice) -> float:
    """Return the growth of some counters of a port per second, over the window."""
    interval_ns = int(snapshot.window_interval_ns[row])
    return (
        round(int(snapshot.window_delta[row, columns].sum()) * SECOND_NS / interval_ns, 3) if interval_ns > 0 else 0.0
    )


def _jobs_over(state: State, port: str) -> list[str]:
    peer = state.fabric.peer_by_name.get(port)
    link = f"{port}>{peer}"
    return [job_id for job_id, job in state.jobs.items() if link in job.flows.link_loads_bps][:MAX_JOBS]
