"""Serve TelemetryService: port samples, conditions and events."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from heddle.controller.access.call import current
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.peer import caller_of
from heddle.controller.api.worker import in_worker
from heddle.controller.brain.state import State
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import NotFoundError
from heddle.controller.model.log_event import LogEvent
from heddle.controller.runtime.loop import Loop
from heddle.controller.runtime.telemetry import EVENTS, Telemetry, TelemetryTick
from heddle.controller.runtime.watch import refuse_more
from heddle.controller.views.congestion import CIRCLE, Congested, congestion
from heddle.controller.views.measured import pfc_queues
from heddle.telemetry.detection.window import Snapshot
from heddle.telemetry.samples.counters import (
    LINK_AT,
    LINK_COUNTERS,
    NIC_COUNTERS,
    PORT_COUNTERS,
    QUEUE_COUNTERS,
    QUEUE_GAUGES,
    nic_column,
    queue_columns,
)
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

MAX_PAST_EVENTS = 10_000
PORTS_AT_ONCE = 256
"""Samples that are encoded in one call of a worker thread."""

Context = Any
Ints = NDArray[np.int64]


class TelemetryService(rpc.TelemetryServiceServicer):
    """Port samples, raised conditions and events."""

    def __init__(self, loop: Loop, telemetry: Telemetry) -> None:
        self._loop, self._telemetry = loop, telemetry

    async def WatchPorts(self, request: pb.WatchPortsRequest, context: Context) -> AsyncIterator[pb.PortSample]:
        """Stream the newest sample of each port, then every newer one; a slow reader misses samples in between."""
        async with errors_as_status(context):
            telemetry = self._telemetry.required()
            peer = caller_of(context)
            refuse_more(telemetry.port_readers, peer)
            telemetry.port_readers[peer] += 1
            try:
                number, tick = await telemetry.ticks.after(0)
                rows = _rows(tick.snapshot, request.ports, current().scope.hidden_ports)
                sent = np.full((rows.size, 2), -1, dtype=np.int64)
                while True:
                    for some in _fresh(tick.snapshot, rows, sent):
                        for sample in await in_worker(samples_to, tick.snapshot, some):
                            yield sample
                    later, tick = await telemetry.ticks.after(number)
                    telemetry.skipped_ticks += later - number - 1
                    number = later
            finally:
                telemetry.port_readers -= Counter((peer,))  # drops what is zero

    async def ListCongestion(self, request: pb.ListCongestionRequest, context: Context) -> pb.ListCongestionReply:
        """Return every raised condition, the planned flows that it affects, and its origin."""
        async with errors_as_status(context):
            scope, state, tick = current().scope, self._loop.state, self._telemetry.newest()
            own = None if scope.tenant is None else scope.state(state)
            return await in_worker(congestion_to, state, tick, own, scope.hidden_ports)

    async def WatchEvents(self, request: pb.WatchEventsRequest, context: Context) -> AsyncIterator[pb.Event]:
        """Stream the stored events from a time on, then (unless history_only) every new event."""
        async with errors_as_status(context):
            seen = current().event
            watch = self._telemetry.events.open(EVENTS, caller_of(context))
            try:
                past: tuple[LogEvent, ...] = ()
                if request.since_unix_ns or request.history_only:
                    past = await in_worker(self._telemetry.past, request.since_unix_ns, MAX_PAST_EVENTS)
                for event in past:
                    if (shown := seen(event)) is not None:
                        yield event_to(shown)
                if request.history_only:
                    return
                known, skipped = set(past), 0
                async for event in watch:
                    if watch.skipped > skipped:
                        yield _skipped(event, watch.skipped - skipped)
                        skipped = watch.skipped
                    # An event may be published between the opening of the watch and the reading of the history.
                    if event not in known and (shown := seen(event)) is not None:
                        yield event_to(shown)
            finally:
                self._telemetry.events.close(EVENTS, watch)


def _rows(snapshot: Snapshot, names: Sequence[str], hidden: frozenset[str] = frozenset()) -> Ints:
    """Return the rows of the named ports, of all but `hidden` where none is named; raises NotFoundError."""
    if not names and not hidden:
        return np.arange(len(snapshot.names), dtype=np.int64)
    row_by_name = {name: row for row, name in enumerate(snapshot.names) if name not in hidden}
    if not names:
        return np.array(list(row_by_name.values()), dtype=np.int64)
    for name in names:
        if name not in row_by_name:
            raise NotFoundError(
                f"ports: no port or NIC {quoted(name)}; ports are named SWITCH:NUMBER, NICs by their ids"
            )
    return np.array(sorted({row_by_name[name] for name in names}), dtype=np.int64)


def _fresh(snapshot: Snapshot, rows: Ints, sent: NDArray[np.int64]) -> list[Ints]:
    """Return the rows whose sample is newer or stale since `sent`, in chunks; updates `sent`."""
    stamps = np.column_stack((snapshot.timestamp_ns[rows], snapshot.stale[rows]))
    news = snapshot.heard[rows] & (stamps != sent).any(axis=1)
    sent[news] = stamps[news]
    found = rows[news]
    return [found[first : first + PORTS_AT_ONCE] for first in range(0, found.size, PORTS_AT_ONCE)]


_QUEUE_FIELDS = (*QUEUE_COUNTERS, *QUEUE_GAUGES)
_NIC_COLUMNS = tuple((name, nic_column(name)) for name in NIC_COUNTERS)


def samples_to(snapshot: Snapshot, rows: Ints) -> list[pb.PortSample]:
    """Return the samples of some rows as messages."""
    total = snapshot.total[rows]
    counters = [total[:, queue_columns(name)] for name in QUEUE_COUNTERS]
    counters += [getattr(snapshot, name)[rows] for name in QUEUE_GAUGES]
    queues = np.stack(counters, axis=2)  # (ports, priorities, counters)
    positions, priorities = np.nonzero(queues.any(axis=2))
    heads = zip(
        rows.tolist(),
        snapshot.timestamp_ns[rows].tolist(),
        snapshot.sequence[rows].tolist(),
        snapshot.boot_id[rows].tolist(),
        snapshot.stale[rows].tolist(),
        total.tolist(),
        strict=True,
    )
    link = snapshot.link
    found = [
        pb.PortSample(
            port=snapshot.names[row],
            timestamp_unix_ns=timestamp_ns,
            sequence=sequence,
            boot_id=boot_id,
            stale=stale,
            nic_counters={name: counted[column] for name, column in _NIC_COLUMNS if counted[column]},
            **dict(zip(PORT_COUNTERS, counted[: len(PORT_COUNTERS)], strict=True)),
            **{name: counted[LINK_AT + at] for at, name in enumerate(LINK_COUNTERS) if link.counted[row, at]},
            speed_bps=int(link.speed_bps[row]) or None,
            lanes=int(link.lanes[row]) or None,
        )
        for row, timestamp_ns, sequence, boot_id, stale, counted in heads
    ]
    held = zip(positions.tolist(), priorities.tolist(), queues[positions, priorities].tolist(), strict=True)
    for position, priority, values in held:
        found[position].queues.add(priority=priority, **dict(zip(_QUEUE_FIELDS, values, strict=True)))
    return found


def congestion_to(
    state: State, tick: TelemetryTick, own: State | None = None, hidden: frozenset[str] = frozenset()
) -> pb.ListCongestionReply:
    """Return every raised condition as a message.

    For a tenant, `own` has the jobs whose flows are named, and conditions of `hidden` ports are left out.
    """
    pfc = pfc_queues(tick.snapshot)
    found = [_congestion(one) for one in congestion(state, tick.active, pfc)]
    if own is not None:
        for message, mine in zip(found, congestion(own, tick.active, pfc), strict=True):
            message.ClearField("flow_ids")
            message.flow_ids.extend(mine.flow_ids)
            message.flows = mine.flows
            if message.root_cause.removeprefix(CIRCLE) in hidden:
                message.root_cause = ""
    return pb.ListCongestionReply(congestion=[one for one in found if one.port not in hidden])


def _congestion(found: Congested) -> pb.Congestion:
    signal = found.signal
    return pb.Congestion(
        port=signal.port,
        priority=signal.priority or 0,
        whole_port=signal.priority is None,
        kind=signal.kind.value,
        since_unix_ms=signal.since_unix_ns // 1_000_000,
        value=signal.value,
        threshold=signal.threshold,
        stale=signal.stale,
        flow_ids=found.flow_ids,
        flows=found.flows,
        root_cause=found.root_cause,
    )


def event_to(event: LogEvent) -> pb.Event:
    """Return an event as a message."""
    return pb.Event(
        timestamp_unix_ns=event.timestamp_unix_ns,
        severity=event.severity,
        kind=event.kind,
        subject=event.subject,
        text=event.text,
    )


def _skipped(before: LogEvent, count: int) -> pb.Event:
    text = f"this reader was too slow for {count} events; they are missing here"
    return pb.Event(
        timestamp_unix_ns=before.timestamp_unix_ns, severity="warning", kind="skipped", subject="controller", text=text
    )


def add_to(server: grpc.aio.Server, loop: Loop, telemetry: Telemetry) -> None:
    """Register the service."""
    rpc.add_TelemetryServiceServicer_to_server(TelemetryService(loop, telemetry), server)
