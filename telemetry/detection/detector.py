"""The detector: raise and clear conditions of every port with new samples, for all its priorities.

Consumes the window's `Period` and returns signals in order of kind, port and priority. Each kind, port and priority is
a state machine; those with new samples step together, as array operations:

             over, n-th in a row                        under, m-th in a row
    QUIET ────────────────────────► RAISED      RAISED ────────────────────────► QUIET
      ▲ │ over: run + 1                           ▲ │ under: run + 1
      └─┘ else: run = 0                           └─┘ else: run = 0

`over` and `under` are two thresholds with a gap between them; `thresholds` gives n and m. A port without fresh samples
does not step: its conditions and runs stay as they are. Steps therefore count samples of the port, independent of the
rate of scans, and the cost of a scan grows with the new samples only. `silent` alone depends on staleness: over is a
port that has sent samples and is stale, under a fresh one. Equal periods give equal signals: no clock, no randomness.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.detection.links import Judged, LinkJudge, LinkSamples
from heddle.telemetry.detection.signal import Signal, SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.detection.window import Period
from heddle.telemetry.samples.counters import LINK_AT, PRIORITIES, port_column, queue_columns
from heddle.telemetry.samples.ports import PortTable

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

KINDS = tuple(SignalKind)
WHOLE_PORT = PRIORITIES  # the ninth column of the detector's arrays


class Fresh(NamedTuple):
    """The ports with new samples, one per row: growth of counters (rows, COLUMNS), its interval in ns (rows,).

    watchdog_active (rows, 8): the switch's PFC watchdog has tripped. link: what the samples say of links.
    """

    delta: Words
    interval_ns: Ints
    watchdog_active: Flags
    link: LinkSamples

    def queues(self, name: str) -> Words:
        """Return the growth of a queue counter: (rows, 8)."""
        return self.delta[:, queue_columns(name)]

    def port(self, name: str) -> Words:
        """Return the growth of a port's counter: (rows,)."""
        return self.delta[:, port_column(name)]


class Measured(NamedTuple):
    """One condition of the ports with new samples: the measurements, and which are over and under the thresholds.

    Shapes are (rows, 9), or (rows, 1) for a condition of whole ports only. `certain`: the device itself has detected
    the condition over its own time, so the first period raises it.
    """

    value: Floats
    over: Flags
    under: Flags
    certain: Flags | bool = False


class Detector:
    """The state machines. The owner of the window calls `step` once per scan."""

    def __init__(self, ports: PortTable, settings: DetectorSettings, *, stale_after_ns: int) -> None:
        self.ports, self.settings, self.stale_after_ns = ports, settings, stale_after_ns
        shape = (len(KINDS), len(ports), PRIORITIES + 1)
        self.raised = np.zeros(shape, dtype=np.bool_)
        self.since_ns = np.zeros(shape, dtype=np.int64)
        self.value = np.zeros(shape, dtype=np.float32)
        self._run = np.zeros(shape, dtype=np.int16)
        self._links = LinkJudge(ports.rates_bps, settings)
        self._measures: dict[SignalKind, Callable[[Fresh], Measured]] = {
            SignalKind.CONGESTION: self._congestion,
            SignalKind.PAUSING: self._pausing,
            SignalKind.STORM: self._storm,
            SignalKind.DROP: self._drop,
            SignalKind.LOSS: lambda fresh: _whole_port(self._links.loss(fresh.link)),
            SignalKind.SLOW: lambda fresh: _whole_port(self._links.slow(fresh.link)),
        }

    def keep(self, kind: SignalKind, port: str, value: float, since_ns: int) -> None:
        """Begin with a condition of a link that was raised before the start: it stays so until it is cleared."""
        row = self.ports.row(port)
        if row is not None:
            number = KINDS.index(kind)
            self.raised[number, row, WHOLE_PORT] = True
            self.since_ns[number, row, WHOLE_PORT] = since_ns
            self.value[number, row, WHOLE_PORT] = value
            self._links.keep(kind, row, value)

    def step(self, period: Period) -> tuple[Signal, ...]:
        """Scan one period; return the signals that it raised and cleared."""
        signals: list[Signal] = []
        rows = np.flatnonzero(period.fresh)
        if rows.size:
            fresh = _fresh(period, rows)
            for kind, measure in self._measures.items():
                signals += self._step(kind, rows, measure(fresh), period)
        known = np.flatnonzero(period.fresh | period.stale)
        if known.size:
            signals += self._step(SignalKind.SILENT, known, _silent(period, known), period)
        return tuple(signals)

    def active(self, period: Period) -> tuple[Signal, ...]:
        """Return every raised condition; those of stale ports are marked."""
        return tuple(
            self._signal(number, int(row), int(column), period)
            for number in range(len(KINDS))
            for row, column in np.argwhere(self.raised[number])
        )

    def _step(self, kind: SignalKind, rows: Ints, measured: Measured, period: Period) -> list[Signal]:
        number, first = KINDS.index(kind), PRIORITIES + 1 - measured.value.shape[1]
        raised, run = self.raised[number][rows, first:], self._run[number][rows, first:]
        run = np.where(np.where(raised, measured.under, measured.over), run + 1, 0)
        raise_after, clear_after = self.settings.periods(kind)
        run = np.where(measured.certain & ~raised, raise_after, run)
        changed = run >= np.where(raised, clear_after, raise_after)
        run[changed] = 0
        self._run[number][rows, first:] = run
        self.value[number][rows, first:] = measured.value
        if not changed.any():
            return []
        at, columns = np.nonzero(changed)
        ports, columns = rows[at], columns + first
        self.raised[number, ports, columns] ^= True
        begun = self.raised[number, ports, columns]
        self.since_ns[number, ports[begun], columns[begun]] = period.now_ns
        return [self._signal(number, int(row), int(column), period) for row, column in zip(ports, columns, strict=True)]

    def _signal(self, number: int, row: int, column: int, period: Period) -> Signal:
        kind, raised = KINDS[number], bool(self.raised[number, row, column])
        high, low = self.settings.thresholds(kind, self.stale_after_ns)
        return Signal(
            kind=kind,
            port=self.ports.names[row],
            priority=None if column == WHOLE_PORT else column,
            raised=raised,
            value=float(self.value[number, row, column]),
            threshold=high if raised else low,
            since_unix_ns=int(self.since_ns[number, row, column]),
            sampled_unix_ns=int(period.timestamp_ns[row]),
            stale=bool(period.stale[row]),
        )

    def _congestion(self, fresh: Fresh) -> Measured:
        settings = self.settings
        marked, packets = fresh.queues("ecn_marked_packets"), fresh.queues("packets")
        # If a source counts no packets per queue, use those of the port, which are not fewer.
        sent = np.maximum(np.where(packets > 0, packets, fresh.port("tx_packets")[:, None]), marked)
        share = marked / np.maximum(sent, 1)
        over = (share >= settings.congestion_raise_share) & (sent >= settings.congestion_min_packets)
        return _queues(share, over, share <= settings.congestion_clear_share)

    def _pausing(self, fresh: Fresh) -> Measured:
        settings = self.settings
        share = _paused_share(fresh)
        frames = fresh.queues("pfc_rx_frames") + fresh.queues("pfc_tx_frames")
        per_s = frames * 1e9 / np.maximum(fresh.interval_ns, 1)[:, None]
        over = (share >= settings.pausing_raise_share) | (per_s >= settings.pausing_raise_frames_per_s)
        under = (share <= settings.pausing_clear_share) & (per_s <= settings.pausing_clear_frames_per_s)
        # The reported value is a share of time; where frames alone decide, one that is as far over its threshold.
        as_share = per_s / settings.pausing_raise_frames_per_s * settings.pausing_raise_share
        return _queues(np.where(share > 0, share, as_share), over, under)

    def _storm(self, fresh: Fresh) -> Measured:
        settings = self.settings
        active, still = fresh.watchdog_active, fresh.queues("packets") == 0
        # A switch may count no pause that its watchdog ignores.
        share = np.where(active, 1.0, _paused_share(fresh))
        over = (share >= settings.storm_raise_share) & (still | active)
        under = ((share <= settings.storm_clear_share) | ~still) & ~active
        return _queues(share, over, under, active)

    def _drop(self, fresh: Fresh) -> Measured:
        dropped, drops = fresh.queues("dropped_packets"), fresh.port("drops")
        of_queues = dropped.sum(axis=1, dtype=np.uint64)
        # The port's counter may include those of its queues; only the excess counts for the whole port.
        beyond = np.where(drops > of_queues, drops - of_queues, 0)
        value = np.column_stack((dropped, beyond)).astype(np.float64)
        return Measured(value, value >= self.settings.drop_raise_packets, value <= self.settings.drop_clear_packets)


def _fresh(period: Period, rows: Ints) -> Fresh:
    delta, interval_ns, link = period.delta[rows], period.interval_ns[rows], period.link
    samples = LinkSamples(
        rows=rows, interval_ns=interval_ns, timestamp_ns=period.timestamp_ns[rows],
        rx_packets=delta[:, port_column("rx_packets")], grown=delta[:, LINK_AT:], counted=link.counted[rows],
        speed_bps=link.speed_bps[rows], lanes=link.lanes[rows], carrier=link.carrier[rows],
    )  # fmt: skip
    return Fresh(delta, interval_ns, period.watchdog_active[rows], samples)


def _whole_port(judged: Judged) -> Measured:
    """Return a condition of whole ports."""
    return Measured(judged.share[:, None], judged.over[:, None], judged.under[:, None])


def _paused_share(fresh: Fresh) -> Floats:
    """Return the share of time for which each queue was paused, 0 to 1: (ports, 8)."""
    interval = np.maximum(fresh.interval_ns, 1)[:, None]
    share: Floats = np.minimum(fresh.queues("paused_ns") / interval, 1.0)
    return share


def _queues(value: Floats, over: Flags, under: Flags, certain: Flags | None = None) -> Measured:
    """Extend a condition of queues to nine columns; the column of the whole port stays quiet."""
    rows = value.shape[0]
    false = np.zeros((rows, 1), dtype=np.bool_)
    return Measured(
        np.column_stack((value, np.zeros(rows))),
        np.hstack((over, false)),
        np.hstack((under, ~false)),
        False if certain is None else np.hstack((certain, false)),
    )


def _silent(period: Period, rows: Ints) -> Measured:
    """Measure the seconds since the last sample of the given ports."""
    since = (period.now_ns - period.timestamp_ns[rows]) / 1e9
    return Measured(since[:, None], period.stale[rows, None], period.fresh[rows, None])
